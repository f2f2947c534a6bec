import { posix } from "node:path";
import { shellQuote } from "../../shell-quote.ts";
import type { Touched } from "../../tool/tool.ts";
import { type Checker, createLedger, mostFailures, type Place } from "./checker.ts";
import { newFindings, type Finding, findingsIn, knownOf } from "./finding.ts";

/**
 * Checkers whose program is started for each look: over the whole project, fast thanks to a cache on disk, or over the
 * touched files.
 */

export type OnceProgram = {
  name: string;
  run: string;
  covers: (path: string) => boolean;
  /** Exit codes after a look that has ended; with any other code the program could not look. */
  codes?: readonly number[];
};

const timeoutMs = 60_000;
const keepBytes = 256 * 1024;

/** The output; undefined: the program could not look. */
const runOnce = async (
  { run, codes = [0, 1, 2] }: Pick<OnceProgram, "run" | "codes">,
  { workspace, folder }: Place,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const ran = await workspace
    .run({
      run,
      cwd: posix.join(workspace.root, folder),
      env: { NODE_OPTIONS: "--max-old-space-size=2048" },
      timeoutMs,
      keepBytes,
      signal,
    })
    .catch(() => undefined);
  return ran?.ended === "exit" && ran.exitCode !== null && codes.includes(ran.exitCode) ? ran.output : undefined;
};

/** Runs one look after the other; requests that come while one is waiting to begin share it. */
const inTurn = (work: () => Promise<void>) => {
  let last: Promise<void> = Promise.resolve();
  let isWaiting = false;
  return (): Promise<void> => {
    if (isWaiting) return last;
    isWaiting = true;
    last = last
      .catch(() => {})
      .then(() => {
        isWaiting = false;
        return work();
      });
    return last;
  };
};

export const createProjectChecker = (program: OnceProgram, place: Place): Checker => {
  const ledger = createLedger();
  const stop = new AbortController();
  let failures = 0;
  let usual: number | undefined;
  let warmed = false;
  let last: Promise<void> = Promise.resolve();
  const ask = inTurn(async () => {
    if (failures >= mostFailures || stop.signal.aborted) return;
    const started = performance.now();
    const isFirst = !ledger.isKnown();
    const output = await runOnce(program, place, stop.signal);
    if (!isFirst) usual = performance.now() - started;
    if (output === undefined) failures += 1;
    else ledger.found(findingsIn(output, place.folder, place.workspace.rootInSandbox));
  });
  return {
    name: program.name,
    covers: program.covers,
    warm() {
      if (warmed) return;
      warmed = true;
      last = ask();
    },
    look(touched) {
      ledger.touch(touched.map(({ path }) => path));
      warmed = true;
      return (last = ask());
    },
    take: () => ledger.take(),
    usual: () => usual,
    async end() {
      stop.abort();
      await last;
    },
  };
};

/**
 * A program that looks at single files: how it is given their paths, and how it is given a text instead of the file
 * `path`.
 */
export type FileProgram = Omit<OnceProgram, "run"> & {
  run(paths: readonly string[]): string;
  /** undefined: it cannot read a text. */
  stdin: ((path: string) => string) | undefined;
  /** undefined: `findingsIn`. */
  read?: (output: string, folder: string, root: string) => Finding[];
};

/** Most bytes of a text that fits into a command's arguments, with what base64 adds. */
const mostBefore = 90 * 1024;

export const createFileChecker = (program: FileProgram, place: Place): Checker => {
  const stop = new AbortController();
  const { signal } = stop;
  const { read = findingsIn } = program;
  const { folder, workspace } = place;
  /** The findings in a file when it was last looked at. */
  const before = new Map<string, readonly Finding[]>();
  let news: Finding[] = [];
  let unsure = false;
  let failures = 0;
  let usual: number | undefined;
  let last: Promise<void> = Promise.resolve();

  const inText = async (path: string, text: Uint8Array): Promise<readonly Finding[] | undefined> => {
    if (program.stdin === undefined || text.length > mostBefore) return undefined;
    const base64 = Buffer.from(text).toString("base64");
    const run = `base64 -d <<< ${base64} | ${program.stdin(withinFolder(path))}`;
    const output = await runOnce({ ...program, run }, place, signal);
    // Some programs name the file `-` or `<standard input>` then.
    return output === undefined ? undefined : read(output, folder, workspace.rootInSandbox).map((one) => at(one, path));
  };
  const withinFolder = (path: string) => (folder === "" ? path : path.slice(folder.length + 1));

  const look = async (touched: readonly Touched[]): Promise<void> => {
    if (failures >= mostFailures || signal.aborted) return;
    const started = performance.now();
    const paths = touched.filter(({ gone }) => gone !== true).map(({ path }) => path);
    if (paths.length === 0) return;
    const output = await runOnce({ ...program, run: program.run(paths.map(withinFolder)) }, place, signal);
    if (output === undefined) {
      failures += 1;
      return;
    }
    const found = read(output, folder, workspace.rootInSandbox);
    for (const { path, before: text } of touched) {
      const now = found.filter((one) => one.path === path);
      const known = before.get(path) ?? (now.length === 0 || text === null ? [] : text && (await inText(path, text)));
      before.set(path, now);
      news = news.filter((one) => one.path !== path);
      if (known === undefined) unsure = true;
      news.push(...newFindings(now, knownOf(known ?? [])));
    }
    usual = performance.now() - started;
  };
  /** Finds what is there before an edit, for a program that cannot be given an earlier text. */
  const lookBefore = async (path: string): Promise<void> => {
    if (before.has(path) || failures >= mostFailures || signal.aborted) return;
    const output = await runOnce({ ...program, run: program.run([withinFolder(path)]) }, place, signal);
    if (output === undefined) failures += 1;
    else before.set(path, read(output, folder, workspace.rootInSandbox));
  };
  return {
    name: program.name,
    covers: program.covers,
    warm(path) {
      if (program.stdin === undefined && !before.has(path)) last = last.then(() => lookBefore(path));
    },
    look(touched) {
      return (last = last.then(() => look(touched)));
    },
    take() {
      const taken = { findings: news, unsure: unsure && news.length > 0 };
      news = [];
      unsure = false;
      return taken;
    },
    usual: () => usual,
    async end() {
      stop.abort();
      await last;
    },
  };
};

const at = (one: Finding, path: string): Finding => ({ ...one, path, key: `${path}\n${one.text}` });

export const quoted = (paths: readonly string[]): string => paths.map((path) => shellQuote(`./${path}`)).join(" ");
