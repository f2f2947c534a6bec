import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { callOf, expand } from "../../../../src/protocol/task/saved-call.ts";
import { ask, client, savedRequestsOf, wordsOf } from "../../api.ts";
import { isAddress } from "../../place.ts";

/** Calls of a project's saved requests: a call is replaced by the saved request when it is sent. */

/** How long to wait for the list of saved requests. */
const waitMs = 10_000;

type Call =
  | { state: "reading" }
  /** The list could not be read, so the meaning of the call is unknown. The user may still send the text as it is. */
  | { state: "unread"; why: string }
  | { state: "unknown"; why: string };

/**
 * Calls `send` once with the request that a text stands for. The list of saved requests is read again for each call,
 * because the page's copy may be old or not loaded yet. If the text or the project changes meanwhile, nothing is sent.
 */
export const useCall = (project: string | undefined, request: string, send: (request: string) => void) => {
  const queries = useQueryClient();
  const [call, setCall] = useState<Call>();
  const reading = useRef<AbortController>(undefined);
  useEffect(
    () => () => {
      reading.current?.abort();
      setCall(undefined);
    },
    [project, request],
  );

  const read = async (directory: string): Promise<void> => {
    const own = new AbortController();
    reading.current = own;
    const late = AbortSignal.timeout(waitMs);
    setCall({ state: "reading" });
    try {
      const signal = AbortSignal.any([own.signal, late]);
      const saved = await ask(client.project.requests({ query: { directory }, signal }));
      if (own.signal.aborted) return;
      queries.setQueryData(savedRequestsOf(directory).queryKey, saved);
      const found = expand(request, saved);
      if ("request" in found) {
        setCall(undefined);
        return send(found.request);
      }
      const names = saved.map(({ name }) => `/${name}`).join(", ") || "there is none";
      const why = `Expected a saved request of the project (.claude/commands: ${names}), got "/${found.unknown}".`;
      setCall({ state: "unknown", why });
    } catch (error) {
      if (own.signal.aborted) return;
      const why = late.aborted ? `They did not come within ${waitMs / 1000} seconds.` : wordsOf(error);
      setCall({ state: "unread", why: `The project's saved requests could not be read. ${why}` });
    }
  };

  return {
    call,
    /** Sends a text that is not a call as it is; otherwise looks up the saved request first. */
    resolve: () => {
      if (project === undefined || callOf(request) === undefined) send(request);
      else if (!isAddress(project)) void read(project);
      else setCall({ state: "unread", why: "Saved requests are read in a folder, not at a repository's address." });
    },
    asItStands: () => {
      setCall(undefined);
      send(request);
    },
  };
};

export const CallState = ({ call, onAsItStands }: { call: Call; onAsItStands: () => void }) => {
  if (call.state === "reading")
    return (
      <p role="status" className="mx-4 mb-2 px-3 py-2 text-sm text-soft">
        It is sent as soon as the project's saved requests have been read.
      </p>
    );
  return (
    <div role="alert" className="mx-4 mb-2 rounded-lg bg-fail-tint px-3 py-2 text-sm text-fail">
      <p>{call.why}</p>
      {call.state === "unread" && (
        <button type="button" className="button mt-2" onClick={onAsItStands}>
          Send the text as it stands
        </button>
      )}
    </div>
  );
};
