import { text as readAll } from "node:stream/consumers";
import { messageOf } from "../../error.ts";
import type { MissionStatus } from "../../protocol/mission/status.ts";
import { commandFor, connect, dataOf, type Service, withManuals } from "../connection.ts";
import type { Context } from "../context.ts";
import { resolveMission } from "../resolve-id.ts";
import { writeBlob } from "../task/action.ts";
import { createWords } from "../task/event-line.ts";
import { bodyOf } from "../task/prompt.ts";
import { attachment } from "../task/run.ts";
import { headOf } from "../verify/verify.ts";
import { budgetFor, type Caps } from "./budget.ts";
import { stateText } from "./plan.ts";
import { Exit, exit } from "../terminal/exit.ts";
import { bytes, clean, duration, line, money, table } from "../terminal/format.ts";
import { during, type Screen } from "../terminal/screen.ts";

/**
 * The actions of `sortie mission …`, one function per command. Each resolves to the exit code; with `--json` answers go
 * to `emit`.
 */

export type WakeOptions = Caps & {
  repo?: string;
  ref?: string;
  id?: string;
  title?: string;
  squad?: string[];
  anySquad?: true;
  produce?: "allow" | "forbid";
  model?: string;
  pillar?: "code" | "work";
  approve?: ("plan" | "squad" | "landing")[];
  landing?: "commit" | "branch";
  merge?: "manual" | "auto";
  attach?: string[];
  priority?: "critical" | "high" | "normal" | "low";
  callback?: string;
  dropCallback?: true;
  askSeconds?: number;
  check?: string[];
  dropChecks?: true;
  follow?: true;
};

export const wake = async (given: string | undefined, options: WakeOptions, { target, screen, emit }: Context) => {
  const service = connect(target);
  const text = given === "-" ? await readAll(process.stdin) : given;
  const { id, title, squad, anySquad, produce, model, pillar, attach, check, dropChecks } = options;
  if (check !== undefined && dropChecks)
    throw new Exit(exit.usage, "Expected one of --check and --drop-checks, got both.");
  if (options.callback !== undefined && options.dropCallback)
    throw new Exit(exit.usage, "Expected one of --callback and --drop-callback, got both.");
  if (squad !== undefined && anySquad) throw new Exit(exit.usage, "Expected one of --squad and --any-squad, got both.");
  if (options.ref !== undefined && options.repo === undefined)
    throw new Exit(exit.usage, "Expected --ref only with --repo: a directory already has a branch checked out.");
  const budget = await budgetFor(service, target.url, id, options);
  const woken = dataOf(
    await service.mission.wake({
      body: {
        ...(options.repo === undefined
          ? {}
          : { repository: { url: options.repo, ...(options.ref && { ref: options.ref }) } }),
        ...(id === undefined ? {} : { missionID: id }),
        ...(title === undefined ? {} : { title }),
        ...(text === undefined ? {} : { text }),
        ...(attach === undefined ? {} : { attachments: await Promise.all(attach.map(attachment)) }),
        ...(squad === undefined ? (anySquad ? { squads: [] } : {}) : { squads: squad }),
        ...(check === undefined ? (dropChecks ? { checks: [] } : {}) : { checks: check }),
        ...(produce === undefined ? {} : { allowSquadProduction: produce === "allow" }),
        ...(model === undefined ? {} : { model }),
        ...(options.approve === undefined ? {} : { approve: options.approve }),
        ...(options.landing === undefined ? {} : { landing: options.landing }),
        ...(options.merge === undefined ? {} : { merge: options.merge }),
        ...(pillar === undefined ? {} : { productPillar: pillar }),
        ...(options.priority === undefined ? {} : { priority: options.priority }),
        ...(options.askSeconds === undefined ? {} : { limits: { askSeconds: options.askSeconds } }),
        ...(options.callback === undefined
          ? options.dropCallback && { callbackURL: null }
          : { callbackURL: options.callback }),
        ...(budget === undefined ? {} : { budget }),
      },
    }),
    target.url,
  );
  const { missionID, created } = woken;
  if (options.follow) return follow({ service, target, screen, emit, missionID });
  if (emit !== undefined) emit(woken);
  else
    screen.say(
      `${missionID}: ${created ? "begun" : "woken"}. Follow it with ${commandFor(target, `mission logs -f ${missionID}`)}.`,
    );
  return exit.completed;
};

