import { isService } from "../../../domain/conversation/message.ts";
import type { Facts, PromptMessage } from "../../model.ts";
import type { Instruction } from "../grammar/instruction.ts";
import { type Parsed, parse } from "../grammar/parse.ts";
import { targetOf } from "../report/report.ts";
import { asItsBlock } from "./reviewer.ts";
import { type Call, done, failed, one, type Result, type Step, type World } from "../step.ts";
import { carryOut } from "./instruction.ts";

/**
 * Derives the next step from a conversation: calls, the report, or why it cannot go on. Pure and stateless: it parses
 * the instructions of the current attempt and replays them against the results in the conversation, up to the first
 * missing one.
 */

type Plan =
  | { kind: "calls"; calls: Call[] }
  | { kind: "done"; report: string }
  | { kind: "failed"; code: "needs_model" | "instruction_failed"; message: string; remedy: string };

type User = Extract<PromptMessage, { role: "user" }>;

export const plan = (
  messages: readonly PromptMessage[],
  facts: Facts,
  tools: readonly string[],
  codemods: World["codemods"],
): Plan => {
  const wrapUp = messages.at(-1);
  const stopping = wrapUp?.role === "user" && wrapUp.messageID === "wrap-up";
  const { asked, turns } = present(stopping ? messages.slice(0, -1) : messages);

  if (asked.some(({ source }) => source === "checks"))
    return instructionFailed("Checks failed after the instructions, and rules have no second attempt", []);
  const parsed = asked.map(({ text, files }) => parse(text, files));
  const instructions = parsed.flatMap((part) => part.instructions);
  const unknown = parsed.flatMap((part) => part.unknown);
  if (unknown.length > 0 || (instructions.length === 0 && !stopping))
    return needsModel(instructions, unknown, turns.length > 0);

  const reports: string[] = [];
  const written = new Set<string>();
  let at = 0;
  const writes = instructions.flatMap((instruction) => (instruction.kind === "write" ? [instruction.path] : []));
  const work: { said: string; instruction?: Instruction }[] = instructions.map((instruction) => ({
    said: instruction.said,
    instruction,
  }));
  // Several files become one slice each, which can be judged separately. This does not apply when a message brought
  // more files after the work had begun without a plan.
  const planned = turns[0] === undefined || turns[0].some(({ tool }) => tool === "slice");
  if (writes.length > 1 && tools.includes("slice") && planned) work.unshift({ said: "the plan" });
  for (const [index, { said, instruction }] of work.entries()) {
    const step = instruction === undefined ? planSlices(writes) : carryOut(instruction, { facts, written, codemods });
    let now = step.next();
    while (now.done !== true) {
      const turn = turns[at];
      if (turn === undefined) {
        const wanted = now.value.find(({ tool }) => !tools.includes(tool));
        if (stopping) return { kind: "done", report: stopped(reports, work.slice(index)) };
        return wanted === undefined
          ? { kind: "calls", calls: now.value }
          : instructionFailed(`${said}: this agent has no tool "${wanted.tool}"`, reports);
      }
      at += 1;
      const expected = now.value.map(({ tool }) => tool).join(" ");
      const got = turn.map(({ tool }) => tool).join(" ");
      if (expected !== got)
        return instructionFailed(
          `${said}: expected calls of ${expected} in the conversation, got ${got}; send the instructions again`,
          reports,
        );
      now = step.next([...turn]);
    }
    if (!now.value.ok) return instructionFailed(`${said}: ${now.value.why}`, reports);
    if (instruction === undefined) continue;
    reports.push(now.value.report);
    for (const path of writtenBy(instruction, facts)) written.add(path);
  }
  return { kind: "done", report: stopping ? stopped(reports, []) : reports.join("\n") };
};

