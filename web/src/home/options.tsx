import { useQuery } from "@tanstack/react-query";
import type { TaskCreate } from "../../../src/protocol/task/request.ts";
import { squadsOf } from "../api.ts";
import { Labelled } from "../component/form/field.tsx";

/** The options of a new Task. What is not chosen is up to the service's settings. */

export type Choices = {
  pillar: TaskCreate["productPillar"];
  priority: NonNullable<TaskCreate["priority"]>;
  squad: string;
  model: string;
  checks: string;
};

export const unchosen: Choices = { pillar: "code", priority: "normal", squad: "", model: "", checks: "" };

/** The chosen options as part of a request body. */
export const chosenOf = ({ pillar, priority, squad, model, checks }: Choices) => {
  const commands = checks
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  return {
    productPillar: pillar,
    priority,
    ...(squad === "" ? {} : { promptProfile: squad }),
    ...(model.trim() === "" ? {} : { model: model.trim() }),
    ...(commands.length === 0 ? {} : { checks: commands }),
  };
};

/** The options that differ from their defaults, in a few words. */
export const choiceWords = ({ pillar, priority, squad, model, checks }: Choices): string =>
  [
    squad,
    pillar === "work" ? "documents" : "",
    priority === "normal" ? "" : priority,
    model.trim(),
    checks.trim() === "" ? "" : "checks set",
  ]
    .filter((word) => word !== "")
    .join(", ");

export const Options = ({
  project,
  choices,
  onChoose,
}: {
  /** undefined: there is no valid project, whose squads could be listed. */
  project: string | undefined;
  choices: Choices;
  onChoose: (change: Partial<Choices>) => void;
}) => {
  const { data: catalog } = useQuery({ ...squadsOf(project), enabled: project !== undefined });
  return (
    <div id="options" className="grid animate-rise gap-4 border-t border-line px-4 py-4 sm:grid-cols-2 lg:grid-cols-4">
      <Labelled label="Squad">
        {(id) => (
          <select
            id={id}
            className="field"
            value={choices.squad}
            onChange={({ target }) => onChoose({ squad: target.value })}
          >
            <option value="">Default</option>
            {(catalog?.squads ?? []).map(({ id: name, name: words }) => (
              <option key={name} value={name}>
                {words}
              </option>
            ))}
          </select>
        )}
      </Labelled>
      <Labelled label="Kind of work">
        {(id) => (
          <select
            id={id}
            className="field"
            value={choices.pillar}
            onChange={({ target }) => onChoose({ pillar: target.value === "work" ? "work" : "code" })}
          >
            <option value="code">Code</option>
            <option value="work">Documents and knowledge</option>
          </select>
        )}
      </Labelled>
      <Labelled label="Priority">
        {(id) => (
          <select
            id={id}
            className="field"
            value={choices.priority}
            onChange={({ target }) => onChoose({ priority: target.value as Choices["priority"] })}
          >
            <option value="critical">Critical</option>
            <option value="high">High</option>
            <option value="normal">Normal</option>
            <option value="low">Low</option>
          </select>
        )}
      </Labelled>
      <Labelled label="Model">
        {(id) => (
          <input
            id={id}
            className="field"
            value={choices.model}
            spellCheck={false}
            autoCapitalize="off"
            placeholder="provider/model"
            onChange={({ target }) => onChoose({ model: target.value })}
          />
        )}
      </Labelled>
      <div className="sm:col-span-2 lg:col-span-4">
        <Labelled
          label="Checks"
          hint="One command a line. All must pass on what lands; the first failure goes back to the agent. Empty: the project's own run, and what passed before must still pass."
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
