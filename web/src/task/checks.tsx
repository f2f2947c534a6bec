import { useQuery } from "@tanstack/react-query";
import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { failingLineOf } from "../../../src/protocol/task/failing-line.ts";
import type { CheckSpec } from "../../../src/protocol/check.ts";
import type { Artifact, CheckState } from "../../../src/protocol/task/status.ts";
import type { TaskBoard } from "../../../src/protocol/task/board.ts";
import { checkLogOf, detailOf, wordsOf } from "../api.ts";
import { Empty, Failure, Waiting } from "../component/layout/empty.tsx";
import { LogView } from "../component/text/log-view.tsx";
import { CheckIcon, checkWord } from "../component/text/state.tsx";
import { duration, short } from "../format.ts";
import type { Log } from "./conversation/log.ts";
import { Artifacts } from "./result/artifacts.tsx";

/** The checks: what each of them ran, its output, and pictures from before and after the work. */

/** What a check examines. */
const aboutOf = (spec: CheckSpec): string => {
  if ("run" in spec) return spec.run;
  if ("criteria" in spec) return spec.criteria;
  return "path" in spec ? `file ${spec.path}` : `${spec.start}, ${spec.url}`;
};

const LogOf = ({ taskID, check }: { taskID: string; check: CheckState }) => {
  const { data, error, isPending } = useQuery(checkLogOf(taskID, check));
  if (error !== null) return <Failure words={wordsOf(error)} />;
  if (isPending) return <Waiting lines={3} label="Loading the log" />;
  return data === "" ? (
    <p className="text-soft">No output</p>
  ) : (
    <LogView
      text={data}
      label={`Log of ${check.name}`}
      href={`/task/${taskID}/checks/${check.id}/log`}
      failedAt={check.state === "passed" ? undefined : failingLineOf(data)}
    />
  );
};

const Picture = ({ taskID, artifact, label }: { taskID: string; artifact: Artifact; label: string }) => (
  <figure className="flex min-w-0 flex-col gap-2">
    <figcaption className="label">{label}</figcaption>
    <a href={`/task/${taskID}/artifacts/${artifact.artifactID}`} download={artifact.filename}>
      <img
        src={`/task/${taskID}/artifacts/${artifact.artifactID}`}
        alt={`${label}: ${artifact.title}`}
        loading="lazy"
        className="max-h-96 rounded-lg border border-line object-contain"
      />
    </a>
  </figure>
);

const labelOf = ({ by, filename }: Artifact): string => {
  if (filename.endsWith("-diff.png")) return "Difference";
  return by.kind === "check" && by.on === "base" ? "Before" : "After";
};

const Pictures = ({ taskID, pictures }: { taskID: string; pictures: readonly Artifact[] }) => {
  // The newest picture of each kind.
  const newest = new Map(pictures.map((picture) => [labelOf(picture), picture]));
  const shown = ["Before", "After", "Difference"].flatMap((label) => {
    const picture = newest.get(label);
    return picture === undefined ? [] : [{ label, picture }];
  });
  if (shown.length === 0) return null;
  return (
    <div className={`grid gap-4 sm:grid-cols-2 ${shown.length > 2 ? "lg:grid-cols-3" : ""}`}>
      {shown.map(({ label, picture }) => (
        <Picture key={label} taskID={taskID} artifact={picture} label={label} />
      ))}
    </div>
  );
};

