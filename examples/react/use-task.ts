import { useEffect, useState } from "react";
import type { ServiceClient } from "sortie/client";

type Status = NonNullable<Awaited<ReturnType<ServiceClient["task"]["wait"]>>["data"]>;
type CallError = NonNullable<Awaited<ReturnType<ServiceClient["task"]["wait"]>>["error"]>;

export type Watched = {
  /** The status record; undefined until the first answer. */
  task: Status | undefined;
  /** What the agent is writing now; empty when it is not. */
  writing: string;
  /** Why there is nothing more to see: the service refused, or was gone for too long. */
  error: CallError | undefined;
};

const nothing: Watched = { task: undefined, writing: "", error: undefined };

/**
 * A Task as it stands, kept up to date until it is unmounted; also beyond its end, because a message begins it anew. A lost
 * connection is resumed by the client.
 */
export const useTask = (client: ServiceClient, taskID: string): Watched => {
  const [watched, setWatched] = useState(nothing);
  useEffect(() => {
    const stop = new AbortController();
    setWatched(nothing);
    void watchTask(client, taskID, setWatched, stop.signal);
    return () => stop.abort();
  }, [client, taskID]);
  return watched;
};

/** The same without React: tells every change until the signal. */
export const watchTask = async (
  client: ServiceClient,
  taskID: string,
  tell: (watched: Watched) => void,
  signal: AbortSignal,
): Promise<void> => {
  let now = nothing;
  const change = (part: Partial<Watched>) => {
    now = { ...now, ...part };
    if (!signal.aborted) tell(now);
  };
  const path = { taskID };
  try {
    // The snapshot comes first, then every event; with `follow` also after the Task's end.
    const events = await client.task.events({ path, query: { follow: true }, signal });
    if (events.error !== undefined) return change({ error: events.error });
    for await (const event of events.data)
      if (event.type === "task.snapshot") change({ task: event.data });
      else if (event.type === "message.delta") change({ writing: now.writing + event.data.text });
      else if ("id" in event) {
        // The record is a fold of the log: read again rather than computed a second time here.
        const status = await client.task.status({ path, signal });
        if (status.data !== undefined) change({ task: status.data, writing: "" });
      }
  } catch (error) {
    change({ error: error instanceof Error ? error : new Error(String(error)) });
  }
};
