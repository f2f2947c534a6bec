import type { MissionPhase, MissionStatus } from "../../protocol/mission/status.ts";
import { commandFor, connect, dataOf, type Target } from "../connection.ts";
import type { Context } from "../context.ts";
import { resolveMission } from "../resolve-id.ts";
import { exit } from "../terminal/exit.ts";
import { clean, indented, line } from "../terminal/format.ts";
import type { Screen } from "../terminal/screen.ts";

/**
 * `sortie mission plan`: the whole plan with the states of its phases, and the subject of an open approval of the plan.
 */

export const plan = async (given: string, { target, screen, emit }: Context): Promise<number> => {
  const service = connect(target);
  const missionID = await resolveMission(service, target, given);
  const mission = dataOf(await service.mission.status({ path: { missionID } }), target.url);
  const asked = mission.pending.find(({ kind }) => kind === "approval");
  if (emit !== undefined) {
    emit({ missionID, plan: mission.plan, planChange: mission.planChange, approval: asked ?? null });
    return exit.completed;
  }
  if (mission.plan.length === 0) {
    screen.say(`${missionID} has no plan yet.`);
    return exit.completed;
  }
  const titles = titlesOf(mission);
  screen.say(
    [
      ...mission.plan.map((phase, at) => phaseText(phase, at + 1, titles, screen)),
      ...(mission.planChange === null ? [] : [changeText(mission.planChange, titles, screen)]),
      ...(asked === undefined ? [] : [approvalText(missionID, asked.prompt, screen, target)]),
    ].join("\n\n"),
  );
  return exit.completed;
};

type Titles = ReadonlyMap<string, string>;

/** Titles by id, including those of phases that were dropped. */
const titlesOf = ({ plan: phases, planChange }: MissionStatus): Titles =>
  new Map([...(planChange?.dropped ?? []), ...phases].map(({ id, title }) => [id, title]));

const longestTitle = 120;

const phaseText = (
  { id, title, phase, objective, acceptance, after, state, waits, squad, general, correction, attempts }: MissionPhase,
  number: number,
  titles: Titles,
  { colors: { bold, dim } }: Pick<Screen, "colors">,
): string => {
  const stands = [
    stateText({ state, waits }),
    ...(attempts > 1 ? [`attempt ${attempts}`] : []),
    ...(correction === null ? [] : [`a correction ${correction === "failed" ? "failed" : "was cancelled"}`]),
    ...(squad === null ? [] : [`squad ${line(squad.id, 64)}`]),
  ].join(", ");
  return [
    `${number}. ${bold(line(title, longestTitle))}  ${stands}`,
    dim(`   ${id === phase ? id : `${id}, ${line(phase, 129)}`}`),
    indented(clean(objective)),
    ...acceptance.map((one) => `  - ${line(one, 500)}`),
    ...(after.length === 0 ? [] : [`  After ${namesOf(after, titles)}`]),
    ...(general === null ? [] : [`  A general squad: ${line(general, 500)}`]),
  ].join("\n");
};

/** The phase's state, with what it waits for from a person. */
export const stateText = ({ state, waits }: Pick<MissionPhase, "state" | "waits">): string => {
  if (waits === null) return state;
  const { kind, of, since } = waits;
  const what = `${kind === "question" ? "answer" : kind}${of === null ? "" : ` of the ${of}`}`;
  return `${state}, waits for your ${what}${since === null ? "" : ` since ${since.slice(0, 16).replace("T", " ")} UTC`}`;
};

const namesOf = (ids: readonly string[], titles: Titles): string =>
  ids.map((id) => `"${line(titles.get(id) ?? id, longestTitle)}"`).join(", ");

const changeText = (
  { added, dropped, changed, reordered }: NonNullable<MissionStatus["planChange"]>,
  titles: Titles,
  { colors: { bold, green, red, yellow } }: Pick<Screen, "colors">,
): string => {
  const lines = [
    ...added.map(({ title }) => `${green("+")} new: ${line(title, longestTitle)}`),
    ...dropped.map(({ title, objective }) =>
      [`${red("-")} dropped: ${line(title, longestTitle)}`, indented(clean(objective))].join("\n"),
    ),
    ...changed.map(({ title, was, is }) =>
      [`${yellow("~")} changed: ${line(title, longestTitle)}`, ...fieldLines(was, is, titles)].join("\n"),
    ),
    ...(reordered ? [`${yellow("~")} the order of the phases`] : []),
  ];
  const heading = bold("What differs from the plan that was approved last");
  return lines.length === 0 ? `${heading}\nnothing` : [heading, ...lines].join("\n");
};

type Words = NonNullable<MissionStatus["planChange"]>["changed"][number]["is"];

const fieldNames = {
  title: "title",
  phase: "kind of work",
  objective: "objective",
  acceptance: "acceptance",
  after: "after",
} as const satisfies Record<keyof Words, string>;

/** Both versions of each field that differs; for lists, only the items that were added or removed. */
const fieldLines = (was: Words, is: Words, titles: Titles): string[] =>
  (Object.keys(fieldNames) as (keyof Words)[]).flatMap((field) => {
    if (is[field] === undefined) return [];
    const before = itemsOf(was[field], field, titles);
    const now = itemsOf(is[field], field, titles);
    const gone = before.filter((one) => !now.includes(one));
    const come = now.filter((one) => !before.includes(one));
    return [
      `    ${fieldNames[field]}${gone.length + come.length === 0 ? ": another order" : ""}`,
      ...gone.map((text) => signed("-", text)),
      ...come.map((text) => signed("+", text)),
    ];
  });

const itemsOf = (value: string | readonly string[] | undefined, field: keyof Words, titles: Titles): string[] => {
  const items = value === undefined ? [] : typeof value === "string" ? [value] : [...value];
  return field === "after" ? items.map((id) => titles.get(id) ?? id) : items;
};

/** Puts the sign before every line of the text, as in a diff. */
const signed = (sign: string, text: string): string =>
  clean(text)
    .split("\n")
    .map((one) => `    ${sign} ${one}`)
    .join("\n");

const approvalText = (
  missionID: string,
  prompt: string,
  { colors: { bold } }: Pick<Screen, "colors">,
  target: Target,
): string =>
  [
    `${bold("Waits for your approval:")} ${line(prompt, 600)}`,
    `Approve it with ${commandFor(target, `mission answer ${missionID} --allow`)}, or say what to change with ${commandFor(target, `mission answer ${missionID} --deny "…"`)}.`,
  ].join("\n");
