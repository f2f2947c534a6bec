import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { callOf, expand } from "../../../src/protocol/task/saved-call.ts";
import type { SavedRequest } from "../../../src/protocol/task/saved-request.ts";
import { ask, client, savedRequestsOf, wordsOf } from "../api.ts";
import { isAddress } from "../place.ts";

/** The requests that a project keeps: offered while one is being called, and put in its place when it is sent. */

/** How long a list that does not come is waited for. */
const waitMs = 10_000;

const namesOf = (saved: readonly SavedRequest[]): string =>
  saved.length === 0 ? "It has none." : `It has ${saved.map(({ name }) => `/${name}`).join(", ")}.`;

type Call =
  | { state: "reading" }
  /** Nobody knows what it stands for. The user may still mean the text itself. */
  | { state: "unread"; why: string }
  | { state: "unknown"; why: string };

/**
 * `send` is given what a text stands for, once. The list is read for it: what the page has may be of an hour ago, or may not
 * have come yet. A text or a project that changes meanwhile is not sent.
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
      setCall(
        "request" in found
          ? undefined
          : {
              state: "unknown",
              why:
                found.unknown === ""
                  ? `Expected the name of a saved request after the slash. ${namesOf(saved)}`
                  : `The project has no saved request /${found.unknown} in .claude/commands. ${namesOf(saved)}`,
            },
      );
      if ("request" in found) send(found.request);
    } catch (error) {
      if (own.signal.aborted) return;
      const why = late.aborted ? `They did not come within ${waitMs / 1000} seconds.` : wordsOf(error);
      setCall({ state: "unread", why: `The project's saved requests could not be read. ${why}` });
    }
  };

  return {
    call,
    /** Takes a text that calls none as it stands. */
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
        Reading the project's saved requests. What is called is sent as soon as they have come.
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

export const Saved = ({
  project,
  request,
  onChoose,
}: {
  project: string | undefined;
  request: string;
  onChoose: (request: string) => void;
}) => {
  const called = callOf(request);
  const choosing = called !== undefined && !/\s/.test(request.trimEnd());
  const { data, error, failureReason } = useQuery({
    ...savedRequestsOf(project ?? ""),
    enabled: project !== undefined && choosing,
  });
  if (!choosing || project === undefined) return null;
  const { name, given } = called;
  const trouble = error ?? failureReason;
  if (data === undefined)
    return (
      <p role="status" className="mx-4 mb-2 text-sm text-soft">
        {trouble === null ? "Reading the project's saved requests" : `No saved requests yet. ${wordsOf(trouble)}`}
      </p>
    );
  const offered = data.filter((one) => one.name.startsWith(name) && (one.name !== name || given === ""));
  if (offered.length === 0) return null;
  return (
    <ul aria-label="Saved requests of the project" className="mx-2 mb-2 max-h-60 overflow-y-auto">
      {offered.map((one) => (
        <li key={one.name}>
          <button
            type="button"
            className="flex w-full items-baseline gap-3 rounded-lg px-2 py-1 text-left hover:bg-hover"
            onClick={() => onChoose(`/${one.name} `)}
          >
            <span className="font-mono text-sm">/{one.name}</span>
            {one.arguments !== null && <span className="font-mono text-xs text-faint">{one.arguments}</span>}
            <span className="min-w-0 flex-1 truncate text-sm text-soft">{one.description}</span>
          </button>
        </li>
      ))}
    </ul>
  );
};
