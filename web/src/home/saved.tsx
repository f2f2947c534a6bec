import { useQuery } from "@tanstack/react-query";
import { callOf, expand } from "../../../src/protocol/task/saved-call.ts";
import type { SavedRequest } from "../../../src/protocol/task/saved-request.ts";
import { savedRequestsOf } from "../api.ts";

/** The requests that a project keeps: offered while one is being called, and put in its place when it is sent. */

export const useSaved = (project: string | undefined, request: string): SavedRequest[] | undefined => {
  const { data } = useQuery({
    ...savedRequestsOf(project ?? ""),
    enabled: project !== undefined && request.startsWith("/"),
  });
  return project === undefined ? undefined : data;
};

/** What is sent; `unknown`: it calls a saved request that there is not. */
export const sentOf = (request: string, saved: readonly SavedRequest[] | undefined) =>
  saved === undefined ? { request } : expand(request, saved);

export const Saved = ({
  request,
  saved,
  onChoose,
}: {
  request: string;
  saved: readonly SavedRequest[];
  onChoose: (request: string) => void;
}) => {
  const { name = "", given = "" } = request === "/" ? {} : (callOf(request) ?? {});
  const offered = saved.filter((one) => one.name.startsWith(name) && (one.name !== name || given === ""));
  if (!request.startsWith("/") || /\s/.test(request.trimEnd()) || offered.length === 0) return null;
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
