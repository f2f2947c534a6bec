import type { Effort } from "../../../src/protocol/field.ts";
import type { TaskCreate } from "../../../src/protocol/task/request.ts";

/** The user's choices for a new Task besides the request. The service's settings decide the rest. */

export type Choices = {
  pillar: TaskCreate["productPillar"];
  priority: NonNullable<TaskCreate["priority"]>;
  squad: string;
  model: string;
  effort: Effort | "";
  landing: NonNullable<TaskCreate["landing"]> | "";
  checks: string;
  dollars: string;
  minutes: string;
};

export const unchosen: Choices = {
  pillar: "code",
  priority: "normal",
  squad: "",
  model: "",
  effort: "",
  landing: "",
  checks: "",
  dollars: "",
  minutes: "",
};

/** Reads stored choices, and ignores anything that is not a choice today. */
export const choicesFrom = (text: string): Choices => {
  try {
    const kept: unknown = JSON.parse(text);
    if (typeof kept !== "object" || kept === null) return unchosen;
    const known = Object.entries(kept).filter(([name, value]) => name in unchosen && typeof value === "string");
    return { ...unchosen, ...Object.fromEntries(known) };
  } catch {
    return unchosen;
  }
};

export const toText = (choices: Choices): string =>
  JSON.stringify(choices) === JSON.stringify(unchosen) ? "" : JSON.stringify(choices);

export const commandsOf = ({ checks }: Pick<Choices, "checks">): string[] =>
  checks
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

const budgetOf = ({ dollars, minutes }: Choices): { maxCostUSD?: number; maxMinutes?: number } => ({
  ...(Number(dollars) > 0 ? { maxCostUSD: Number(dollars) } : {}),
  ...(Number(minutes) > 0 ? { maxMinutes: Number(minutes) } : {}),
});

/** The choices as part of a request body. */
export const chosenOf = (choices: Choices) => {
  const { pillar, priority, squad, model, effort, landing } = choices;
  const commands = commandsOf(choices);
  const budget = budgetOf(choices);
  return {
    productPillar: pillar,
    priority,
    ...(squad === "" ? {} : { promptProfile: squad }),
    ...(model.trim() === "" ? {} : { model: model.trim() }),
    ...(effort === "" ? {} : { effort }),
    ...(landing === "" ? {} : { landing }),
    ...(commands.length === 0 ? {} : { checks: commands }),
    ...(Object.keys(budget).length === 0 ? {} : { budget }),
  };
};

export const budgetWords = (choices: Choices): string => {
  const { maxCostUSD, maxMinutes } = budgetOf(choices);
  const parts = [
    ...(maxCostUSD === undefined ? [] : [`$${maxCostUSD}`]),
    ...(maxMinutes === undefined ? [] : [`${maxMinutes} min`]),
  ];
  return parts.length === 0 ? "not limited" : parts.join(", ");
};