export const list = async (
  { search, all, limit }: { search?: string; all?: true; limit: number },
  { target, screen, emit }: Context,
) => {
  const query = { limit, ...(all ? { archived: true } : {}), ...(search === undefined ? {} : { search }) };
  const missions = dataOf(await connect(target).mission.list({ query }), target.url);
  if (emit !== undefined) for (const mission of missions) emit(mission);
  else if (missions.length === 0) screen.say('No Missions here yet. Start one: sortie mission wake "your goal"');
  else
    screen.say(
      table([
        ["MISSION", "STATE", "RUNNING", "DONE", "FAILED", "UPDATED", "TITLE"],
        ...missions.map(({ missionID, state, now, taskStats, updatedAt, title }) => [
          missionID,
          now?.kind === "verdict" ? "judged now" : state,
          String(taskStats.running),
          String(taskStats.completed),
          String(taskStats.failed),
          `${updatedAt.slice(0, 16)}Z`,
          line(title, 60),
        ]),
      ]),
    );
  return exit.completed;
};

export const view = async (given: string, { target, screen, emit }: Context) => {
  const missionID = await resolveMission(connect(target), target, given);
  const mission = dataOf(await connect(target).mission.status({ path: { missionID } }), target.url);
  if (emit !== undefined) {
    emit(mission);
    return exit.completed;
  }
  const { bold } = screen.colors;
  const rows = [
    ["Title", line(mission.title)],
    ["Project", line(mission.directory, 400)],
    ["State", mission.stateReason === null ? mission.state : `${mission.state}: ${line(mission.stateReason, 400)}`],
    ["Agent", `${mission.agentStatus === "running" ? "works" : "sleeps"}, ${line(mission.model)}`],
    ...(mission.now === null
      ? []
      : [["Now", `${line(mission.now.text)} (since ${mission.now.since.slice(11, 19)} UTC)`]]),
    ...(mission.landingBranch === null
      ? []
      : [["Branch", line(`${mission.landingBranch}${mergedText(mission)}`, 300)]]),
    ...(mission.priority === "normal" ? [] : [["Priority", mission.priority]]),
    ["Squads", mission.squads.length === 0 ? "any" : line(mission.squads.join(", "))],
    ...(mission.judging === null
      ? []
      : [
          [
            "Judged",
            `now${mission.judging.taskID === null ? "" : ` (${mission.judging.taskID})`}, at ${mission.judging.commit.slice(0, 10)}; its agent reports: ${line(mission.judging.summary, 600)}`,
          ],
        ]),
    ...(mission.verdict === null
      ? []
      : [["Verdict", line(`${mission.verdict.verdict} (${mission.verdict.taskID}): ${mission.verdict.notes}`, 600)]]),
    ...(mission.checks.length === 0 ? [] : [["Checks", line(mission.checks.map(({ name }) => name).join("; "), 400)]]),
    ["Use", `${mission.usage.modelCalls} model calls, cost ${money(mission.usage.costUSD)}`],
  ];
  const plan = mission.plan.map(({ id, title, state, waits, squad, after, general }) => [
    `  ${line(id, 40)}`,
    stateText({ state, waits }),
    squad === null ? "" : line(squad.id, 40),
    after.length === 0 ? "" : `after ${line(after.join(", "), 60)}`,
    line(title, 60),
    general === null ? "" : `a general squad: ${line(general, 100)}`,
  ]);
  const tasks = mission.tasks.map(({ taskID, lifecycleStatus, phase, title }) => [
    `  ${taskID}`,
    lifecycleStatus === "active" ? phase : lifecycleStatus,
    line(title, 60),
  ]);
  screen.say(
    [
      table(rows.map(([name = "", value = ""]) => [bold(name), value])),
      ...(plan.length === 0 ? [] : [bold("Plan"), table(plan)]),
      ...(tasks.length === 0 ? [] : [bold("Tasks"), table(tasks)]),
      ...mission.pending.map(
        ({ id, prompt }) => `${bold("Asks")} ${line(prompt, 600)} (sortie mission answer ${missionID} … --ask ${id})`,
      ),
      closing(mission, screen, target.url),
    ].join("\n"),
  );
  return exit.completed;
};

const mergedText = ({ merged }: MissionStatus): string => {
  if (merged === null) return "";
  const { state, branch, commit, taskID } = merged;
  if (state === "merged") return `, merged into ${branch}${commit === null ? "" : ` as ${commit.slice(0, 10)}`}`;
  return state === "running" ? `, being merged into ${branch} (${taskID})` : `, not merged into ${branch} (${taskID})`;
};

