import { ServiceError } from "../error.ts";
import type { ModelTrial } from "../protocol/service.ts";
import { builtinModel, type Registry } from "./registry.ts";
import { tryModel } from "./trial.ts";

/**
 * Trials that a caller may ask for over the wire. Each is a real call that somebody pays for: so many a minute, one at a
 * time for a model, and none longer than a reader waits. It goes the way of a Task's call, past the provider's breaker.
 */

const perMinute = 10;
const longestMs = 60_000;

export type Trials = (ref: string | undefined) => Promise<ModelTrial>;

export const createTrials = ({
  registry,
  replySeconds,
  redact,
  now = Date.now,
}: {
  registry: Pick<Registry, "resolve" | "load">;
  replySeconds: number;
  /** Providers repeat what they were sent, keys too. */
  redact: (text: string) => string;
  now?: () => number;
}): Trials => {
  const running = new Set<string>();
  /** When the newest began, oldest first. */
  let begun: number[] = [];
  return async (given) => {
    const ref = registry.resolve(given);
    if (ref === builtinModel)
      throw new ServiceError(
        "model_not_configured",
        `${builtinModel} is no language model: there is nothing to test. Name one as provider/model.`,
      );
    if (running.has(ref)) throw busy(`one test of ${ref} at a time`, 2);
    const at = now();
    begun = begun.filter((time) => time <= at && at - time < 60_000);
    const [oldest] = begun;
    if (oldest !== undefined && begun.length >= perMinute)
      throw busy(
        `at most ${perMinute} tests of models a minute`,
        Math.max(1, Math.ceil((oldest + 60_000 - at) / 1000)),
      );
    begun.push(at);
    running.add(ref);
    try {
      const trial = await tryModel(await registry.load(ref), Math.min(longestMs, replySeconds * 1000));
      const { failure } = trial;
      return {
        ...trial,
        text: redact(trial.text),
        failure: failure === null ? null : { ...failure, message: redact(failure.message) },
      };
    } finally {
      running.delete(ref);
    }
  };
};

const busy = (rule: string, seconds: number): ServiceError =>
  new ServiceError("rate_limited", `Expected ${rule}, got one more. Each is a real call. Try again in ${seconds} s.`, {
    headers: { "retry-after": String(seconds) },
  });
