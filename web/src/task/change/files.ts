import { type ChangeData, type FileData, parseDiff } from "react-diff-view";

/** The files of a diff: names, sizes, and the folders that they are in. */

export const parse = (text: string): FileData[] => {
  try {
    return text.trim() === "" ? [] : parseDiff(text, { nearbySequences: "zip" });
  } catch {
    return [];
  }
};

export type Size = { added: number; removed: number };

const sizes = new WeakMap<FileData, Size>();

export const sizeOf = (file: FileData): Size => {
  const known = sizes.get(file);
  if (known !== undefined) return known;
  const size = { added: 0, removed: 0 };
  for (const { changes } of file.hunks)
    for (const { type } of changes)
      if (type === "insert") size.added += 1;
      else if (type === "delete") size.removed += 1;
  sizes.set(file, size);
  return size;
};

export const sumOf = (files: readonly FileData[]): Size =>
  files
    .map(sizeOf)
    .reduce((sum, { added, removed }) => ({ added: sum.added + added, removed: sum.removed + removed }), {
      added: 0,
      removed: 0,
    });

/** The file's present path; for a deleted file, its former path. */
export const nowAt = ({ oldPath, newPath, type }: FileData): string => (type === "delete" ? oldPath : newPath);

export const pathOf = (file: FileData): string =>
  file.type === "rename" && file.oldPath !== file.newPath ? `${file.oldPath} → ${file.newPath}` : nowAt(file);

export const idOf = (file: FileData): string => `file-${pathOf(file).replaceAll(/[^\w.-]/g, "_")}`;

/** The number of rows in the file's table, in any layout. */
export const rowsOf = ({ hunks }: FileData): number => hunks.reduce((sum, { changes }) => sum + changes.length, 0);

/** Files with more rows are opened on request only. */
const openRows = 600;

const generated =
  /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|Cargo\.lock|poetry\.lock|uv\.lock|go\.sum|composer\.lock|Gemfile\.lock)$|\.(?:min\.(?:js|css)|map|snap)$|(?:^|\/)(?:dist|vendor|node_modules|__snapshots__)\//;

/** Why the file is folded at first; undefined: it is open. */
export const foldedFor = (file: FileData): string | undefined =>
  generated.test(nowAt(file)) ? "generated" : rowsOf(file) > openRows ? "large" : undefined;

/** The line's number in the new file; for a removed line, in the old one. */
export const lineOf = (change: ChangeData): number =>
  change.type === "normal" ? change.newLineNumber : change.lineNumber;

export type Folder = { name: string; path: string; folders: Folder[]; files: FileData[] };

/** The tree of folders. A folder that contains nothing but one folder is joined with it. */
export const treeOf = (files: readonly FileData[]): Folder => {
  const root: Folder = { name: "", path: "", folders: [], files: [] };
  for (const file of files) {
    const names = nowAt(file).split("/").slice(0, -1);
    let at = root;
    for (const name of names) {
      const path = at.path === "" ? name : `${at.path}/${name}`;
      const known = at.folders.find((folder) => folder.path === path);
      const next = known ?? { name, path, folders: [], files: [] };
      if (known === undefined) at.folders.push(next);
      at = next;
    }
    at.files.push(file);
  }
  return { ...root, folders: root.folders.map(joined) };
};

const joined = (folder: Folder): Folder => {
  const [only] = folder.folders;
  if (only !== undefined && folder.folders.length === 1 && folder.files.length === 0)
    return joined({ ...only, name: `${folder.name}/${only.name}` });
  return { ...folder, folders: folder.folders.map(joined) };
};

/** The files in the tree's order: the files of a folder come after its subfolders. */
export const inOrder = (folder: Folder): FileData[] => [...folder.folders.flatMap(inOrder), ...folder.files];