/** Merges the Mission's branch into the project's branch. */
export const merge = async (given: string, options: { follow?: true }, { target, screen, emit }: Context) => {
  const service = connect(target);
  const missionID = await resolveMission(service, target, given);
  const begun = dataOf(await service.mission.merge({ path: { missionID } }), target.url);
  if (options.follow) return follow({ service, target, screen, emit, missionID });
  if (emit !== undefined) emit(begun);
  else screen.say(`${begun.taskID} merges it. Follow it with ${commandFor(target, `task logs -f ${begun.taskID}`)}.`);
  return exit.completed;
};

export const logs = async (given: string, options: { follow?: true }, { target, screen, emit }: Context) => {
  const service = connect(target);
  const following = { service, target, screen, emit, missionID: await resolveMission(service, target, given) };
  if (options.follow) return follow(following);
  await show(following, "now", new AbortController().signal);
  return exit.completed;
};

type Following = Context & { service: Service; missionID: string };

const follow = async (following: Following): Promise<number> => {
  const { service, target, missionID, screen } = following;
  await show(following, "rest", new AbortController().signal);
  const mission = dataOf(await service.mission.status({ path: { missionID } }), target.url);
  screen.say(closing(mission, screen, target.url));
  const stopped = ["aborted", "blocked", "paused", "stalled"].includes(mission.state);
  return mission.error === undefined && !stopped ? exit.completed : exit.failed;
};

/**
 * Prints the events of a Mission and its Tasks from the first one. Of the Tasks' events, only those in `telling` are
 * printed.
 */
export const show = async (
  { service, target, screen, emit, missionID }: Following,
  until: "rest" | "now",
  signal: AbortSignal,
): Promise<void> => {
  const { dim } = screen.colors;
  const own = createWords(screen);
  const ofTasks = new Map<string, ReturnType<typeof createWords>>();
  const first = dataOf(await service.mission.status({ path: { missionID } }), target.url);
  const began = Date.parse(first.createdAt);
  const last = until === "now" ? first.lastEventID : Number.POSITIVE_INFINITY;
  const events = dataOf(await service.mission.events({ path: { missionID }, query: { after: 0 }, signal }), target.url);
  try {
    for await (const event of events) {
      emit?.(event);
      if (event.type === "stream.end") return;
      if (!("id" in event)) continue;
      const { taskID } = event;
      const words = taskID === undefined ? own : (ofTasks.get(taskID) ?? createWords(screen));
      if (taskID !== undefined) ofTasks.set(taskID, words);
      const text = words(event);
      const told = taskID === undefined ? event.type !== "run.started" : telling.has(event.type);
      const said = told ? text : undefined;
      const whose = taskID === undefined ? "" : dim(`  ${taskID.slice(-6)} `);
      if (said !== undefined) screen.say(`${dim(duration(Date.parse(event.at) - began).padStart(9))}  ${whose}${said}`);
      if (event.id >= last) return;
      // The Mission may come to rest after any of its own events, so each of them may be the last.
      if (until === "rest" && taskID === undefined && event.id >= first.lastEventID) {
        const now = dataOf(await service.mission.status({ path: { missionID } }), target.url);
        if (now.status === "inactive" && now.agentStatus === "inactive" && now.lastEventID <= event.id) return;
      }
    }
  } catch (error) {
    if (error instanceof Exit || signal.aborted) throw error;
    throw new Exit(
      exit.unreachable,
      `Lost the service at ${target.url} (${clean(messageOf(error))}). The Mission continues when it is back; follow it with ${commandFor(target, `mission logs -f ${missionID}`)}.`,
    );
  }
};

/** The events of a Task that are printed among those of its Mission. */
const telling: ReadonlySet<string> = new Set([
  "ask.opened",
  "check.finished",
  "landing.conflicted",
  "landing.finished",
  "squad.staged",
  "squad.installed",
]);

export const closing = (
  { missionID, state, stateReason, error, errorInfo, finished, verified, plan, taskCounts, usage }: MissionStatus,
  { colors }: Pick<Screen, "colors">,
  url: string,
): string => {
  const { bold, green, red, yellow } = colors;
  const done = plan.filter(({ state }) => state === "done").length;
  const facts = `${done}/${plan.length} phases, ${taskCounts.total} Tasks, ${taskCounts.running} running, cost ${money(usage.costUSD)}${verified === false ? ", not verified" : ""}, ${missionID}`;
  if (error !== undefined)
    return [`${red("STOPPED")}: ${facts}`, withManuals(clean(`${error}\n${errorInfo?.remedy ?? ""}`), url)]
      .join("\n")
      .trimEnd();
  if (finished === null) {
    const word = state === "stalled" || state === "paused" ? yellow(state.toUpperCase()) : bold("OPEN");
    return stateReason === null ? `${word}: ${facts}` : `${word}: ${facts}\n${clean(stateReason)}`;
  }
  const word = finished.outcome.toUpperCase();
  // The reason for the state of a finished Mission is about its branch: it waits to be merged, or could not be.
  const branch = finished.outcome === "done" && stateReason !== null ? `\n${yellow(clean(stateReason))}` : "";
  return `${finished.outcome === "done" ? green(word) : yellow(word)}: ${facts}\n${clean(finished.summary)}${branch}`;
};

