import type { PromptMessage } from "../../model.ts";
import type { Call } from "../step.ts";

/** Writes a squad with the built-in model: fills the roster of a squad production's request into shipped texts. */

export type RosterReply =
  | { kind: "calls"; calls: Call[] }
  | { kind: "done"; report: string }
  | { kind: "failed"; code: "needs_model" | "instruction_failed"; message: string; remedy: string };

type Wanted = {
  squad: string;
  phase: string;
  name: string;
  summary: string;
  pillar: string;
  agents: { name: string; duty: string }[];
};

export const authorSquad = (messages: readonly PromptMessage[]): RosterReply => {
  const request = messages.find(({ role }) => role === "user");
  const wanted = request?.role === "user" ? readRoster(request.text) : undefined;
  if (wanted === undefined)
    return {
      kind: "failed",
      code: "needs_model",
      message: "NEEDS_MODEL: the embedded rules make a squad from a roster alone, and found none. Nothing was staged.",
      remedy: "Use a model, or give the roster in the Mission's text.",
    };
  const [result] = messages.flatMap((message) => (message.role === "tool" ? message.results : []));
  if (result === undefined) return { kind: "calls", calls: [{ tool: "author_squad", input: packageOf(wanted) }] };
  return result.outcome === "ok"
    ? { kind: "done", report: `${result.output} The roster's words are all that its handbooks say.` }
    : {
        kind: "failed",
        code: "instruction_failed",
        message: result.output,
        remedy: "Correct the roster, and wake the Mission with it.",
      };
};

/** Reads the form that mission/tool/produce-squad.ts writes. */
const readRoster = (text: string): Wanted | undefined => {
  const [, squad, phase] = /^Make the squad `([^`]+)`, which owns the phase `([^`]+)`\.$/m.exec(text) ?? [];
  const field = (name: string) => new RegExp(`^- ${name}: (.+)$`, "m").exec(text)?.[1];
  const listed = /^Agents:\n((?:- .+\n?)+)/m.exec(text)?.[1] ?? "";
  const agents = [...listed.matchAll(/^- ([a-z0-9-]+): (.+)$/gm)].map(([, name = "", duty = ""]) => ({ name, duty }));
  if (squad === undefined || phase === undefined || agents.length === 0) return undefined;
  const name = field("Name") ?? squad;
  return { squad, phase, name, summary: field("Summary") ?? name, pillar: field("Pillar") ?? "code", agents };
};

const packageOf = ({ phase, name, summary, pillar, agents }: Wanted) => ({
  version: "1.0.0",
  name,
  summary,
  notFor: `Anything but the phase ${phase}.`,
  pillars: [pillar],
  orchestrator: [
    `You lead the squad ${name}, which was made for one kind of work: ${phase}. ${summary}`,
    "",
    "How you lead",
    "1. Read the request to its end and look at the project before you begin.",
    "2. Divide what is more than one person's work with `slice`, and delegate each part to the one whose duty it is:",
    ...agents.map((agent) => `   - ${agent.name}: ${agent.duty}`),
    "3. A brief stands alone: the goal, the places, what is ruled out, what the answer must hold.",
    "4. Look at the files, not at the words, and prove the whole with the project's own build and tests.",
    "",
    "Your last message says what was delivered, which commands showed it, what was decided, and what is left.",
  ].join("\n"),
  agents: agents.map((agent) => ({
    name: agent.name,
    description: agent.duty.slice(0, 300),
    instructions: [
      `You are the ${agent.name} of the squad ${name}. Your duty: ${agent.duty}`,
      "",
      "Do what the brief says and no more. Look before you change anything, follow the project's conventions, and prove what you did with a command where one can.",
      "Answer with what you did, where, how it was shown, and what you could not do.",
    ].join("\n"),
  })),
});
