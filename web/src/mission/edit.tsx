import { useMutation } from "@tanstack/react-query";
import { ArrowDown, ArrowUp, ChevronDown, X } from "lucide-react";
import { useState } from "react";
import type { MissionPhase, MissionStatus } from "../../../src/protocol/mission/status.ts";
import { ask, client, Refused, wordsOf } from "../api.ts";
import { useDraft } from "../component/form/draft.ts";
import { Labelled } from "../component/form/field.tsx";
import { Dialog } from "../component/layout/dialog.tsx";
import { say } from "../component/layout/toast.tsx";
import type { whereOf } from "../place.ts";
import { begun, isNew, moved, phasesOf, type Row, rowsFrom, rowsOf, unfinished, withNew, without } from "./draft.ts";

/**
 * The plan as a form. The draft is kept in this tab until it is saved. The service records the change as the user's,
 * under the rules that apply to the Mission's agent.
 */

const lockWords: Partial<Record<MissionPhase["state"], string>> = {
  running: "In progress: what is to be different in it, write to its Task.",
  producing: "Its squad is being created for it: it can be changed once that has ended.",
  done: "Done: more work is a phase of its own, a correction a message to its Task.",
};

const stateWords = (state: MissionPhase["state"] | undefined): string =>
  state === undefined ? "New" : begun.has(state) ? (state === "done" ? "Done" : "In progress") : "";

const nameOf = (row: Row): string => (row.title.trim() === "" ? "a phase without a title" : row.title);

const Text = ({
  label,
  hint,
  value,
  rows,
  max,
  onChange,
}: {
  label: string;
  hint?: string;
  value: string;
  rows: number;
  max?: number;
  onChange: (text: string) => void;
}) => (
  <Labelled label={label} {...(hint === undefined ? {} : { hint })}>
    {(id) => (
      <textarea
        id={id}
        dir="auto"
        rows={rows}
        maxLength={max}
        className="field field-sizing-content resize-none"
        value={value}
        onChange={({ target }) => onChange(target.value)}
      />
    )}
  </Labelled>
);

/** The phases that must be done before this one begins. */
const After = ({ row, rows, onChange }: { row: Row; rows: readonly Row[]; onChange: (after: string[]) => void }) => {
  const others = rows.filter(({ id }) => id !== row.id);
  if (others.length === 0) return null;
  return (
    <fieldset className="flex min-w-0 flex-col gap-1">
      <legend className="label mb-1">Begins after</legend>
      <div className="flex max-h-40 flex-col gap-1 overflow-y-auto" tabIndex={0} role="group" aria-label="Other phases">
        {others.map((other) => (
          <label key={other.id} className="flex items-center gap-2 text-sm">
            <input
              type="checkbox"
              className="accent-accent"
              checked={row.after.includes(other.id)}
              onChange={({ target }) =>
                onChange(target.checked ? [...row.after, other.id] : row.after.filter((id) => id !== other.id))
              }
            />
            <span className="min-w-0 truncate" dir="auto">
              {nameOf(other)}
            </span>
          </label>
        ))}
      </div>
      <span className="text-xs text-faint">Phases that do not wait for each other run at the same time.</span>
    </fieldset>
  );
};

const Fields = ({ row, rows, onChange }: { row: Row; rows: readonly Row[]; onChange: (row: Row) => void }) => (
  <div className="flex flex-col gap-3 border-t border-line p-3">
    <div className="grid gap-3 sm:grid-cols-2">
      <Labelled label="Title">
        {(id) => (
          <input
            id={id}
            dir="auto"
            maxLength={120}
            className="field"
            value={row.title}
            onChange={({ target }) => onChange({ ...row, title: target.value })}
          />
        )}
      </Labelled>
      <Labelled label="Kind of work" hint="As squads own it, domain/phase or words: it decides which squad does it.">
        {(id) => (
          <input
            id={id}
            dir="auto"
            maxLength={129}
            className="field"
            value={row.phase}
            onChange={({ target }) => onChange({ ...row, phase: target.value })}
          />
        )}
      </Labelled>
    </div>
    <Text
      label="Objective"
      hint="What is true when it is done."
      rows={3}
      max={4000}
      value={row.objective}
      onChange={(objective) => onChange({ ...row, objective })}
    />
    <Text
      label="Acceptance"
      hint="What can be seen or run, one a line."
      rows={2}
      value={row.acceptance}
      onChange={(acceptance) => onChange({ ...row, acceptance })}
    />
    <After row={row} rows={rows} onChange={(after) => onChange({ ...row, after })} />
  </div>
);

type Stand = { state: MissionPhase["state"] | undefined; open: boolean; first: boolean; last: boolean };

