import { evolveMission } from "../../../src/domain/mission/evolve.ts";
import { standingAmong, standingOf } from "../../../src/domain/mission/standing.ts";
import { isRunning, type MissionState } from "../../../src/domain/state/mission.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { type MissionStatus, missionSummary } from "../../../src/protocol/mission/status.ts";

/**
 * What must hold of Missions at any moment at which nothing runs, said of what callers see: statuses, events, commits,
 * processes and notifications. Pure, so that a control can spoil each kind of observation, and has to be found out.
 */

export type Event = Frame & { type: string; at: string; id: number; data: Record<string, unknown> };

export type Commit = { commit: string; parents: string[]; body: string };

export type Observed = {
  /** The service's clock. */
  at: string;
  missions: {
    status: MissionStatus;
    /** Its own facts, from the first one. */
    own: Event[];
    /** Those of its Tasks, by id. */
    tasks: ReadonlyMap<string, Event[]>;
    /**
     * Texts with which callers woke it, and that they wrote to its Tasks, each of its own; and asks that they answered.
     * Acknowledged, maybe after a death.
     */
    said: readonly string[];
    written: readonly string[];
    answered: readonly string[];
    /** All commits of its project that no branch had before. */
    commits: readonly Commit[];
  }[];
  /** Of the service's, while nothing runs. */
  processes: readonly number[];
  /** Notifications, by their id: one that is sent again after a death has the same. */
  told: ReadonlyMap<string, { type: string; eventID: number }>;
};

export const kinds = ["state", "asked", "done", "budget", "commits", "processes", "reminders", "stalled"] as const;
export type Kind = (typeof kinds)[number];
export type Violation = { kind: Kind; text: string };

export const violationsIn = (seen: Observed): Violation[] => {
  const found: Violation[] = [];
  const say = (kind: Kind, text: string) => void found.push({ kind, text });
  for (const mission of seen.missions) {
    const { missionID } = mission.status;
    const of = (kind: Kind) => (text: string) => say(kind, `${missionID}: ${text}`);
    checkState(mission, of("state"));
    checkAsked(mission, seen.told, of("asked"));
    checkDone(mission, of("done"));
    checkBudget(mission, of("budget"));
    checkCommits(mission, of("commits"));
    checkReminders(mission, seen, of("reminders"));
    checkStalled(mission, seen.told, of("stalled"));
  }
  checkStrangers(seen.missions, (text) => say("commits", text));
  if (seen.processes.length > 0) say("processes", `left: ${seen.processes.join(", ")}`);
  return found;
};

type Mission = Observed["missions"][number];
type Say = (text: string) => void;

const words: ReadonlySet<string> = new Set(missionSummary.shape.state.options);

const foldOf = (own: readonly Event[], each: (state: MissionState) => void = () => {}): MissionState => {
  let state: MissionState | undefined;
  for (const [index, { id, ...event }] of own.entries()) {
    const recorded = { ...event, stream: "", position: id, version: index + 1 };
    state = evolveMission(state, recorded);
    each(state);
  }
  if (state === undefined) throw new Error("Expected facts of a Mission, got none.");
  return state;
};

/** It is one word of the table after each fact, and what is served is what the log comes to beside the Tasks' rows. */
const checkState = ({ status, own }: Mission, say: Say): void => {
  if (!words.has(status.state)) say(`${status.state} is no word of the table`);
  if (status.lastEventID !== own.at(-1)?.id)
    say(`its record is of ${status.lastEventID}, its log of ${own.at(-1)?.id}`);
  const state = foldOf(own, (now) => {
    if (!words.has(standingOf(now).state)) say(`${standingOf(now).state} at ${now.version}`);
  });
  const active = status.tasks.filter((task) => task.status === "running");
  const word = standingAmong(standingOf(state), {
    known: state.tasks.filter(isRunning).length,
    active: active.length,
    asking: active.filter(({ pendingCount }) => pendingCount > 0).length,
  });
  if (word.state !== status.state || word.reason !== status.stateReason)
    say(`served ${status.state} (${status.stateReason}), its log says ${word.state} (${word.reason})`);
};