function* planSlices(paths: readonly string[]): Step {
  const plan = [...new Set(paths)].map((path) => ({
    title: `Write ${path}`.slice(0, 120),
    objective: "The file that the request spells out in a block.",
    acceptance: [asItsBlock(path)],
  }));
  const planned = yield* one({ tool: "slice", input: { plan } });
  return planned.outcome === "ok" ? done("") : failed(planned.output);
}

const writtenBy = (instruction: Instruction, facts: Facts): string[] => {
  switch (instruction.kind) {
    case "write":
      return [instruction.path];
    case "apply":
      return instruction.paths;
    case "inventory": {
      const path = targetOf(instruction, facts);
      return path === undefined ? [] : [path];
    }
    case "bump":
    case "fix":
    case "codemod":
    case "run":
    case "replace":
    case "move":
    case "delete":
      return [];
  }
};

/**
 * The requests since the last report, and the results of the turns for them. A call without a result was interrupted.
 */
const present = (messages: readonly PromptMessage[]): { asked: User[]; turns: Result[][] } => {
  let asked: User[] = [];
  let turns: Result[][] = [];
  for (const [at, message] of messages.entries())
    switch (message.role) {
      case "user": {
        if (isService(message)) break;
        if (message.restarted === true) [asked, turns] = [[], []];
        asked.push(message);
        break;
      }
      case "assistant": {
        if (message.calls.length === 0) {
          [asked, turns] = [[], []];
          break;
        }
        const next = messages[at + 1];
        const results = next?.role === "tool" ? next.results : [];
        turns.push(
          message.calls.map(
            ({ callID, tool }): Result =>
              results.find((result) => result.callID === callID) ?? {
                callID,
                tool,
                outcome: "interrupted",
                output: "",
                exitCode: null,
              },
          ),
        );
        break;
      }
      case "tool":
        break;
    }
  return { asked, turns };
};

const stopped = (reports: readonly string[], left: readonly { said: string }[]): string =>
  [...reports, ...(left.length === 0 ? [] : [`Not done: ${left.map(({ said }) => said).join("; ")}.`])].join("\n") ||
  "Nothing was done.";

const ownModel = "set ANTHROPIC_API_KEY (or the key of another provider), or name one in config.jsonc";

const instructionFailed = (why: string, reports: readonly string[]): Plan => ({
  kind: "failed",
  code: "instruction_failed",
  message: [
    `${why.replace(/(?<![.\s])[.\s]+$/, "")}.`,
    ...(reports.length === 0 ? [] : [`Before it: ${reports.join(" ")}`]),
  ].join("\n"),
  remedy: `Correct the instruction and send it as a message, or use a model: ${ownModel}.`,
});

/** Two forms that most people need first, and where all of them are documented. */
const manual = 'such as `run the tests` or `replace "A" with "B" in docs/*.md`. All forms: /ui/manual/rules';

const needsModel = (understood: readonly Instruction[], unknown: Parsed["unknown"], begun: boolean): Plan => {
  const known =
    understood.length === 0
      ? "The built-in rules do not understand"
      : `The built-in rules understand ${some(understood.map(({ said }) => `"${short(said)}"`))}, but not`;
  const not = some(unknown.map(({ said, why }) => `"${short(said)}"${why === undefined ? "" : ` (${why})`}`));
  const ways = `Use a model: ${ownModel}. Or use a form that the built-in rules know, ${manual}`;
  return {
    kind: "failed",
    code: "needs_model",
    message:
      `NEEDS_MODEL: this Task needs a language model. ${known} ${not}. ` +
      `${begun ? "Nothing more was done." : "Nothing was done."}\n${ways}`,
    remedy: ways,
  };
};

const shownParts = 12;

const some = (parts: readonly string[]): string => {
  if (parts.length === 0) return "nothing";
  const more = parts.length > shownParts ? ` and ${parts.length - shownParts} more` : "";
  return `${parts.slice(0, shownParts).join(", ")}${more}`;
};

const short = (text: string): string => (text.length > 120 ? `${text.slice(0, 119)}…` : text);
