import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { applyEdits, type JSONPath, modify } from "jsonc-parser";

/** Changes to `config.jsonc` by the service's own hand. What else is in the file stays, with its comments. */

export type Edit = readonly [path: JSONPath, value: unknown];

const formattingOptions = { insertSpaces: true, tabSize: 2, eol: "\n" };

/**
 * Replaces the file in one step, and only by one that `check` accepts: it gets the draft's path, and throws. A symbolic
 * link stays a link. `secret`: from now on nobody but the owner reads it; else the mode that it has stays.
 */
export const editConfig = (
  path: string,
  edits: readonly Edit[],
  check: (draft: string) => void,
  { secret }: { secret: boolean },
): void => {
  const before = existsSync(path) ? readFileSync(path, "utf8") : "";
  const text = edits.reduce(
    (whole, [at, value]) => applyEdits(whole, modify(whole, at, value, { formattingOptions })),
    before.trim() === "" ? "{}\n" : before,
  );
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const file = existsSync(path) ? realpathSync(path) : path;
  const draft = `${file}.draft`;
  try {
    // One that is left over may be readable by others, or lead elsewhere.
    rmSync(draft, { force: true });
    const to = openSync(draft, "wx", 0o600);
    try {
      writeSync(to, text);
      fsyncSync(to);
    } finally {
      closeSync(to);
    }
    if (!secret && existsSync(file)) chmodSync(draft, statSync(file).mode & 0o777);
    check(draft);
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
};
