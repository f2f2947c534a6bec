import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { ProjectPlace } from "../../../src/protocol/task/board.ts";
import { health } from "../api.ts";
import { isAddress, splitAddress } from "../place.ts";
import { budgetWords, type Choices, commandsOf } from "./choices.ts";

/**
 * What a new Task would work on and be checked against, according to the project, the service and the user's choices.
 */

const Fact = ({ label, children }: { label: string; children: ReactNode }) => (
  <div className="flex min-w-0 items-baseline gap-2">
    <dt className="label shrink-0">{label}</dt>
    <dd className="min-w-0 truncate text-sm text-soft">{children}</dd>
  </div>
);

const landingWords = (chosen: Choices["landing"], project: string, place: ProjectPlace | undefined): string => {
  const remote = isAddress(project);
  switch (chosen === "" ? (remote ? "" : place?.landing) : chosen) {
    case "commit":
      return remote ? "pushed to the branch itself" : "one commit on the branch";
    case "branch":
      return "on its own branch";
    case "pull-request":
      return "a pull request";
    case "none":
      return "edited in place";
    default:
      return "service default";
  }
};

const checksWords = (choices: Choices, place: ProjectPlace | undefined): string => {
  const given = commandsOf(choices);
  const found = given.length > 0 ? given : place?.checks;
  if (found === undefined) return "the project's own";
  return found.length === 0 ? "none found" : found.join(", ");
};

export const Decides = ({
  project,
  place,
  choices,
}: {
  project: string;
  place: ProjectPlace | undefined;
  choices: Choices;
}) => {
  const { data } = useQuery(health);
  const branch = isAddress(project) ? splitAddress(project).ref : place?.branch;
  const model = choices.model.trim() === "" ? data?.model.ref : choices.model.trim();
  const squad = choices.squad === "" ? place?.squad : choices.squad;
  const checks = checksWords(choices, place);
  return (
    <dl aria-label="What decides" className="flex flex-wrap gap-x-5 gap-y-1 px-4 pb-2">
      <Fact label="Branch">{branch ?? "the default one"}</Fact>
      <Fact label="Result">{landingWords(choices.landing, project, place)}</Fact>
      <Fact label="Checks">
        <span title={checks} className={checks === "none found" ? "text-need" : ""}>
          {checks}
        </span>
      </Fact>
      {model !== undefined && (
        <Fact label="Model">
          {model.startsWith("builtin/") ? "built-in rules" : model}
          {choices.effort === "" ? "" : `, effort ${choices.effort}`}
        </Fact>
      )}
      {squad !== undefined && <Fact label="Squad">{squad}</Fact>}
      <Fact label="Budget">{budgetWords(choices)}</Fact>
    </dl>
  );
};