type Opened = {
  askID: string;
  kind: string;
  of?: string;
  would?: { subject: string };
  passesAt?: string;
  expiresAt: string | null;
};
type Answered = { askID: string; by: string; decision?: string; source: string };

const logsOf = ({ own, tasks }: Mission): (readonly [name: string, log: readonly Event[]])[] => [["it", own], ...tasks];

const dataOf = <T>(log: readonly Event[], type: string): (T & { at: string; id: number })[] =>
  log.flatMap((event) => (event.type === type ? [{ ...(event.data as T), at: event.at, id: event.id }] : []));

/** Nothing is asked twice: not in the log, and not of people. */
const checkAsked = (mission: Mission, told: Observed["told"], say: Say): void => {
  for (const [name, log] of logsOf(mission)) {
    const open = new Map<string, Opened>();
    const settled = new Map<string, string>();
    const known = new Set<string>();
    for (const event of log) {
      if (event.type === "ask.opened") {
        const ask = event.data as Opened;
        if (known.has(ask.askID)) say(`${name} opened ${ask.askID} twice`);
        known.add(ask.askID);
        if (ask.kind !== "approval") continue;
        const subject = `${ask.of} ${ask.would?.subject}`;
        const same = [...open.values()].find((one) => one.of === ask.of);
        if (same !== undefined) say(`${name} asks for the ${ask.of} in ${ask.askID}, and did in ${same.askID}`);
        if (settled.has(subject)) say(`${name} asks again for the ${ask.of}, which was ${settled.get(subject)}`);
        open.set(ask.askID, ask);
      }
      if (event.type === "ask.answered") {
        const { askID, by, decision = "" } = event.data as Answered;
        const ask = open.get(askID);
        if (ask === undefined) continue;
        open.delete(askID);
        if (by === "caller") settled.set(`${ask.of} ${ask.would?.subject}`, decision);
      }
    }
  }
  const heard = dataOf<{ askID: string }>(mission.own, "task.asked").map(({ askID }) => askID);
  for (const askID of twice(heard)) say(`it heard ${askID} twice`);
  // Each that is a person's is told to them, once.
  const byEvent = Map.groupBy(told.values(), ({ eventID }) => eventID);
  for (const [name, log] of logsOf(mission))
    for (const event of log) {
      const isPersons =
        (event.type === "ask.opened" && (event.data as Opened).passesAt === undefined) || event.type === "ask.passed";
      if (!isPersons) continue;
      const type = name === "it" ? "mission.asked" : "task.asked";
      const times = (byEvent.get(event.id) ?? []).filter((one) => one.type === type).length;
      if (times !== 1) say(`${event.type} ${event.id} of ${name} was told ${times} times`);
    }
};

