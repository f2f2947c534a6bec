import { FileRefused, type Files } from "../../workspace/file/files.ts";

/** Changes several files together: all of them, or none. */

export type Content = { bytes: Buffer; executable: boolean };

export type Change = { path: string; before: Content | null; after: Content | null };

const maxFileBytes = 64 * 1024 * 1024;

/** null: nothing is there. Rejects with FileRefused for anything but a regular file in the project. */
export const contentOf = async (files: Files, path: string): Promise<Content | null> => {
  try {
    return await files.read(path, maxFileBytes);
  } catch (error) {
    if (error instanceof FileRefused && error.kind === "missing") return null;
    throw error;
  }
};

export const sameContent = (left: Content | null, right: Content | null): boolean =>
  left === null || right === null
    ? left === right
    : left.executable === right.executable && left.bytes.equals(right.bytes);

/**
 * Applies the changes. Removals come last, so that a crash in between loses no content, except removals that make room:
 * a file may become a folder, and the reverse. On a refusal everything is restored.
 */
export const change = async (files: Files, changes: readonly Change[]): Promise<void> => {
  const writes = changes.filter(({ after }) => after !== null);
  const inTheWay = ({ path, after }: Change) =>
    after === null && writes.some((write) => write.path.startsWith(`${path}/`) || path.startsWith(`${write.path}/`));
  const first = changes.filter(inTheWay);
  const last = changes.filter((item) => item.after === null && !first.includes(item));
  const done: Change[] = [];
  try {
    for (const item of [...first, ...writes, ...last]) {
      await put(files, item.path, item.after);
      done.push(item);
    }
  } catch (error) {
    for (const { path, before } of done.reverse()) await put(files, path, before);
    throw error;
  }
};

const put = async (files: Files, path: string, content: Content | null): Promise<void> => {
  if (content !== null) {
    await files.write(path, content.bytes, { executable: content.executable });
    return;
  }
  await files.remove(path);
  await removeEmptyFolders(files, path);
};

/** Git tracks no empty folders: a folder that lost its last file is removed, as by `git mv` and `git rm`. */
const removeEmptyFolders = async (files: Files, path: string): Promise<void> => {
  const parents = path.split("/").slice(0, -1);
  for (let depth = parents.length; depth > 0; depth -= 1)
    try {
      await files.remove(parents.slice(0, depth).join("/"));
    } catch (error) {
      if (error instanceof FileRefused) return;
      throw error;
    }
};

export type Tree = Map<string, Content | null>;

export type Fitted = { ok: true; tree: Tree } | { ok: false; why: string };
