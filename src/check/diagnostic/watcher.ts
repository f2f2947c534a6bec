import { posix } from "node:path";
import { createLedger, type Checker, mostFailures, type Place } from "./checker.ts";
import { findingsIn } from "./finding.ts";

/**
 * A checker that stays: its program watches the files itself, and prints all that it finds after each change, between
 * two lines that it is known by. A pass counts for an edit if it began after it.
 */

export type WatchProgram = {
  name: string;
  run: string;
  /** undefined: a pass begins with the first line after the last one. */
  begins: ((line: string) => boolean) | undefined;
  ends: (line: string) => boolean;
  /** What it prints sooner after an edit is not of it, where that cannot be told by its lines; 0 by default. */
  delayMs?: number;
  /** How long after an edit it has noticed it, or the file is none of its own. */
  noticeMs?: number;
  covers: (path: string) => boolean;
};

const graceMs = 60;
const firstMs = 120_000;
/** Without an edit it is ended, for its memory. */
const idleMs = 10 * 60_000;
const longestMs = 12 * 3600_000;
const mostText = 512 * 1024;

/** `room`: for one more that stays; undefined: there is none now. */
export const createWatcher = (
  program: WatchProgram,
  { workspace, folder }: Place,
  room: () => Disposable | undefined,
): Checker => {
  const ledger = createLedger();
  const { noticeMs = 800, delayMs = 0 } = program;
  let closed = false;
  let stop: AbortController | undefined;
  let gone: Promise<void> = Promise.resolve();
  let failures = 0;
  let usual: number | undefined;
  let idle: NodeJS.Timeout | undefined;
  /** Of the pass that is under way; undefined: none is. */
  let began: number | undefined;
  let noticed = 0;
  const waiting = new Set<{ since: number; done(): void }>();
  const settle = (which: (since: number) => boolean) => {
    for (const one of waiting) if (which(one.since)) one.done();
  };

  const begin = () => {
    if (stop !== undefined || failures >= mostFailures || closed) return;
    const place = room();
    if (place === undefined) return;
    const end = new AbortController();
    stop = end;
    let rest = "";
    let text = "";
    let isFirst = true;
    began = performance.now();
    noticed = began;
    const tooLong = setTimeout(() => end.abort(), firstMs);
    tooLong.unref();
    const line = (each: string) => {
      const isBegin = program.begins === undefined ? began === undefined && each.trim() !== "" : program.begins(each);
      if (isBegin) {
        // The files are read from the start of the first pass on.
        if (!isFirst) began = performance.now();
        noticed = performance.now();
        text = "";
      }
      if (program.ends(each)) {
        ledger.found(findingsIn(text, folder, workspace.rootInSandbox));
        text = "";
        const start = began ?? performance.now();
        if (!isFirst) usual = performance.now() - start;
        isFirst = false;
        clearTimeout(tooLong);
        began = undefined;
        // Where it had been about to begin, it may not have noticed the edit yet: then another pass follows at once.
        const settleThese = () => settle((since) => since <= start);
        if (ledger.hasNews()) settleThese();
        else setTimeout(() => began === undefined && settleThese(), graceMs).unref();
      } else if (!(isBegin && program.begins !== undefined) && text.length < mostText) text += `${each}\n`;
    };
    const decoder = new TextDecoder();
    gone = workspace
      .run({
        run: program.run,
        cwd: posix.join(workspace.root, folder),
        env: { NODE_OPTIONS: "--max-old-space-size=2048" },
        timeoutMs: longestMs,
        keepBytes: 4096,
        signal: end.signal,
        onStdout(chunk) {
          const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split("\n");
          rest = (lines.pop() ?? "").slice(-4096);
          for (const each of lines) line(each);
        },
      })
      .then(
        () => {},
        () => {},
      )
      .then(() => {
        clearTimeout(tooLong);
        place[Symbol.dispose]();
        stop = undefined;
        began = undefined;
        if (!end.signal.aborted || isFirst) failures += 1;
        settle(() => true);
      });
  };

  const use = () => {
    if (closed) return;
    begin();
    clearTimeout(idle);
    idle = setTimeout(() => stop?.abort(), idleMs);
    idle.unref();
  };

  return {
    name: program.name,
    covers: program.covers,
    warm: use,
    look(touched) {
      ledger.touch(touched.map(({ path }) => path));
      const since = performance.now() + delayMs;
      use();
      if (stop === undefined) return Promise.resolve();
      return new Promise((resolve) => {
        let timer: NodeJS.Timeout | undefined;
        const one = {
          since,
          done() {
            clearTimeout(timer);
            waiting.delete(one);
            resolve();
          },
        };
        /** A pass that began before the edit is waited for: then the program has yet to notice. */
        const giveUp = () => {
          if (began === undefined && noticed < since) one.done();
          else timer = setTimeout(giveUp, noticeMs).unref();
        };
        timer = setTimeout(giveUp, noticeMs).unref();
        waiting.add(one);
      });
    },
    take: () => ledger.take(),
    usual: () => usual,
    async end() {
      closed = true;
      clearTimeout(idle);
      stop?.abort();
      await gone;
    },
  };
};
