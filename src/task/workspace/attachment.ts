import { attachmentFolder, attachmentPaths } from "../../domain/attachment.ts";
import { messageOf } from "../../error.ts";
import { createTreeFiles, type Files } from "../../workspace/file/files.ts";
import { pruneFolders } from "../../workspace/file/folder.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/**
 * Writes files that came with messages into the workspace, before the first tool could need them. Their folder contains
 * a `.gitignore` for itself, so they are in no commit, diff or archive; where a Task works in the user's directory they
 * are removed at the end of the run.
 */

/** Paths written into a workspace, by message; a new workspace object has none, so the files are written again. */
const placed = new WeakMap<Workspace, Map<string, string[]>>();

export const withAttachments = async (run: Run): Promise<Workspace> => {
  const workspace = await run.workspace();
  const said = [...run.chat.said, ...run.chat.unread.map(({ message }) => message), ...run.chat.queued];
  const sent = said.flatMap((message) => (message.role === "user" && message.attachments.length > 0 ? [message] : []));
  // The built-in model reads attachments itself.
  if (sent.length === 0 || run.state().model === "builtin/rules-1") return workspace;
  const done = placed.get(workspace) ?? new Map<string, string[]>();
  placed.set(workspace, done);
  const files = filesOf(workspace);
  for (const { messageID, attachments } of sent) {
    if (done.has(messageID)) continue;
    if (await isTheirs(files)) {
      run.log.warn(
        { task: run.stream },
        `attachments are not written, because the project has its own ${attachmentFolder}`,
      );
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

/** Removes them from a directory that is the user's. */
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

/** The project has files of its own in that folder; they are left alone. */
const isTheirs = async (files: Files): Promise<boolean> => {
  const entries = await files.list(attachmentFolder, { limit: 1 }).catch(() => undefined);
  const ours = await files.read(ignore, 100).catch(() => undefined);
  return entries !== undefined && entries.entries.length > 0 && ours?.bytes.toString() !== everything;
};

const everything = "*\n";
const ignore = `${attachmentFolder}/.gitignore`;
/** File names that usually hold secrets are allowed here, because the user sent these files. */
const filesOf = ({ root }: Workspace) => createTreeFiles(root, () => false);
