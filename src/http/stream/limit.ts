import { ServiceError } from "../../error.ts";
import type { Limits } from "../../protocol/limit.ts";

/** Limits open streams: in all, per client, and per Task or Mission. */
export const createStreamLimits = (limits: Limits) => {
  let total = 0;
  const counts = new Map<string, number>();
  const add = (key: string, change: number) => {
    const count = (counts.get(key) ?? 0) + change;
    if (count === 0) counts.delete(key);
    else counts.set(key, count);
  };
  const full = (rule: string) =>
    new ServiceError("rate_limited", `Expected at most ${rule}, got one more. Close one, or try again later.`, {
      headers: { "retry-after": "5" },
    });
  return {
    take(client: string, taskID: string | undefined): () => void {
      const keys = [`client ${client}`, ...(taskID === undefined ? [] : [`task ${taskID}`])];
      if (total >= limits.streams) throw full(`${limits.streams} event streams`);
      if ((counts.get(keys[0] as string) ?? 0) >= limits.streamsPerClient)
        throw full(`${limits.streamsPerClient} event streams of one client`);
      if (taskID !== undefined && (counts.get(keys[1] as string) ?? 0) >= limits.streamsPerTask)
        throw full(`${limits.streamsPerTask} event streams of one Task or Mission`);
      total += 1;
      for (const key of keys) add(key, 1);
      return () => {
        total -= 1;
        for (const key of keys) add(key, -1);
      };
    },
  };
};
