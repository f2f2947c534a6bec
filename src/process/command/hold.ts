import type { SandboxPool } from "../runner/pool.ts";
import { signalGroup, signalMarked, wait } from "./kill.ts";
import type { LiveCommand } from "./run.ts";

/** Holds all commands: their processes are stopped where they are, and no further ones are started. */
export type Hold = {
  set: (held: boolean) => Promise<void>;
  isHeld: () => boolean;
  /** Resolves when commands are not held, or when the signal aborts. */
  over: (signal: AbortSignal) => Promise<void>;
};

export type HoldOptions = {
  boxes: Pick<SandboxPool, "hold">;
  live: ReadonlySet<LiveCommand>;
  /**
   * Whether a process with this mark belongs to a Task. In addition, holding a sandbox stops everything in it, and
   * holding a group all its processes, whatever their marks.
   */
  holds: (mark: string) => boolean;
};

/** A command that was just being started is stopped by the second pass, after this many milliseconds. */
const againMs = 100;

export const createHold = ({ boxes, live, holds }: HoldOptions): Hold => {
  let held: PromiseWithResolvers<void> | undefined;
  /** Changes run one after the other, so that no process is stopped after it was released. */
  let told: Promise<void> = Promise.resolve();

  const holdTimes = (now: boolean): void => {
    for (const entry of live) if (!entry.unheld) entry.hold(now);
  };
  const tell = async (now: boolean): Promise<void> => {
    const signal = now ? "SIGSTOP" : "SIGCONT";
    boxes.hold(now);
    for (const { pid, unheld } of live) if (pid !== undefined && !unheld) signalGroup(pid, signal);
    await signalMarked(holds, signal);
  };
  const stopAll = async (): Promise<void> => {
    await tell(true);
    await wait(againMs);
    if (held === undefined) return;
    holdTimes(true);
    await tell(true);
  };

  return {
    set(now) {
      if (now === (held !== undefined)) return told;
      holdTimes(now);
      held?.resolve();
      held = now ? Promise.withResolvers<void>() : undefined;
      told = told.then(() => (now ? stopAll() : tell(false)));
      return told;
    },
    isHeld: () => held !== undefined,
    async over(signal) {
      for (let now = held; now !== undefined && !signal.aborted; now = held) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const stop = () => resolve();
        signal.addEventListener("abort", stop, { once: true });
        await Promise.race([now.promise, promise]);
        signal.removeEventListener("abort", stop);
      }
    },
  };
};
