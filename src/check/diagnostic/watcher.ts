import { posix } from "node:path";
import { createLedger, type Checker, mostFailures, type Place } from "./checker.ts";
import { findingsIn } from "./finding.ts";

/**
 * A checker that keeps running: its program watches the files itself, and after each change prints all of its findings
 * between two lines by which a pass is recognised. A pass counts for an edit if it began after the edit.
 */

export type WatchProgram = {
  name: string;
  run: string;
  /** undefined: a pass begins with the first line after the previous pass. */
  begins: ((line: string) => boolean) | undefined;
  ends: (line: string) => boolean;
  /**
   * Milliseconds: a pass that begins sooner after an edit does not count for it, where the lines cannot show that; 0 by
   * default.
   */
  delayMs?: number;
  /**
   * Milliseconds after an edit by which the program has noticed it, unless the file is none of its own; 800 by default.
   */
  noticeMs?: number;
  covers: (path: string) => boolean;
};

const graceMs = 60;
const firstMs = 120_000;
/** Without an edit for this long the program is ended, for its memory. */
const idleMs = 10 * 60_000;
const longestMs = 12 * 3600_000;
const mostText = 512 * 1024;

/** `room`: takes a place for one more program that keeps running; undefined: there is none now. */
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
  /** When the current pass began; undefined: none is under way. */
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
        // The first pass reads the files from the start of the program on, so it keeps that time.
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
        // If the pass was only about to begin at the edit, it may not have noticed it: then another pass follows at
        // once.
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
        /** While a pass that began before the edit is under way, the program has yet to notice the edit: wait on. */
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