/** Nothing is carried out twice, and nothing that was acknowledged is lost. */
const checkDone = (mission: Mission, say: Say): void => {
  const { own, tasks, said, written, answered, status } = mission;
  const dispatched = dataOf<{ callID: string; taskID: string; merge?: { commit: string } }>(own, "task.dispatched");
  for (const callID of twice(dispatched.map((one) => one.callID))) say(`the call ${callID} dispatched twice`);
  const merges = dispatched.flatMap(({ merge, taskID }) => {
    const landed = (tasks.get(taskID) ?? []).some(({ type }) => type === "landing.finished");
    return merge === undefined || !landed ? [] : [merge.commit];
  });
  for (const commit of twice(merges)) say(`${commit} was merged twice`);
  for (const { taskID } of dispatched) {
    const log = tasks.get(taskID) ?? [];
    const times = (type: string) => log.filter((event) => event.type === type).length;
    if (times("task.created") !== 1) say(`${taskID} was created ${times("task.created")} times`);
    const settled = dataOf<{ lifecycleStatus: string }>(log, "task.settled").map((one) => one.lifecycleStatus);
    const ends = dataOf<{ taskID: string; attempt: number; outcome: string }>(own, "task.ended").filter(
      (end) => end.taskID === taskID,
    );
    const heard = ends.map(({ attempt, outcome }) => `${attempt} ${outcome}`).join(", ");
    const were = settled.map((outcome, at) => `${at + 1} ${outcome}`).join(", ");
    // One that was aborted hears of it when it is woken.
    if (heard !== were && !status.aborted) say(`${taskID} ended "${were}", and it heard "${heard}"`);
  }
  for (const [name, log] of logsOf(mission)) {
    const answers = dataOf<Answered>(log, "ask.answered");
    for (const askID of twice(answers.map((one) => one.askID))) say(`${name} has two answers to ${askID}`);
    const started = dataOf<{ callID: string }>(log, "tool.started").map(({ callID }) => callID);
    for (const callID of twice(started)) say(`${name} began the call ${callID} twice`);
  }
  const all = logsOf(mission).flatMap(([, log]) => dataOf<Answered>(log, "ask.answered"));
  for (const askID of answered) {
    const times = all.filter((one) => one.askID === askID && one.by === "caller").length;
    if (times !== 1) say(`the answer to ${askID} is on record ${times} times`);
  }
  const received = dataOf<{ text: unknown; source: string }>(own, "message.received");
  for (const text of said) {
    const times = received.filter((one) => one.text === text).length;
    if (times !== 1) say(`the text ${JSON.stringify(text)} was heard ${times} times`);
  }
  const toTasks = [...tasks.values()].flatMap((log) => dataOf<{ text: unknown }>(log, "message.received"));
  for (const text of written) {
    const times = toTasks.filter((one) => one.text === text).length;
    if (times !== 1) say(`the message ${JSON.stringify(text)} came to its Task ${times} times`);
    const told = [
      ...dataOf<{ text: string }>(own, "task.messaged").map((one) => one.text),
      ...dataOf<{ said?: { answer: string } }>(own, "task.answered").map((one) => one.said?.answer),
    ].filter((one) => one === text).length;
    if (told !== 1) say(`the message ${JSON.stringify(text)} to its Task was told to the Mission ${told} times`);
  }
};

/** The cap is passed by no more than the calls under way when it was reached; what is reserved is for what runs. */
const checkBudget = ({ status, own }: Mission, say: Say): void => {
  const { budget, budgetSpent, budgetReserved, tasks } = status;
  const running = tasks.some((task) => task.status === "running");
  for (const name of budgetNames) {
    if (!running && budgetReserved[name] !== 0)
      say(`${budgetReserved[name]} of ${name} are reserved, and nothing runs`);
    const cap = budget?.[name];
    const spent = budgetSpent[name];
    // A later wake may have set a lower one.
    const caps = dataOf<{ budget?: Record<string, number> | null }>(own, "mission.woken").flatMap(
      (one) => one.budget?.[name] ?? [],
    );
    if (cap === undefined || spent === null || caps.some((other) => other > cap)) continue;
    if (spent > cap + leeway[name]) say(`${spent} of ${name} are spent, with a cap of ${cap}`);
  }
};

const budgetNames = ["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"] as const;

/** One call of each session that may be at work at once, as the played model counts; steps are counted before. */
const leeway = { maxCostUSD: 0, maxTokens: 4 * 110, maxSteps: 0, maxMinutes: 1 };

const trailersOf = (body: string): ReadonlyMap<string, string> =>
  new Map(
    [...body.matchAll(/^(Task|Mission|Phase|Squad): (.+)$/gm)].map(
      ([, name = "", value = ""]) => [name, value] as const,
    ),
  );

type Dispatched = {
  taskID: string;
  phase: string;
  merge?: object;
  judges?: object;
  squad: { id: string; version: string };
};

/** What a Task landed is in its project once, and says whose it is. */
const checkCommits = ({ status, own, tasks, commits }: Mission, say: Say): void => {
  for (const { taskID, phase, merge, squad } of dataOf<Dispatched>(own, "task.dispatched")) {
    const log = tasks.get(taskID) ?? [];
    const landings = dataOf<{ commit: string }>(log, "landing.finished").map(({ commit }) => commit);
    for (const commit of twice(landings)) say(`${taskID} landed ${commit} twice`);
    const inProject = commits.filter(({ body }) => trailersOf(body).get("Task") === taskID);
    const there = inProject.map(({ commit }) => commit).toSorted();
    if (there.join() !== [...new Set(landings)].toSorted().join())
      say(
        `${taskID} landed ${landings.join(", ") || "nothing"}, the project has ${there.join(", ") || "nothing"} of it`,
      );
    for (const { commit, body } of inProject) {
      const trailers = trailersOf(body);
      const wanted = {
        Mission: status.missionID,
        ...(merge === undefined ? { Phase: phase } : {}),
        Squad: `${squad.id}@${squad.version}`,
      };
      for (const [name, value] of Object.entries(wanted))
        if (trailers.get(name) !== value) say(`${commit} has ${name}: ${trailers.get(name)}, expected ${value}`);
    }
  }
};

