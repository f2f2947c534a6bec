import childProcess, { type ChildProcess } from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { createReader, type Frame, frames, type SandboxNews, type Start } from "../../../src/process/runner/frame.ts";
import { gitCommandOf, onlyReads } from "./writing.ts";

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

/** How many programs run that may leave something behind. */
let writers = 0;

/** The runner starts programs for the service: what goes to it and comes from it says which, and when they end. */
const watchRunner = (runner: ChildProcess, tell: Tell): void => {
  const running = new Map<number, { name: string; writes: boolean }>();
  const stdin = runner.stdin as unknown as Record<string, unknown>;
  const write = stdin["write"] as Call;
  const begun = ({ type, id, payload }: Frame): string | undefined => {
    if (type === frames.start) {
      const { file, args, own } = JSON.parse(payload.toString("utf8")) as Start;
      const writes = own === undefined || !onlyReads(file, args);
      const name = own === undefined ? "command" : nameOf(file, args);
      running.set(id, { name, writes });
      if (writes) writers += 1;
      return `${name} began`;
    }
    if (type === frames.open) return "sandbox began";
    // The rest of what it is to read comes before the empty frame.
    return type === frames.input && payload.length === 0 ? `${running.get(id)?.name} was given` : undefined;
  };
  stdin["write"] = function (this: unknown, ...args: unknown[]) {
    const result = write.apply(this, args);
    createReader((frame) => {
      const what = begun(frame);
      if (what !== undefined) tell(what);
    })(args[0] as Buffer);
    return result;
  };
  runner.stdout?.on(
    "data",
    createReader(({ type, id, payload }) => {
      if (type === frames.box && (JSON.parse(payload.toString("utf8")) as SandboxNews).gone === true)
        tell("sandbox ended");
      if (type !== frames.closed && type !== frames.failed && type !== frames.lost) return;
      const program = running.get(id);
      running.delete(id);
      if (program?.writes === true) writers -= 1;
      // The service has not heard of it yet.
      tell(`${program?.name} ended`);
    }),
  );
};

const nameOf = (file: string, args: readonly string[]): string =>
  [effectOf("", file), file.endsWith("git") ? gitCommandOf(args) : ""].join(" ").trim();

/** Answers how many programs run that may leave something behind. */
export const watchEffects = async (tell: Tell): Promise<() => number> => {
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
      const given = Array.isArray(args[1]) ? (args[1] as string[]) : [];
      const what = nameOf(String(args[0]), given);
      const isRunner = given.some((word) => word.endsWith("process/runner/main.js"));
      const writes = child.pid !== undefined && !isRunner && !onlyReads(String(args[0]), given);
      if (isRunner) watchRunner(child, tell);
      if (writes) writers += 1;
      child.once("exit", () => {
        if (writes) writers -= 1;
        // The service has not heard of the end yet.
        tell(`${what} ended`);
      });
      tell(`${what} began`);
      return child;
    };
    (childProcess as unknown as Record<string, unknown>)[name] = Object.defineProperties(
      wrapped,
      Object.getOwnPropertyDescriptors(original),
    );
  }
  syncBuiltinESMExports();
  return () => writers;
};
