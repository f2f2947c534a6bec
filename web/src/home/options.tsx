import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ProjectPlace } from "../../../src/protocol/task/board.ts";
import { models, squadsOf } from "../api.ts";
import { Amount, Labelled } from "../component/form/field.tsx";
import { isAddress } from "../place.ts";
import type { Choices } from "./choices.ts";

/** The options of a new Task. The service's settings decide what the user does not choose. */

type Named = readonly (readonly [value: string, words: string])[];

const Choice = <T extends string>({
  label,
  value,
  of,
  onChange,
}: {
  label: string;
  value: T;
  of: Named;
  onChange: (value: T) => void;
}) => (
  <Labelled label={label}>
    {(id) => (
      <select id={id} className="field" value={value} onChange={({ target }) => onChange(target.value as T)}>
        {of.map(([name, words]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
    )}
  </Labelled>
);

/** The value of the list's entry for a model that is not listed. */
const another = "another";

const ModelChoice = ({ value, onChange }: { value: string; onChange: (value: string) => void }) => {
  const { data } = useQuery(models);
  const refs = (data?.providers ?? [])
    .filter(({ configured }) => configured)
    .flatMap(({ id, models: names }) => names.map((name) => `${id}/${name}`));
  const listed = value === "" || refs.includes(value);
  const [typed, setTyped] = useState(!listed && data !== undefined);
  const free = typed || (!listed && data !== undefined);
  return (
    <>
      <Choice
        label="Model"
        value={free ? another : value}
        of={[
          ["", data === undefined ? "Default" : `Default (${data.active.ref})`],
          ...refs.map((ref) => [ref, ref] as const),
          [another, "Another model"],
        ]}
        onChange={(next: string) => {
          setTyped(next === another);
          onChange(next === another ? "" : next);
        }}
      />
      {free && (
        <Labelled label="Model name">
          {(id) => (
            <input
              id={id}
              className="field"
              value={value}
              spellCheck={false}
              autoCapitalize="off"
              placeholder="provider/model"
              onChange={({ target }) => onChange(target.value)}
            />
          )}
        </Labelled>
      )}
    </>
  );
};

const landings: Named = [
  ["", "Default"],
  ["commit", "One commit on the branch"],
  ["branch", "On its own branch"],
];

export const Options = ({
  project,
  place,
  choices,
  onChoose,
}: {
  /** undefined: there is no valid project whose squads could be listed. */
  project: string | undefined;
  place: ProjectPlace | undefined;
  choices: Choices;
  onChoose: (change: Partial<Choices>) => void;
}) => {
  const { data: catalog } = useQuery({ ...squadsOf(project), enabled: project !== undefined });
  const proposes =
    choices.landing === "pull-request" ||
    (project !== undefined && (isAddress(project) || place?.landings.includes("pull-request") === true));
  return (
    <div id="options" className="grid animate-rise grid-cols-2 gap-4 border-t border-line px-4 py-4 lg:grid-cols-4">
      <Choice
        label="Squad"
        value={choices.squad}
        of={[["", "Default"], ...(catalog?.squads ?? []).map(({ id, name }) => [id, name] as const)]}
        onChange={(squad) => onChoose({ squad })}
      />
      <ModelChoice value={choices.model} onChange={(model) => onChoose({ model })} />
      <Choice
        label="Effort"
        value={choices.effort}
        of={[
          ["", "Default"],
          ["none", "None"],
          ["low", "Low"],
          ["medium", "Medium"],
          ["high", "High"],
        ]}
        onChange={(effort) => onChoose({ effort })}
      />
      <Choice
        label="Result"
        value={choices.landing}
        of={proposes ? [...landings, ["pull-request", "A pull request"]] : landings}
        onChange={(landing) => onChoose({ landing })}
      />
      <Choice
        label="Kind of work"
        value={choices.pillar}
        of={[
          ["code", "Code"],
          ["work", "Documents and research"],
        ]}
        onChange={(pillar) => onChoose({ pillar })}
      />
      <Choice
        label="Priority"
        value={choices.priority}
        of={[
          ["critical", "Critical"],
          ["high", "High"],
          ["normal", "Normal"],
          ["low", "Low"],
        ]}
        onChange={(priority) => onChoose({ priority })}
      />
      <Amount label="Cost limit ($)" value={choices.dollars} onChange={(dollars) => onChoose({ dollars })} />
      <Amount label="Time limit (minutes)" value={choices.minutes} onChange={(minutes) => onChoose({ minutes })} />
      <div className="col-span-2 lg:col-span-4">
        <Labelled
          label="Checks"
          hint="One command per line. All must pass before the result lands; failures go back to the agent. If empty, the project's own checks run; those that passed before must still pass."
        >
          {(id) => (
            <textarea
              id={id}
              rows={2}
              spellCheck={false}
              className="field field-sizing-content resize-none font-mono text-sm"
              placeholder="npm test"
              value={choices.checks}
              onChange={({ target }) => onChoose({ checks: target.value })}
            />
          )}
        </Labelled>
      </div>
    </div>
  );
};
