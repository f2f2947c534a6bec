import { createHash } from "node:crypto";

/** Computes the id that Git gives to a tree, from the paths, modes and object ids of its files alone. */

export type Blob = { path: string; mode: string; object: string };

type Node = { mode: string; object: string } | Map<string, Node>;

/** undefined: a path is not UTF-8, or lies below another file. */
export const treeOf = (blobs: readonly Blob[], algorithm: "sha1" | "sha256"): string | undefined => {
  const root = new Map<string, Node>();
  for (const { path, mode, object } of blobs) {
    if (!path.isWellFormed()) return undefined;
    const parts = path.split("/");
    const name = parts.pop() ?? "";
    let folder = root;
    for (const part of parts) {
      const next = folder.get(part) ?? new Map<string, Node>();
      if (!(next instanceof Map)) return undefined;
      folder.set(part, next);
      folder = next;
    }
    if (folder.has(name)) return undefined;
    folder.set(name, { mode, object });
  }
  return idOf(root, algorithm);
};

const idOf = (folder: ReadonlyMap<string, Node>, algorithm: "sha1" | "sha256"): string => {
  // Git sorts by bytes, and sorts a folder as if its name ended with a slash.
  const entries = [...folder]
    .map(([name, node]) => ({
      name: Buffer.from(name),
      key: Buffer.from(node instanceof Map ? `${name}/` : name),
      node,
    }))
    .toSorted((a, b) => Buffer.compare(a.key, b.key));
  const parts = entries.flatMap(({ name, node }) => {
    const { mode, object } = node instanceof Map ? { mode: "40000", object: idOf(node, algorithm) } : node;
    return [Buffer.from(`${mode} `), name, Buffer.of(0), Buffer.from(object, "hex")];
  });
  const body = Buffer.concat(parts);
  return createHash(algorithm).update(`tree ${body.length}\0`).update(body).digest("hex");
};
