import { attachmentFolder, attachmentPaths } from "../../domain/attachment.ts";
import { messageOf } from "../../error.ts";
import { createFiles, type Files } from "../../workspace/file/files.ts";
import { pruneFolders } from "../../workspace/file/folder.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/**
 * The files that came with messages, written into the workspace before the first tool could want them. The folder ignores
 * itself, so they are in no commit, no diff and no archive; where a Task works in the user's own directory they go with the run.
 */

/** The paths written into a workspace, by message: one that is made anew gets them again. */
const placed = new WeakMap<Workspace, Map<string, string[]>>();

export const withAttachments = async (run: Run): Promise<Workspace> => {
  const workspace = await run.workspace();
  const said = [...run.chat.said, ...run.chat.unread.map(({ message }) => message), ...run.chat.queued];
  const sent = said.flatMap((message) => (message.role === "user" && message.attachments.length > 0 ? [message] : []));
  // The rules read attachments themselves.
  if (sent.length === 0 || run.state().model === "builtin/rules-1") return workspace;
  const done = placed.get(workspace) ?? new Map<string, string[]>();
  placed.set(workspace, done);
  const files = filesOf(workspace);
  for (const { messageID, attachments } of sent) {
    if (done.has(messageID)) continue;
    if (await isTheirs(files)) {
      run.log.warn({ task: run.stream }, `attachments are not written: the project has its own ${attachmentFolder}`);
      break;
    }
    const names = attachments.map(({ filename }) => filename);
    const paths = attachmentPaths(messageID, names);
    done.set(messageID, paths);
    try {
      await files.write(ignore, everything);
      for (const [index, { sha256 }] of attachments.entries()) {
        const bytes = await run.store.blobs.get(sha256);
        if (bytes !== undefined) await files.write(paths[index] ?? "", bytes);
      }
    } catch (error) {
      // The conversation still holds what can be shown of them.
      run.log.warn(
        { task: run.stream, error: messageOf(error) },
        "attachments could not be written into the workspace",
      );
    }
  }
  return workspace;
};

/** Takes them away again from a directory that is the user's own. */
export const withoutAttachments = async (run: Run): Promise<void> => {
  if (run.state().isolation !== "directory") return;
  const workspace = await run.workspace().catch(() => undefined);
  const paths = workspace && [...(placed.get(workspace)?.values() ?? [])].flat();
  if (workspace === undefined || paths === undefined || paths.length === 0) return;
  placed.delete(workspace);
  const files = filesOf(workspace);
  for (const path of [...paths, ignore]) await files.remove(path).catch(() => {});
  for (const folder of new Set(paths.map((path) => path.slice(0, path.lastIndexOf("/")))))
    pruneFolders(workspace.root, folder);
};

/** A project that keeps files of its own there keeps them. */
const isTheirs = async (files: Files): Promise<boolean> => {
  const entries = await files.list(attachmentFolder, { limit: 1 }).catch(() => undefined);
  const ours = await files.read(ignore, 100).catch(() => undefined);
  return entries !== undefined && entries.entries.length > 0 && ours?.bytes.toString() !== everything;
};

const everything = "*\n";
const ignore = `${attachmentFolder}/.gitignore`;
/** Names that usually hold secrets too: the user sent them. */
const filesOf = ({ root }: Workspace) => createFiles(root, () => false);
