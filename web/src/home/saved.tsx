import { useQuery } from "@tanstack/react-query";
import { callOf } from "../../../src/protocol/task/saved-call.ts";
import { savedRequestsOf, wordsOf } from "../api.ts";

/** The saved requests of a project, offered while the user types a call. */

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
