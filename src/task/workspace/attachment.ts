import { attachmentFolder, attachmentPaths } from "../../domain/attachment.ts";
import { messageOf } from "../../error.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import { openBlob } from "../../store/blob/piece.ts";
import { createTreeFiles, type Files } from "../../workspace/file/files.ts";
import { pruneFolders } from "../../workspace/file/folder.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/**
 * Writes files that were sent with messages into the workspace, before the first tool could need them. Their folder
 * ignores itself with a `.gitignore`, so they are in no commit, diff or archive; when a Task works in the user's
 * directory, they are removed at the end of the run.
 */

type Sent = { messageID: string; attachments: readonly AttachmentRef[] };

/** Paths written into a workspace, by message; a new workspace object has none, so the files are written again. */
const placed = new WeakMap<Workspace, Map<string, string[]>>();

export const withAttachments = async (run: Run): Promise<Workspace> => {
  const workspace = await run.workspace();
  const sent = sentWith(run);
  if (sent.length === 0) return workspace;
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
    const paths = pathsOf({ messageID, attachments });
    done.set(messageID, paths);
    try {
      await files.write(ignore, everything);
      for (const [index, attachment] of attachments.entries()) {
        const content = await openBlob(run.store.blobs, attachment);
        if (content !== undefined) await files.write(paths[index] ?? "", content.pieces);
      }
    } catch (error) {
      // The conversation still has the files, as far as they can be shown.
      run.log.warn(
        { task: run.stream, error: messageOf(error) },
        "attachments could not be written into the workspace",
      );
    }
  }
  return workspace;
};

/**
 * Removes the attachments from the user's directory, including those of a run that was killed: only the Task's log says
 * which files they are.
 */
export const withoutAttachments = async (run: Run): Promise<void> => {
  if (run.state().isolation !== "directory") return;
  const workspace = await run.workspace().catch(() => undefined);
  if (workspace === undefined) return;
  const written = [...(placed.get(workspace)?.values() ?? [])].flat();
  const paths = [...new Set([...written, ...sentWith(run).flatMap(pathsOf)])];
  placed.delete(workspace);
  const files = filesOf(workspace);
  if (paths.length === 0 || !(await isOurs(files))) return;
  for (const path of [...paths, ignore]) await files.remove(path).catch(() => {});
  for (const folder of new Set(paths.map((path) => path.slice(0, path.lastIndexOf("/")))))
    pruneFolders(workspace.root, folder);
};

/** The messages whose attachments are to be written. The built-in model reads attachments itself. */
const sentWith = (run: Run): Sent[] => {
  if (run.state().model === "builtin/rules-1") return [];
  const said = [...run.chat.said, ...run.chat.unread.map(({ message }) => message), ...run.chat.queued];
  return said.flatMap((message) => (message.role === "user" && message.attachments.length > 0 ? [message] : []));
};

const pathsOf = ({ messageID, attachments }: Sent): string[] =>
  attachmentPaths(
    messageID,
    attachments.map(({ filename }) => filename),
  );

/** Whether the project has files of its own in that folder; they are left alone. */
const isTheirs = async (files: Files): Promise<boolean> => {
  const entries = await files.list(attachmentFolder, { limit: 1 }).catch(() => undefined);
  return entries !== undefined && entries.entries.length > 0 && !(await isOurs(files));
};

const isOurs = async (files: Files): Promise<boolean> =>
  (await files.read(ignore, 100).catch(() => undefined))?.bytes.toString() === everything;

const everything = "*\n";
const ignore = `${attachmentFolder}/.gitignore`;
/** File names that usually hold secrets are allowed here, because the user sent these files. */
const filesOf = ({ root }: Workspace) => createTreeFiles(root, () => false);
