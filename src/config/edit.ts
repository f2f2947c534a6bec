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

/** Changes that the service makes to `config.jsonc`. Everything else in the file stays, including its comments. */

export type Edit = readonly [path: JSONPath, value: unknown];

const formattingOptions = { insertSpaces: true, tabSize: 2, eol: "\n" };

/**
 * Replaces the file atomically, and only if `check`, which gets the path of the draft, does not throw. A symbolic link
 * stays a link. `secret`: afterwards only the owner can read the file; otherwise it keeps its mode.
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
    // A draft left over from a crash may be readable by others, or be a link to elsewhere.
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
