import type { PromptMessage } from "../../model.ts";
import { parse } from "../grammar/parse.ts";
import { type Item, outlineOf, type Roster } from "./mission-outline.ts";
import type { Call } from "../step.ts";

/**
 * Runs a Mission with the built-in model: its list is the plan, and each item becomes a Task with the item's own words.
 * Stateless: every answer is derived from the conversation, so a restarted service continues where the log ends.
 */

export type MissionReply =
  | { kind: "calls"; calls: Call[] }
  | { kind: "done"; report: string }
  | { kind: "failed"; code: "needs_model"; message: string; remedy: string };

type Planned = Item & { id: string; needs: string[] };

type Standing = {
  phases: { id: string; state: string; squad?: string; productionTaskID?: string }[];
  running: string[];
};

type Seen = { tool: string; input: Record<string, unknown>; ok: boolean; output: string };

export const planMission = (messages: readonly PromptMessage[]): MissionReply => {
  const { items, rosters, problems } = read(messages);
  if (problems.length > 0 || items.length === 0) return needsModel(problems);

  const seen = callsIn(messages);
  const written = seen.findLast(({ tool, ok }) => tool === "plan" && ok);
  if (idsIn(written) !== items.map(({ id }) => id).join(" ")) return { kind: "calls", calls: [planCall(items)] };

  // Results since the last user message; older ones may be outdated.
  const since = callsIn(messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1));
  const at = since.findLastIndex(({ tool, ok }) => ok && tool === "task_status");
  const standing = at < 0 ? undefined : standingIn(since[at]?.output ?? "");
  if (standing === undefined || since.slice(at + 1).some(({ tool }) => tool === "finish"))
    return { kind: "calls", calls: [{ tool: "task_status", input: {} }] };

  const tried = since.slice(at + 1).filter(({ tool }) => tool === "dispatch" || tool === "produce_squad");
  if (tried.length === 0) {
    const calls = standing.phases
      .filter(({ state }) => state === "ready")
      .flatMap((phase) => nextOf(phase, items, rosters));
    if (calls.length > 0) return { kind: "calls", calls };
  }
  const refused = tried.filter(({ ok }) => !ok);
  const begun = tried.length - refused.length;
  if (begun > 0 || standing.running.length > 0)
    return { kind: "done", report: `${begun + standing.running.length} at work; the rest waits for them.` };
  return { kind: "calls", calls: [finish(standing, refused)] };
};

const nextOf = (phase: Standing["phases"][number], items: readonly Planned[], rosters: readonly Roster[]): Call[] => {
  const item = items.find(({ id }) => id === phase.id);
  if (item === undefined) return [];
  const roster = rosters.find(({ squad }) => squad === item.squad);
  if (roster !== undefined && phase.productionTaskID === undefined)
    return [
      {
        tool: "produce_squad",
        input: {
          phase: item.id,
          squad: roster.squad,
          name: titled(roster.squad),
          summary: `Made for "${item.title}".`.slice(0, 300),
          roster: roster.agents,
        },
      },
    ];
  // A squad that was made but cannot be used is not replaced by another.
  if (roster !== undefined && phase.squad === undefined) return [];
  return [
    {
      tool: "dispatch",
      input: {
        phase: item.id,
        request: item.request,
        title: item.title.slice(0, 200),
        ...(item.squad === undefined ? {} : { squad: item.squad }),
        ...(roster === undefined ? { general: "The item is spelled out and names no squad to be made." } : {}),
      },
    },
  ];
};

const planCall = (items: readonly Planned[]): Call => ({
  tool: "plan",
  input: {
    phases: items.map(({ id, title, request, needs }) => ({
      id,
      title: title.slice(0, 120),
      phase: title.slice(0, 129),
      objective: request.slice(0, 1000),
      after: needs,
    })),
  },
});

const finish = ({ phases }: Standing, refused: readonly Seen[]): Call => {
  const open = phases.filter(({ state }) => state !== "done");
  const done = `${phases.length - open.length} of ${phases.length} items are done.`;
  if (open.length === 0) return { tool: "finish", input: { outcome: "done", summary: done } };
  const left = open.map(({ id, state }) => `item ${id.replace("item-", "")}: ${state}`).join("; ");
  const why = refused.map(({ output }) => output).join(" ");
  return {
    tool: "finish",
    input: {
      outcome: "blocked",
      summary:
        `${done} Not done: ${left}.${why === "" ? "" : ` ${why}`} Rules do not try again: correct the list and wake the Mission with it, or use a model.`.slice(
          0,
          8000,
        ),
    },
  };
};

/** The items of all texts, in order of arrival; numbers refer to items of the same text. */
const read = (messages: readonly PromptMessage[]) => {
  const items: Planned[] = [];
  const rosters: Roster[] = [];
  const problems: string[] = [];
  for (const message of messages) {
    if (message.role !== "user" || message.source !== "user") continue;
    const outline = outlineOf(message.text);
    const first = items.length;
    for (const item of outline.items)
      items.push({
        ...item,
        id: `item-${items.length + 1}`,
        needs: item.after.map((number) => `item-${first + number}`),
      });
    rosters.push(...outline.rosters);
    problems.push(...outline.problems);
  }
  for (const { id, request } of items)
    for (const { said, why } of parse(request, []).unknown)
      problems.push(`${id.replace("-", " ")}: *${said.slice(0, 120)}*${why === undefined ? "" : ` (${why})`}`);
  return { items, rosters, problems };
};

const callsIn = (messages: readonly PromptMessage[]): Seen[] =>
  messages.flatMap((message, at) => {
    if (message.role !== "assistant") return [];
    const next = messages[at + 1];
    const results = next?.role === "tool" ? next.results : [];
    return message.calls.map(({ callID, tool, input }) => {
      const result = results.find((one) => one.callID === callID);
      const given = typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {};
      return { tool, input: given, ok: result?.outcome === "ok", output: result?.output ?? "" };
    });
  });

const idsIn = (call: Seen | undefined): string => {
  const phases = call?.input["phases"];
  return Array.isArray(phases) ? phases.map(({ id }: { id?: unknown }) => String(id)).join(" ") : "";
};

const standingIn = (output: string): Standing | undefined => {
  try {
    return JSON.parse(output) as Standing;
  } catch {
    return undefined;
  }
};

const titled = (id: string): string =>
  id
    .split("-")
    .map((word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)
    .join(" ");

const needsModel = (problems: readonly string[]): MissionReply => {
  const ways =
    "Use a model: set ANTHROPIC_API_KEY (or the key of another provider); or give a list whose items are in the rules' own forms: /ui/manual/rules";
  return {
    kind: "failed",
    code: "needs_model",
    message: `NEEDS_MODEL: this Mission needs a language model. Not understood: ${problems.slice(0, 12).join("; ") || "an empty text"}. Nothing was dispatched. ${ways}`,
    remedy: ways,
  };
};