export const answer = async (
  given: string,
  text: string | undefined,
  { ask, allow, deny }: { ask?: string; allow?: true; deny?: true },
  { target, screen, emit }: Context,
) => {
  const service = connect(target);
  const missionID = await resolveMission(service, target, given);
  const { pending } = dataOf(await service.mission.status({ path: { missionID } }), target.url);
  const [first, ...others] = pending.filter(({ id }) => ask === undefined || id === ask);
  if (first === undefined) throw new Exit(exit.usage, `The Mission ${missionID} is not waiting for that answer.`);
  if (others.length > 0)
    throw new Exit(
      exit.usage,
      `It waits for ${others.length + 1} answers; choose one with --ask: ${pending.map(({ id }) => id).join(", ")}.`,
    );
  const said = allow === true ? "allow" : deny === true && text === undefined ? "deny" : text;
  const body = said === undefined || (allow === true && text !== undefined) ? undefined : bodyOf(first, said);
  if (body === undefined)
    throw new Exit(exit.usage, `Expected an answer, --allow or --deny for "${line(first.prompt, 100)}".`);
  const accepted = dataOf(await service.mission.answer({ path: { missionID, askID: first.id }, body }), target.url);
  if (emit !== undefined) emit(accepted);
  else screen.say(`${missionID}: answered.`);
  return exit.completed;
};

export const rename = async (given: string, title: string, { target, screen, emit }: Context) => {
  const missionID = await resolveMission(connect(target), target, given);
  const renamed = dataOf(await connect(target).mission.rename({ path: { missionID }, body: { title } }), target.url);
  if (emit !== undefined) emit(renamed);
  else screen.say(`${missionID}: ${line(renamed.title)}`);
  return exit.completed;
};

export const hide = async (given: string, { undo }: { undo?: true }, { target, screen, emit }: Context) => {
  const missionID = await resolveMission(connect(target), target, given);
  const body = { archived: undo !== true };
  const hidden = dataOf(await connect(target).mission.archive({ path: { missionID }, body }), target.url);
  if (emit !== undefined) emit(hidden);
  else screen.say(`${missionID}: ${hidden.archived ? "archived" : "in the list"}`);
  return exit.completed;
};

export const abort = async (
  given: string,
  { cascade, reason }: { cascade?: true; reason?: string },
  { target, screen, emit }: Context,
) => {
  const missionID = await resolveMission(connect(target), target, given);
  const body = {
    surface: "cli",
    ...(reason === undefined ? {} : { reason }),
    ...(cascade === undefined ? {} : { cascade }),
  };
  const aborted = dataOf(await connect(target).mission.abort({ path: { missionID }, body }), target.url);
  if (emit !== undefined) emit(aborted);
  else screen.say(`${missionID}: aborted; ${aborted.tasksRunning} Tasks run.`);
  return exit.completed;
};

export const remove = async (given: string, { target, screen, emit }: Context) => {
  const missionID = await resolveMission(connect(target), target, given);
  const removed = dataOf(await connect(target).mission.delete({ path: { missionID } }), target.url);
  if (emit !== undefined) emit(removed);
  else screen.say(`${missionID}: deleted; its Tasks are kept.`);
  return exit.completed;
};

export const archive = async (given: string, { output }: { output?: string }, { target, screen, emit }: Context) => {
  const missionID = await resolveMission(connect(target), target, given);
  const building = connect(target).mission.projectArchive({ path: { missionID } });
  const blob = dataOf(await during(screen, "Building the archive", building), target.url);
  const path = output ?? `mission-${missionID}.zip`;
  await writeBlob(path, blob);
  // A head that the user notes now later proves that nothing was rewritten: `sortie task verify --head`.
  const ledger = await headOf(path);
  if (emit !== undefined) emit({ missionID, path, bytes: blob.size, ledger });
  else screen.say(`${path} (${bytes(blob.size)}), ledger of ${ledger.entries} entries, head ${ledger.head}`);
  return exit.completed;
};
