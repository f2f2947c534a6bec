import { interruptOf } from "../../domain/session/session.ts";
import type { Run } from "../run.ts";

/**
 * Sessions that can be stopped while the rest of the Task continues. A run notices an interruption even in the middle
 * of a command.
 */

export interface Interruptions {
  /**
   * Runs `work` with a signal that also aborts when the session is interrupted; an abort for that reason is not an
   * error.
   */
  within(sessionID: string, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
}

export const createInterruptions = (run: Run): Interruptions => {
  const open = new Map<string, AbortController>();
  let watch: AbortController | undefined;

  const stopThose = () => {
    for (const [sessionID, branch] of open) if (interruptOf(run.state(), sessionID) !== null) branch.abort();
  };
  const listen = async (signal: AbortSignal): Promise<void> => {
    const filter = { stream: run.stream, types: ["session.interrupted"] as const };
    for await (const event of run.store.follow(run.state().position, signal, filter)) {
      // Folds in what others wrote. If the claim is lost, the work itself notices it.
      if (event.version > run.state().version) await run.record([]);
      stopThose();
    }
  };

  return {
    async within(sessionID, work) {
      const branch = new AbortController();
      open.set(sessionID, branch);
      if (watch === undefined) {
        watch = new AbortController();
        void listen(AbortSignal.any([run.signal, watch.signal])).catch((error: unknown) =>
          run.log.debug({ task: run.stream, err: error }, "interruptions take effect at the next step"),
        );
      }
      stopThose();
      try {
        await work(AbortSignal.any([run.signal, branch.signal]));
      } catch (error) {
        run.signal.throwIfAborted();
        if (!branch.signal.aborted) throw error;
      } finally {
        open.delete(sessionID);
        if (open.size === 0) {
          watch.abort();
          watch = undefined;
        }
      }
    },
  };
};
