import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";

/** Git objects and packs made by hand (gitformat-pack(5)), with what no git would write. */

const kinds = { commit: 1, tree: 2, blob: 3, tag: 4 } as const;

export type Made = { type: keyof typeof kinds; body: Buffer };

export const idOf = ({ type, body }: Made): string =>
  createHash("sha1").update(`${type} ${body.length}\0`).update(body).digest("hex");

export const blob = (text: string | Buffer): Made => ({ type: "blob", body: Buffer.from(text) });

/** `[mode, name, id]`, in this order and as they stand. */
export type Entry = readonly [mode: string, name: string | Buffer, id: string];

export const treeOf = (entries: readonly Entry[]): Made => ({
  type: "tree",
  body: Buffer.concat(
    entries.flatMap(([mode, name, id]) => [
      Buffer.from(`${mode} `),
      Buffer.from(name),
      Buffer.of(0),
      Buffer.from(id, "hex"),
    ]),
  ),
});

export const commitOf = (tree: string, parents: readonly string[], message = "x"): Made => {
  const person = "Agent <agent@example.org> 1700000000 +0000";
  const lines = [`tree ${tree}`, ...parents.map((id) => `parent ${id}`), `author ${person}`, `committer ${person}`];
  return { type: "commit", body: Buffer.from(`${lines.join("\n")}\n\n${message}\n`) };
};

/** The type and the size of an entry of a pack, before its bytes. */
export const entryHead = (kind: number, size: number): Buffer => {
  const bytes: number[] = [];
  let left = Math.floor(size / 16);
  let byte = (kind << 4) | (size & 15);
  for (; left > 0; left = Math.floor(left / 128)) {
    bytes.push(byte | 0x80);
    byte = left % 128;
  }
  return Buffer.from([...bytes, byte]);
};

export const entryOf = ({ type, body }: Made): Buffer =>
  Buffer.concat([entryHead(kinds[type], body.length), deflateSync(body)]);

/** A difference to the object with this id (REF_DELTA). */
export const deltaOf = (base: string, delta: Buffer): Buffer =>
  Buffer.concat([entryHead(7, delta.length), Buffer.from(base, "hex"), deflateSync(delta)]);

const sizeOf = (size: number): Buffer => {
  const bytes: number[] = [];
  for (let left = size; ; left = Math.floor(left / 128)) {
    if (left < 128) return Buffer.from([...bytes, left]);
    bytes.push((left % 128) | 0x80);
  }
};

/** Instructions that insert the text, after sizes as they are said to be. */
export const insertion = (baseSize: number, resultSize: number, text: string): Buffer =>
  Buffer.concat([sizeOf(baseSize), sizeOf(resultSize), Buffer.of(text.length), Buffer.from(text)]);

export const packOf = (
  entries: readonly Buffer[],
  { count = entries.length, version = 2, magic = "PACK" } = {},
): Buffer => {
  const head = Buffer.alloc(12);
  head.write(magic);
  head.writeUInt32BE(version, 4);
  head.writeUInt32BE(count, 8);
  const bytes = Buffer.concat([head, ...entries]);
  return Buffer.concat([bytes, createHash("sha1").update(bytes).digest()]);
};

export const packed = (...objects: readonly Made[]): Buffer => packOf(objects.map(entryOf));
