import { type ChangeData, type FileData, parseDiff } from "react-diff-view";

/** The files of a diff: their names and sizes, in folders as a project has them. */

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

/** The path that it has now; of a deleted one, that it had. */
export const nowAt = ({ oldPath, newPath, type }: FileData): string => (type === "delete" ? oldPath : newPath);

export const pathOf = (file: FileData): string =>
  file.type === "rename" && file.oldPath !== file.newPath ? `${file.oldPath} → ${file.newPath}` : nowAt(file);

export const idOf = (file: FileData): string => `file-${pathOf(file).replaceAll(/[^\w.-]/g, "_")}`;

/** Rows that its table has, whatever the layout. */
export const rowsOf = ({ hunks }: FileData): number => hunks.reduce((sum, { changes }) => sum + changes.length, 0);

/** Files with more rows open on request. */
const openRows = 600;

const generated =
  /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|Cargo\.lock|poetry\.lock|uv\.lock|go\.sum|composer\.lock|Gemfile\.lock)$|\.(?:min\.(?:js|css)|map|snap)$|(?:^|\/)(?:dist|vendor|node_modules|__snapshots__)\//;

/** Why it is not opened at first; undefined: it is. */
export const foldedFor = (file: FileData): string | undefined =>
  generated.test(nowAt(file)) ? "generated" : rowsOf(file) > openRows ? "large" : undefined;

/** The number of a line, in the file that has it. */
export const lineOf = (change: ChangeData): number =>
  change.type === "normal" ? change.newLineNumber : change.lineNumber;

export type Folder = { name: string; path: string; folders: Folder[]; files: FileData[] };

/** Folders with nothing but one folder in them are one. */
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

/** As the tree shows them: the files of a folder come after its folders. */
export const inOrder = (folder: Folder): FileData[] => [...folder.folders.flatMap(inOrder), ...folder.files];
