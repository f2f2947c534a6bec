import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git } from "../../harness/project.ts";
import type { Stage } from "./stage.ts";

/** One thing that a service is made to do, with input at the bound of what it takes. */
export type Load = {
  name: string;
  /** Tools, and rows of `limits`, that it drives to their bound. */
  drives: readonly string[];
  /** It takes three seconds at most, so that it may be one of those that run by day. */
  short?: true;
  /** Configuration that the service needs for it, which then is another one than the others have. */
  config?: Record<string, unknown>;
  run: (stage: Stage) => Promise<unknown>;
};

export const mib = 1024 ** 2;

/** A repository whose first commit has these files; `more` fills it with what the commit does not have. */
export const projectOf = (
  stage: Stage,
  files: Record<string, string | Buffer>,
  more: (folder: string) => void = () => undefined,
): string => {
  const folder = stage.folder();
  mkdirSync(folder);
  git(folder, "init", "-q", "-b", "main");
  for (const [path, content] of Object.entries(files)) put(folder, path, content);
  git(folder, "add", "-A");
  git(folder, "commit", "-q", "--allow-empty", "-m", "first");
  more(folder);
  return folder;
};

export const put = (folder: string, path: string, content: string | Buffer): void => {
  mkdirSync(join(folder, path, ".."), { recursive: true });
  writeFileSync(join(folder, path), content);
};

/** So many small files, a thousand in a folder. */
export const putMany = (folder: string, count: number, text = (n: number) => `needle ${n}\n`): void => {
  for (let n = 0; n < count; n += 1) {
    if (n % 1000 === 0) mkdirSync(join(folder, `d${n / 1000}`), { recursive: true });
    writeFileSync(join(folder, `d${Math.floor(n / 1000)}`, `file-${n}.txt`), text(n));
  }
};

/** Lines that differ, of so many bytes in all. */
export const linesOf = (bytes: number, word = "line"): string => {
  const lines: string[] = [];
  for (let size = 0; size < bytes; size += lines.at(-1)?.length ?? 0) lines.push(`${word} ${lines.length}\n`);
  return lines.join("").slice(0, bytes);
};

/** Values nested so deep, as JSON: no literal, as its making would end the stack. */
export const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;