/** Nothing came into a project that no Task has landed there. */
const checkStrangers = (missions: readonly Mission[], say: Say): void => {
  const landed = new Set(
    missions.flatMap(({ tasks }) =>
      [...tasks.values()].flatMap((log) =>
        dataOf<{ commit: string }>(log, "landing.finished").map(({ commit }) => commit),
      ),
    ),
  );
  const there = new Map(missions.flatMap(({ commits }) => commits).map((one) => [one.commit, one]));
  for (const { commit, body } of there.values())
    if (!landed.has(commit)) say(`${commit} is in a project, and no Task has landed it: ${body.split("\n")[0]}`);
};

/** Hours after which somebody is reminded of what waits for them; then once a day. */
const reminderHours = (at: number): number => [1, 4, 24][at] ?? 24 * (at - 1);

/** Of what waits for a person they are reminded, at each of its times, once. */
const checkReminders = (mission: Mission, { at, told }: Observed, say: Say): void => {
  for (const [name, log] of logsOf(mission)) {
    const answers = new Map(dataOf<Answered>(log, "ask.answered").map((one) => [one.askID, one]));
    const passed = new Map(
      dataOf<{ askID: string; expiresAt: string | null }>(log, "ask.passed").map((one) => [one.askID, one]),
    );
    const reminded = dataOf<{ askIDs: string[] }>(log, "ask.reminded");
    for (const { id } of reminded) {
      const times = [...told.values()].filter(
        ({ type, eventID }) => type.endsWith(".reminded") && eventID === id,
      ).length;
      if (times !== 1) say(`the reminder ${id} of ${name} was told ${times} times`);
    }
    for (const ask of dataOf<Opened>(log, "ask.opened")) {
      const since = ask.passesAt === undefined ? ask : passed.get(ask.askID);
      const times = reminded.filter(({ askIDs }) => askIDs.includes(ask.askID)).length;
      if (since === undefined) {
        if (times > 0) say(`${name} reminds of ${ask.askID}, which is its Mission's to answer`);
        continue;
      }
      const answer = answers.get(ask.askID);
      const until = Date.parse(answer?.at ?? at);
      const expires = since.expiresAt === null ? Infinity : Date.parse(since.expiresAt);
      let due = 0;
      while (true) {
        const next = Date.parse(since.at) + reminderHours(due) * 3_600_000;
        if (next > until || next >= expires) break;
        due += 1;
      }
      // An answer may come before the service has looked at the time.
      if (times > due || (answer === undefined && times < due))
        say(
          `${name} waits with ${ask.askID} since ${since.at}: ${times} reminders until ${new Date(until).toISOString()}, ${due} were due`,
        );
    }
  }
};

/** Facts with which its agent hears something: a standstill is over then. */
const heard: ReadonlySet<string> = new Set([
  "message.received",
  "task.ended",
  "task.asked",
  "task.overdue",
  "mission.reminded",
]);

/** A standstill is a fact, once, and told. */
const checkStalled = ({ status, own }: Mission, told: Observed["told"], say: Say): void => {
  const last = own.findLastIndex(({ type }) => heard.has(type));
  const since = own.slice(last + 1).filter(({ type }) => type === "mission.stalled");
  if (status.state === "stalled" && since.length !== 1)
    say(`it stands still, and that is on record ${since.length} times`);
  for (const { id } of own.filter(({ type }) => type === "mission.stalled")) {
    const times = [...told.values()].filter(({ type, eventID }) => type === "mission.stalled" && eventID === id).length;
    if (times !== 1) say(`the standstill ${id} was told ${times} times`);
  }
};

const twice = (values: readonly string[]): string[] => [
  ...new Set(values.filter((value, at) => values.indexOf(value) !== at)),
];