const Check = ({
  taskID,
  check,
  about,
  pictures,
}: {
  taskID: string;
  check: CheckState;
  about: string | undefined;
  pictures: readonly Artifact[];
}) => {
  const red = check.state === "failed" || check.state === "error";
  const run = `${check.round} ${check.state}`;
  /** The reader's choice applies to the run that they saw: a check that turns red in a later run opens again. */
  const [chosen, setChosen] = useState<{ run: string; open: boolean }>();
  const open = chosen?.run === run ? chosen.open : red;
  const ran = check.durationMs !== null;
  return (
    <li className="card overflow-hidden">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setChosen({ run, open: !open })}
        className="flex w-full items-start gap-3 px-4 py-3 text-start -outline-offset-2 hover:bg-hover"
      >
        <span className="mt-0.5">
          <CheckIcon state={check.state} counts={check.required || check.gates} size={18} />
        </span>
        <span className="min-w-0 flex-1">
          <span className="flex flex-wrap items-baseline gap-x-2">
            <span className="font-medium" dir="auto">
              {check.name}
            </span>
            <span
              className={`text-sm ${check.state === "failed" ? (check.required || check.gates ? "text-fail" : "text-need") : check.state === "passed" ? "text-done" : "text-soft"}`}
            >
              {checkWord(check.state)}
            </span>
            {check.stale && (
              <span className="rounded bg-need-tint px-1 text-xs text-need">stale: from an earlier tree</span>
            )}
            {check.flaky && <span className="rounded bg-need-tint px-1 text-xs text-need">flaky: failed first</span>}
          </span>
          {about !== undefined && about !== check.name && (
            <code className="mt-0.5 line-clamp-2 block font-mono text-xs text-soft" dir="ltr">
              {about}
            </code>
          )}
          <span className="tabular mt-1 flex flex-wrap gap-x-4 text-xs text-faint">
            <span>
              {check.kind}, {check.required ? "required" : check.gates ? "must still pass" : "not required"}
            </span>
            {check.exitCode !== null && <span>exit {check.exitCode}</span>}
            {ran && <span>{duration(check.durationMs ?? 0)}</span>}
            {check.round > 1 && <span>round {check.round}</span>}
            {check.commit !== null && <span>on {short(check.commit)}</span>}
          </span>
          {check.baseline !== null && (
            <span className="mt-1 flex items-center gap-2 text-xs text-soft">
              <CheckIcon state={check.baseline.state} size={13} />
              {checkWord(check.baseline.state)} {check.origin === "project" ? "without" : "before"} the work
              {check.state === "passed" && check.baseline.state !== "passed" && ", passes now"}
            </span>
          )}
          {check.redefined.length > 0 && (
            <span className="mt-1 block text-xs text-need">
              The Task changed the definition of this check ({check.redefined.join(", ")}), so it also ran in its
              original form, and must pass in both.
            </span>
          )}
        </span>
        <ChevronRight
          size={16}
          aria-hidden="true"
          className={`mt-1 shrink-0 text-faint transition-transform ${open ? "rotate-90" : ""}`}
        />
      </button>
      {open && (
        <div className="flex flex-col gap-4 border-t border-line p-4">
          <Pictures taskID={taskID} pictures={pictures} />
          {ran || check.baseline !== null ? (
            <LogOf taskID={taskID} check={check} />
          ) : (
            <p className="text-soft">It has not run yet.</p>
          )}
        </div>
      )}
    </li>
  );
};

export const Checks = ({ board, log }: { board: TaskBoard; log: Log }) => {
  const { taskID } = board.task;
  const { data: detail } = useQuery(detailOf(taskID));
  const found = log.frames().flatMap((frame) => (frame.type === "checks.found" ? frame.data.checks : []));
  const specs = new Map([...(detail?.requestedChecks ?? []), ...found].map((spec) => [spec.id, aboutOf(spec)]));
  const pictures = Map.groupBy(board.artifacts, ({ by }) => (by.kind === "check" ? by.checkID : ""));
  const active = board.task.lifecycleStatus === "active";
  const others = active ? (pictures.get("") ?? []) : [];
  return (
    <div className="h-full overflow-y-auto" tabIndex={0}>
      <div className="mx-auto flex max-w-4xl flex-col gap-4 px-4 py-4 sm:px-6">
        {board.checks.length === 0 && others.length === 0 && (
          <Empty title="No checks">
            <p>
              The request names no checks. The checks you name decide whether the Task is done. If you name none, the
              project's own commands run on the result, and those that passed before must still pass.
            </p>
          </Empty>
        )}
        <ul className="flex flex-col gap-3">
          {board.checks.map((check) => (
            <Check
              key={check.id}
              taskID={taskID}
              check={check}
              about={specs.get(check.id)}
              pictures={pictures.get(check.id) ?? []}
            />
          ))}
        </ul>
        {/* An ended Task shows them on its result. */}
        {active && <Artifacts taskID={taskID} artifacts={others} />}
      </div>
    </div>
  );
};
