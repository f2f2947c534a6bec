import childProcess, { type ChildProcess } from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/**
 * Says what a process has just done to the world outside of its log: files that it wrote, moved or removed, processes
 * that began or ended. To be called before the service is loaded; the service itself knows nothing of it.
 */

type Call = (...args: unknown[]) => unknown;
type Tell = (effect: string) => void;

const promised =
  "appendFile chmod copyFile cp link mkdir mkdtemp rename rm rmdir symlink truncate unlink utimes writeFile".split(" ");
const sync = promised.map((name) => `${name}Sync`);
const ofHandle = ["appendFile", "datasync", "sync", "truncate", "write", "writeFile"];

const effectOf = (name: string, about: unknown): string =>
  `${name} ${typeof about === "string" ? (about.split("/").at(-1) ?? "") : ""}`.trim();

let within = false;

const afterSync = (holder: Record<string, unknown>, name: string, tell: Tell): void => {
  const original = holder[name] as Call;
  holder[name] = function (this: unknown, ...args: unknown[]) {
    // One that is made of others, or is ours, is not told again.
    if (within) return original.apply(this, args);
    within = true;
    try {
      const result = original.apply(this, args);
      tell(effectOf(name, args.at(name.startsWith("rename") ? 1 : 0)));
      return result;
    } finally {
      within = false;
    }
  };
};

const afterPromise = (holder: Record<string, unknown>, name: string, tell: Tell): void => {
  const original = holder[name] as Call;
  holder[name] = async function (this: unknown, ...args: unknown[]) {
    const result = await original.apply(this, args);
    tell(effectOf(name, args.at(name.startsWith("rename") ? 1 : 0)));
    return result;
  };
};

export const watchEffects = async (tell: Tell): Promise<void> => {
  const promises = fs.promises as unknown as Record<string, unknown>;
  for (const name of promised) afterPromise(promises, name, tell);
  for (const name of sync) afterSync(fs, name, tell);
  const handle = await fs.promises.open("/dev/null");
  const prototype = Object.getPrototypeOf(handle) as Record<string, unknown>;
  await handle.close();
  for (const name of ofHandle) afterPromise(prototype, name, tell);
  for (const name of ["spawn", "execFile"] as const) {
    const original = childProcess[name] as unknown as (...args: unknown[]) => ChildProcess;
    const wrapped = (...args: unknown[]): ChildProcess => {
      const child = original(...args);
      const what = effectOf(name, args[0]);
      // The service has not heard of the end yet.
      child.once("exit", () => tell(`${what} ended`));
      tell(`${what} began`);
      return child;
    };
    (childProcess as unknown as Record<string, unknown>)[name] = Object.defineProperties(
      wrapped,
      Object.getOwnPropertyDescriptors(original),
    );
  }
  syncBuiltinESMExports();
};
