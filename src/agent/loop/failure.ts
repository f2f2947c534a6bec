import type { DomainEvent } from "../../domain/event.ts";
import type { ModelFailure } from "../../model/model.ts";
import { retryAttempts, sequelOf } from "./retry.ts";
import type { Turn } from "./loop.ts";

/**
 * A model call failed: it is made again, another model is asked, the Task waits outside of the run, or the turn fails.
 * True: ask again at once. False: this turn is over, and the Task's facts say what is next.
 */
export const afterFailure = async (
  turn: Turn,
  failed: ModelFailure,
  cut: AbortSignal,
  end: () => DomainEvent,
): Promise<boolean> => {
  const { sessionID } = turn;
  const { code, message } = failed.failure;
  const to = failed.elsewhere === true ? await turn.standIn() : undefined;
  const sequel = sequelOf(failed, turn.state().retry?.attempt ?? 1, {
    standIn: to !== undefined,
    patienceMs: turn.limits.waitSeconds * 1000,
    random: Math.random,
  });
  switch (sequel.kind) {
    case "again": {
      const { attempt, delayMs } = sequel;
      const retryAt = after(turn, delayMs).toISOString();
      const data = { sessionID, code, message, attempt, attempts: retryAttempts, retryAt };
      await turn.record([{ type: "reply.retried", data }]);
      await turn.sleep(delayMs, cut);
      return true;
    }
    case "elsewhere":
      if (to === undefined) break;
      await turn.record([
        { type: "model.switched", data: { sessionID, from: turn.model.ref, to, code, reason: message } },
      ]);
      return false;
    case "later": {
      const until = after(turn, sequel.delayMs);
      const since = Date.parse(turn.state().quotaSince ?? turn.now().toISOString());
      if (until.getTime() - since > turn.limits.quotaHours * 3_600_000) break;
      const data = { sessionID, code, reason: message, until: until.toISOString() };
      await turn.defer({ type: "task.deferred", data }, until);
      return false;
    }
    case "fail":
  }
  await turn.record([end()]);
  return false;
};

const after = (turn: Turn, ms: number): Date => new Date(turn.now().getTime() + ms);