const Phase = ({
  row,
  rows,
  stand: { state, open, first, last },
  onOpen,
  onChange,
  onMove,
  onDrop,
}: {
  row: Row;
  rows: readonly Row[];
  stand: Stand;
  onOpen: () => void;
  onChange: (row: Row) => void;
  onMove: (by: -1 | 1) => void;
  onDrop: () => void;
}) => {
  const locked = state === undefined ? undefined : lockWords[state];
  const name = nameOf(row);
  return (
    <li className="rounded-lg border border-line">
      <div className="flex items-center gap-1 p-1">
        <button
          type="button"
          aria-expanded={open}
          className="flex min-h-9 min-w-0 flex-1 items-center gap-2 rounded px-2 text-start hover:bg-hover"
          onClick={onOpen}
        >
          <ChevronDown
            size={15}
            aria-hidden="true"
            className={`shrink-0 text-faint transition-transform ${open ? "rotate-180" : ""}`}
          />
          <span className="min-w-0 flex-1 truncate font-medium" dir="auto">
            {row.title.trim() === "" ? "New phase" : row.title}
          </span>
          <span className="shrink-0 text-xs text-soft">{stateWords(state)}</span>
        </button>
        <button
          type="button"
          className="button button-quiet px-2"
          aria-label={`Move up: ${name}`}
          disabled={first}
          onClick={() => onMove(-1)}
        >
          <ArrowUp size={15} aria-hidden="true" />
        </button>
        <button
          type="button"
          className="button button-quiet px-2"
          aria-label={`Move down: ${name}`}
          disabled={last}
          onClick={() => onMove(1)}
        >
          <ArrowDown size={15} aria-hidden="true" />
        </button>
        <button
          type="button"
          className="button button-quiet px-2"
          aria-label={`Drop: ${name}`}
          disabled={locked !== undefined || (first && last)}
          onClick={onDrop}
        >
          <X size={15} aria-hidden="true" />
        </button>
      </div>
      {open &&
        (locked === undefined ? (
          <Fields row={row} rows={rows} onChange={onChange} />
        ) : (
          <div className="flex flex-col gap-2 border-t border-line p-3 text-sm text-soft">
            <p>{locked}</p>
            <p className="whitespace-pre-wrap" dir="auto">
              {row.objective}
            </p>
          </div>
        ))}
    </li>
  );
};

export const EditPlan = ({
  mission,
  where,
  onClose,
  onDone,
}: {
  mission: MissionStatus;
  where: ReturnType<typeof whereOf>;
  onClose: () => void;
  onDone: () => void;
}) => {
  // The plan when the dialog was opened: the service must know which revision the user had read.
  const [base, setBase] = useState({ plan: mission.plan, revision: mission.planRevision });
  const [kept, keep] = useDraft(`plan.${mission.sessionID}.${base.revision}`);
  const rows = rowsFrom(kept) ?? rowsOf(base.plan);
  const [opened, setOpened] = useState<string | undefined>(undefined);
  const [lacks, setLacks] = useState<string | undefined>(undefined);
  const states = new Map(mission.plan.map(({ id, state }) => [id, state]));
  const isChanged = JSON.stringify(rows) !== JSON.stringify(rowsOf(base.plan));
  const approves = mission.approve.includes("plan");
  const write = (next: readonly Row[]) => {
    setLacks(undefined);
    keep(JSON.stringify(next));
  };
  const save = useMutation({
    mutationFn: (approve: boolean) =>
      ask(
        client.mission.plan({
          path: { missionID: mission.missionID },
          query: where,
          body: {
            phases: phasesOf(rows, base.plan),
            revision: base.revision,
            source: "web",
            ...(approve ? { approve } : {}),
          },
        }),
      ),
    onSuccess: ({ approved }, approve) => {
      keep("");
      say(approve ? "Approved as edited" : approved ? "The plan is changed" : "Saved; the plan waits for approval");
      onDone();
      onClose();
    },
    onError: onDone,
  });
  const submit = (approve: boolean) => {
    const row = unfinished(rows);
    if (row !== undefined) {
      setOpened(row.id);
      setLacks(`Phase ${rows.indexOf(row) + 1} needs a title and an objective.`);
    } else if (!save.isPending) save.mutate(approve);
  };
  const isStale = save.error instanceof Refused && save.error.body.code === "plan_changed";
  return (
    <Dialog open onClose={onClose} title="Edit plan" wide>
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (isChanged) submit(false);
        }}
      >
        <p className="text-sm text-soft">
          {approves
            ? "Nothing is begun before the plan is approved. The Mission's agent is told what you change."
            : "The Mission's agent is told what you change, and goes by it."}
        </p>
        <ol aria-label="Phases" className="flex flex-col gap-2">
          {rows.map((row, at) => (
            <Phase
              key={row.id}
              row={row}
              rows={rows}
              stand={{
                state: states.get(row.id),
                open: opened === row.id,
                first: at === 0,
                last: at === rows.length - 1,
              }}
              onOpen={() => setOpened(opened === row.id ? undefined : row.id)}
              onChange={(next) => write(rows.with(at, next))}
              onMove={(by) => write(moved(rows, at, by))}
              onDrop={() => write(without(rows, row.id))}
            />
          ))}
        </ol>
        <button
          type="button"
          className="button mr-auto"
          onClick={() => {
            const next = withNew(rows);
            write(next);
            setOpened(next.findLast(isNew)?.id);
          }}
        >
          Add a phase
        </button>
        {lacks !== undefined && (
          <p role="alert" className="text-fail">
            {lacks}
          </p>
        )}
        {save.error !== null && lacks === undefined && (
          <div role="alert" className="rounded-lg bg-fail-tint px-3 py-2 text-sm text-fail">
            <p>{isStale ? "The plan was changed while you edited it. Nothing was saved." : wordsOf(save.error)}</p>
            {isStale && (
              <button
                type="button"
                className="button mt-2"
                onClick={() => {
                  keep("");
                  setBase({ plan: mission.plan, revision: mission.planRevision });
                  save.reset();
                }}
              >
                Start from the plan as it is now
              </button>
            )}
          </div>
        )}
        <div className="flex flex-wrap justify-end gap-2">
          {isChanged && (
            <button type="button" className="button button-danger mr-auto" onClick={() => keep("")}>
              Undo all changes
            </button>
          )}
          <button type="button" className="button" onClick={onClose}>
            Close
          </button>
          <button
            type="submit"
            className={`button ${approves ? "" : "button-primary"}`}
            disabled={!isChanged || save.isPending}
          >
            Save
          </button>
          {approves && (
            <button
              type="button"
              className="button button-primary"
              disabled={!isChanged || save.isPending}
              onClick={() => submit(true)}
            >
              Approve as edited
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
};
