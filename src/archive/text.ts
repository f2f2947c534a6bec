import { Readable } from "node:stream";
import type { FlowFile } from "../domain/view/archive.ts";
import { pace } from "../pace.ts";
import type { AddedEntry, Zip } from "./zip.ts";

/** Writes JSON into an archive in small steps, because values may have very many parts. */

/** Adds a file; `done` resolves once it is written. */
export const addText = async (
  zip: Zip,
  name: string,
  parts: readonly Buffer[],
): Promise<{ done: Promise<AddedEntry> }> =>
  zip.add(name, 0o100644, parts.length === 1 ? (parts[0] ?? Buffer.alloc(0)) : Readable.from(parts));

/** The size of a part, in characters. */
const partChars = 256 * 1024;

const createParts = () => {
  const parts: Buffer[] = [];
  let text = "";
  const close = () => {
    parts.push(Buffer.from(text));
    text = "";
  };
  return {
    add(more: string) {
      text += more;
      if (text.length >= partChars) close();
    },
    end(): Buffer[] {
      if (text !== "" || parts.length === 0) close();
      return parts;
    },
  };
};

export const partsOf = async (file: FlowFile): Promise<Buffer[]> =>
  "lines" in file ? linesOf(file.lines) : jsonOf(file.json);

const linesOf = async (values: readonly unknown[]): Promise<Buffer[]> => {
  const parts = createParts();
  for (const value of values) {
    parts.add(`${JSON.stringify(value)}\n`);
    await pace();
  }
  return parts.end();
};

const indented = (value: unknown, by: string): string =>
  (JSON.stringify(value, null, 2) ?? "null").replaceAll("\n", `\n${by}`);

/** The same text as `JSON.stringify(value, null, 2)` and a newline, in parts. */
export const jsonOf = async (value: unknown): Promise<Buffer[]> => {
  const parts = createParts();
  if (typeof value !== "object" || value === null || Array.isArray(value)) parts.add(JSON.stringify(value, null, 2));
  else {
    const fields = Object.entries(value).filter(([, field]) => field !== undefined);
    parts.add(fields.length === 0 ? "{}" : "{");
    for (const [index, [key, field]] of fields.entries()) {
      parts.add(`${index === 0 ? "" : ","}\n  ${JSON.stringify(key)}: `);
      if (!Array.isArray(field) || field.length === 0) parts.add(indented(field, "  "));
      else {
        for (const [at, item] of field.entries()) {
          parts.add(`${at === 0 ? "[" : ","}\n    ${indented(item, "    ")}`);
          await pace();
        }
        parts.add("\n  ]");
      }
    }
    if (fields.length > 0) parts.add("\n}");
  }
  parts.add("\n");
  return parts.end();
};
