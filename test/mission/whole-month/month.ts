import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import type { PendingAsk } from "../../../src/protocol/task/status.ts";
import type { WebhookMessage } from "../../../src/protocol/webhook.ts";
import { processesOf, type ServiceProcess, startProcess } from "../../crash/process.ts";
import { at, send } from "../../harness/double/hostile-text.ts";
import { startMockProvider } from "../../harness/double/mock-provider.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { type Random, seededRandom } from "../../harness/random.ts";
import { startReceiver } from "../../harness/receiver.ts";
import { type Commit, type Event, type Observed, type Violation, violationsIn } from "./observe.ts";
import { createPlay, type Phase, redWords, type Story } from "./players.ts";

/**
 * A month of Missions as their user lives it: the whole service as a process that is killed, real projects, a clock
 * that is moved, models that are played. At the end of each day, when nothing runs, all that callers can see must bear
 * out what `observe.ts` says.
 */

const hour = 3_600_000;

export type Month = {
  /** What was seen at the end of each day, the newest last. */
  last: Observed;
  days: number;
  kills: number;
  /** How often each thing happened that a month is to have. */
  had: Record<string, number>;
};

type Ask = { key: string; path: string; directory: string; ask: PendingAsk; mission: string };

export const playWholeMonth = async (
  seed: number,
  stories: readonly (Story & { day: number })[],
  { days = 30, log = (_text: string) => {} } = {},
): Promise<Month> => {
  const random = seededRandom(seed);
  using root = temporary("sortie-whole-month-");
  const play = createPlay(new Map(stories.map((story) => [story.name, story])));
  const provider = await startMockProvider(play.script, { judges: play.judges, keep: 10 });
  await using receiver = await startReceiver();
  await using _provider = { [Symbol.asyncDispose]: () => provider.close() };

  const dataDir = join(root.path, "data");
  const config = join(root.path, "config.jsonc");
  const clockFile = join(root.path, "clock");
  mkdirSync(dataDir);
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  const webhooks = { allow: ["127.0.0.1"] };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock }, webhooks }));
  const projects = ["one", "two"].map((name) => makeProject(join(root.path, name), { "a.txt": `${name}\n` }));
  const first = new Set(projects.map((directory) => git(directory, "rev-parse", "HEAD")));

  let skipped = 0;
  let kills = 0;
  let position = 0;
  let service: ServiceProcess | undefined;
  const now = () => new Date(Date.now() + skipped);
  const moveClock = (hours: number) => {
    skipped += hours * hour;
    writeFileSync(clockFile, String(skipped));
  };
  const alive = async (): Promise<ServiceProcess> => {
    if (service !== undefined && service.child.exitCode === null && service.child.signalCode === null) return service;
    if (service !== undefined) kills += 1;
    const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path, TEST_CLOCK: clockFile };
    // Half of its lives end by themselves, right after one of the next facts.
    const doomed = random.below(2) === 0 ? { TEST_KILL_ON: String(position + 5 + random.below(150)) } : {};
    service = await startProcess({ ...env, ...doomed });
    return service;
  };
  await using _service = {
    async [Symbol.asyncDispose]() {
      await service?.[Symbol.asyncDispose]();
    },
  };

  /** Until it is acknowledged: what died in between is sent again, with the same key. */
  const call = async (path: string, directory: string | undefined, body?: unknown, key?: string) => {
    for (let tries = 0; ; tries += 1) {
      const { url } = await alive();
      try {
        const how =
          body === undefined
            ? {}
            : { method: "POST", body, ...(key === undefined ? {} : { key: key.replaceAll(/[^!-~]+/g, "-") }) };
        const answer = await send(url, directory === undefined ? path : at(path, directory), how);
        if (answer.status < 500 && answer.body["code"] !== "idempotency_in_progress") return answer;
      } catch (error) {
        if (tries > 20) throw error;
      }
      if (tries > 20) throw new Error(`${path} is not answered`);
      await pause(50);
    }
  };

  const known = new Map<
    string,
    { story: Story & { day: number }; directory: string; said: string[]; written: string[]; answered: string[] }
  >();
  const statusOf = async (name: string): Promise<MissionStatus> => {
    const { status, body } = await call(`/mission/${name}/status`, known.get(name)?.directory ?? "");
    if (status !== 200) throw new Error(`status of ${name}: ${status} ${JSON.stringify(body)}`);
    return body as unknown as MissionStatus;
  };
  const eventsOf = async (name: string): Promise<Event[]> => {
    const events: Event[] = [];
    for (let after = 0; ; ) {
      const path = `/mission/${name}/events?format=json&limit=1000&after=${after}`;
      const { body } = await call(path, known.get(name)?.directory ?? "");
      const page = body as unknown as { events: Event[]; nextAfter: number };
      if (page.events.length === 0) return events;
      events.push(...page.events);
      after = page.nextAfter;
    }
  };

  const wake = async (name: string, text: string, more: Record<string, unknown> = {}): Promise<void> => {
    const mission = known.get(name);
    if (mission === undefined) throw new Error(`Expected the Mission ${name}.`);
    const said = `[${name}] ${text} (${mission.said.length})`;
    const body = { missionID: name, text: said, ...more };
    const { status, body: answer } = await call("/mission/wake", mission.directory, body, `${name} ${said}`);
    if (status !== 200) throw new Error(`wake of ${name}: ${status} ${JSON.stringify(answer)}`);
    mission.said.push(said);
  };

  // ---- What a person is asked ------------------------------------------------------------------------------------------

  /** When each ask is answered, by the service's clock. */
  const plannedAnswers = new Map<string, number>();
  /** Approvals that were refused once, with words. */
  const refused = new Set<string>();

  const asksOf = (status: MissionStatus, directory: string): Ask[] => {
    const mission = status.missionID;
    return [
      ...status.pending.map((ask) => ({
        ask,
        path: `/mission/${mission}/pending/${ask.id}`,
        key: `${mission} ${ask.of}`,
      })),
      ...status.tasks.flatMap(({ taskID, pending }) =>
        pending.map((ask) => ({ ask, path: `/task/${taskID}/pending/${ask.id}`, key: `${taskID} ${ask.of}` })),
      ),
    ].map((one) => ({ ...one, directory, mission }));
  };

  /** At once, overnight, or after reminders. */
  const timeFor = (): number => now().getTime() + random.pick([0, 0, 0, 9, 30, 60]) * hour;

  const answerAll = async (statuses: readonly MissionStatus[]): Promise<number> => {
    let count = 0;
    for (const status of statuses) {
      const mission = known.get(status.missionID);
      if (mission === undefined) continue;
      for (const { ask, path, directory, key } of asksOf(status, mission.directory)) {
        const toMission = ask.passesAt !== undefined;
        if (toMission && !isDirect(mission.story, ask)) continue;
        const time = plannedAnswers.get(ask.id) ?? (toMission ? 0 : timeFor());
        plannedAnswers.set(ask.id, time);
        if (time > now().getTime()) continue;
        // The first of each kind, and others by chance.
        const kind = String(ask.of);
        const deny = ask.kind === "approval" && !refused.has(key) && (!refused.has(kind) || random.below(3) === 0);
        if (deny) refused.add(key).add(kind);
        const body =
          ask.kind === "question"
            ? { answer: `Green, for ${ask.id}.` }
            : { decision: deny ? "deny" : "allow", ...(deny ? { answer: `Not so (${ask.id}).` } : {}) };
        const { status: code, body: answer } = await call(path, directory, body, `answer ${ask.id}`);
        if (code === 200) mission.answered.push(ask.id);
        else if (answer["code"] !== "ask_closed") throw new Error(`${path}: ${code} ${JSON.stringify(answer)}`);
        play.answered(ask.id);
        count += 1;
      }
    }
    return count;
  };

  const isDirect = ({ directions }: Story, { prompt }: PendingAsk): boolean =>
    directions.flat().some(({ id, how }) => how === "ask-direct" && prompt.includes(`-${id}?`));

  // ---- A moment at which nothing runs ----------------------------------------------------------------------------------

  /** What is said once the phase of a story is at work, and not before. */
  const isHeld = (name: string) => [...play.held].some((key) => key.startsWith(`${name} `));
  const isQuiet = (status: MissionStatus): boolean =>
    status.agentStatus === "inactive" &&
    status.tasks.every(
      // What a Task asks a Mission that was aborted passes on to a person by itself, in its time.
      ({ status: runs, pending }) =>
        runs === "inactive" || pending.some(({ passesAt }) => passesAt === undefined || status.aborted),
    ) &&
    status.state !== "working";

  /** Lets everybody work, and answers what is due, until only time or a person could change something. */
  const settle = async (): Promise<MissionStatus[]> => {
    const begun = Date.now();
    let before = "";
    for (;;) {
      const statuses: MissionStatus[] = [];
      for (const name of known.keys()) statuses.push(await statusOf(name));
      position = Math.max(position, ...statuses.map(({ lastEventID }) => lastEventID));
      if ((await answerAll(statuses)) > 0) continue;
      for (const { missionID } of statuses) if (isHeld(missionID)) await turnAround(missionID);
      const seen = JSON.stringify(
        statuses.map(({ lastEventID, tasks }) => [lastEventID, tasks.map((task) => task.lastEventID)]),
      );
      if (statuses.every(isQuiet) && seen === before) return statuses;
      if (Date.now() - begun > 60_000) {
        const told = statuses
          .filter((status) => !isQuiet(status))
          .map(({ missionID, state, stateReason, now: doing, tasks }) => ({
            missionID,
            state,
            stateReason,
            doing,
            tasks: tasks
              .filter((task) => task.status === "running")
              .map(({ title, phase, now: does }) => [title, phase, does?.text]),
          }));
        throw new Error(`seed ${seed}: nothing comes to rest: ${JSON.stringify(told)}`);
      }
      before = seen;
      await pause(40);
    }
  };

  /** The user wants something else, while the phase that is not wanted any more is at work. */
  const turned = new Map<string, number>();
  const turnAround = async (name: string): Promise<void> => {
    const next = (turned.get(name) ?? 0) + 1;
    turned.set(name, next);
    await wake(name, `Something else: direction ${next}.`);
    // Its agent cancels what is held; where it is wanted all the same it goes on.
    for (let tries = 0; tries < 100 && isHeld(name); tries += 1) {
      const { tasks, agentStatus } = await statusOf(name);
      const works = tasks.some((task) => task.status === "running" && task.pendingCount === 0);
      if (!works || agentStatus === "inactive") break;
      await pause(50);
    }
    for (const key of play.held) if (key.startsWith(`${name} `)) play.release(key);
  };

  const observe = async (): Promise<Observed> => {
    const missions: Observed["missions"] = [];
    for (const [name, { directory, said, written, answered }] of known) {
      const [events, status] = [await eventsOf(name), await statusOf(name)];
      const own = events.filter(({ taskID }) => taskID === undefined);
      const tasks = Map.groupBy(
        events.filter(({ taskID }) => taskID !== undefined),
        ({ taskID }) => String(taskID),
      );
      missions.push({ status, own, tasks, said, written, answered, commits: commitsOf(directory, first) });
    }
    const told = new Map(
      receiver.received.map(({ headers, message }) => [String(headers["webhook-id"]), shortOf(message)] as const),
    );
    return { at: now().toISOString(), missions, processes: processesOf(dataDir), told };
  };

  /** What is due at this moment may take a few seconds: a lost nudge costs so much. */
  const check = async (day: number): Promise<Observed> => {
    const begun = Date.now();
    for (;;) {
      await settle();
      const seen = await observe();
      const found = violationsIn(seen);
      dump(seen);
      if (found.length === 0) return seen;
      if (Date.now() - begun > 12_000) throw new Error(`seed ${seed}, day ${day}: ${textOf(found)}`);
      await pause(300);
    }
  };

  // ---- The month -------------------------------------------------------------------------------------------------------

  moveClock(0);
  await call("/webhook", undefined, { url: receiver.url, events: told }, "webhook");
  let last: Observed | undefined;
  for (let day = 1; day <= days; day += 1) {
    for (const story of stories.filter((one) => one.day === day)) {
      const directory = random.pick(projects);
      known.set(story.name, { story, directory, said: [], written: [], answered: [] });
      const limits = { askSeconds: 0 };
      await wake(story.name, "Make it.", { limits, ...story.wake });
    }
    for (const [name, { directory, story }] of known) {
      const { state, merge, merged, stateReason } = await statusOf(name);
      // The user comes by: raises the budget, asks how it stands, has it merged.
      if (state === "aborted") await wake(name, "Go on.");
      else if (state === "paused") await wake(name, "Take more.", { budget: { maxSteps: 400 } });
      else if (state === "stalled" || (state === "blocked" && day < days - 3))
        await wake(name, `Go on: direction ${story.directions.length - 1}.`);
      else if (state === "done" && merge === "manual" && merged?.state !== "merged" && stateReason !== null)
        await call(`/mission/${name}/merge`, directory, {}, `merge ${name} ${day}`);
    }
    await settle();
    if (day < days - 5) await whim(day);
    await settle();
    for (const hours of [9, 15]) {
      await pass(hours);
      await settle();
    }
    last = await check(day);
    log(
      `day ${day}: ${last.missions.map(({ status }) => `${status.missionID} ${status.state}`).join(", ")}; ${kills} kills`,
    );
  }
  if (last === undefined) throw new Error("Expected a day, got none.");
  return { last, days, kills, had: countsOf(last) };

  /** What nobody expects of a user: a word to a Task that has ended, or an end of all of it for a day. */
  async function whim(day: number): Promise<void> {
    const name = random.pick([...known.keys()]);
    const mission = known.get(name);
    if (mission === undefined) return;
    const { directory, written } = mission;
    const { tasks, status } = await statusOf(name);
    const ended = tasks.filter(
      ({ lifecycleStatus, title }) => lifecycleStatus === "completed" && title.startsWith("Phase "),
    );
    switch (random.below(4)) {
      case 0: {
        if (ended.length === 0) return;
        const { taskID } = random.pick(ended);
        const text = `And this (${day}).`;
        const answer = await call(`/task/${taskID}/message`, directory, { source: "user", text }, `message ${day}`);
        if (answer.status === 202) written.push(text);
        else if (answer.body["code"] !== "budget_reached") throw new Error(JSON.stringify(answer.body));
        return;
      }
      case 1:
        await call(
          `/mission/${name}/abort`,
          directory,
          status === "running" ? { cascade: day % 2 === 0 } : {},
          `abort ${day}`,
        );
        return;
      default:
    }
  }

  /** Hours pass, while it runs or while it does not. */
  async function pass(hours: number): Promise<void> {
    const running = await alive();
    moveClock(hours);
    switch (random.below(3)) {
      case 0:
        running.child.kill("SIGALRM");
        await pause(20);
        return;
      case 1:
        await running.kill("SIGKILL");
        return;
      default:
        await running.kill("SIGTERM");
        kills -= 1;
    }
  }
};

/** For whoever looks for the cause of a violation. */
const dump = ({ missions }: Observed): void => {
  const { TEST_DUMP: file } = process.env;
  if (file === undefined) return;
  const shown = missions.map(({ status, own, tasks }) => ({ status, own, tasks: [...tasks] }));
  writeFileSync(file, JSON.stringify(shown, null, 1));
};

const told = [
  "task.asked",
  "task.reminded",
  "mission.asked",
  "mission.reminded",
  "mission.stalled",
  "mission.waiting",
  "mission.paused",
  "mission.finished",
];

const shortOf = ({ type, data }: WebhookMessage) => ({ type, eventID: "eventID" in data ? data.eventID : 0 });

export const textOf = (found: readonly Violation[]): string =>
  found.map(({ kind, text }) => `${kind}: ${text}`).join("\n");

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** What its branch and those of its Missions hold beside the first commit. What Tasks have not landed is on theirs. */
const commitsOf = (directory: string, first: ReadonlySet<string>): Commit[] => {
  const refs = git(directory, "for-each-ref", "--format=%(refname)", "refs/heads").split("\n");
  const shared = refs.filter((ref) => ref === "refs/heads/main" || /^refs\/heads\/sortie\/m\d+(?:-\d+)?$/.test(ref));
  const text = git(directory, "log", "--format=%H%x1f%P%x1f%B%x1e", ...shared, "--");
  return text
    .split("\u001e")
    .map((entry) => entry.trim().split("\u001f"))
    .flatMap(([commit = "", parents = "", body = ""]) =>
      commit === "" || first.has(commit) ? [] : [{ commit, parents: parents.split(" "), body }],
    );
};

/** Of what a month is to have, how much this one had. */
const countsOf = ({ missions }: Observed): Record<string, number> => {
  const all = missions.flatMap(({ own, tasks }) => [...own, ...[...tasks.values()].flat()]);
  const own = missions.flatMap((mission) => mission.own);
  const count = (from: readonly Event[], type: string, is: (data: Record<string, unknown>) => boolean = () => true) =>
    from.filter((event) => event.type === type && is(event.data)).length;
  const ofAsk = new Map(
    all.flatMap(({ type, data }) => (type === "ask.opened" ? [[data["askID"], data["of"]] as const] : [])),
  );
  const approved = (of: string, decision: string) =>
    count(
      all,
      "ask.answered",
      ({ askID, decision: said, by }) => ofAsk.get(String(askID)) === of && said === decision && by === "caller",
    );
  const reminded = new Set(all.flatMap(({ type, data }) => (type === "ask.reminded" ? data["askIDs"] : [])));
  const askIDsOf = (type: string, is: (data: Record<string, unknown>) => boolean = () => true) =>
    new Set(all.flatMap((event) => (event.type === type && is(event.data) ? [event.data["askID"]] : [])));
  const toMission = askIDsOf("ask.opened", ({ passesAt }) => passesAt !== undefined);
  const passed = askIDsOf("ask.passed");
  const dispatched = (what: string) =>
    count(own, "task.dispatched", (data) => data[what] !== undefined && data[what] !== null);
  return {
    "plans approved": approved("plan", "allow"),
    "plans refused with words": approved("plan", "deny"),
    "squads approved": approved("squad", "allow"),
    "squads refused with words": approved("squad", "deny"),
    "landings approved": approved("landing", "allow"),
    "landings refused with words": approved("landing", "deny"),
    "answers after a reminder": count(
      all,
      "ask.answered",
      ({ askID, by }) => by === "caller" && reminded.has(String(askID)),
    ),
    "checks of an agent's own": count(own, "mission.verified", ({ of }) => of === "asked"),
    "done refused while red": count(own, "tool.finished", ({ output }) => String(output).includes(redWords)),
    "checks of the whole": count(own, "mission.verified", ({ of }) => of === "acceptance"),
    "verdicts against": count(
      own,
      "task.ended",
      ({ verdict }) => (verdict as { verdict?: string } | undefined)?.verdict === "rejected",
    ),
    "verdicts for": count(
      own,
      "task.ended",
      ({ verdict }) => (verdict as { verdict?: string } | undefined)?.verdict === "accepted",
    ),
    merges: dispatched("merge"),
    "merged by itself": missions.filter(({ status }) => status.merge === "auto" && status.merged?.state === "merged")
      .length,
    "merged when asked for": missions.filter(
      ({ status }) => status.merge === "manual" && status.merged?.state === "merged",
    ).length,
    "questions answered by the Mission": count(
      all,
      "ask.answered",
      ({ by, source }) => by === "caller" && source === "mission",
    ),
    "questions passed on by it": count(all, "ask.passed", ({ by }) => by === "mission"),
    "questions answered before it could": count(
      all,
      "ask.answered",
      ({ askID, by, source }) => by === "caller" && source !== "mission" && toMission.has(askID) && !passed.has(askID),
    ),
    "answers told to it": count(own, "task.answered", ({ said }) => said !== undefined),
    "Tasks given up": count(own, "task.ended", ({ code }) => code === "given_up"),
    "Tasks failed": count(own, "task.ended", ({ outcome }) => outcome === "failed"),
    "Tasks cancelled": count(own, "task.ended", ({ outcome }) => outcome === "cancelled"),
    "phases dropped": count(own, "phase.dropped"),
    "squads made": count(own, "squad.reconciled"),
    standstills: count(own, "mission.stalled"),
    "wakes by time": count(own, "mission.woken", ({ by }) => by === "time"),
    "Tasks that went on after their end": count(own, "task.reopened"),
    aborts: count(own, "mission.aborted"),
    "budgets reached": count(own, "mission.paused"),
    "Missions done": missions.filter(({ status }) => status.state === "done").length,
    Tasks: missions.reduce((sum, { status }) => sum + status.tasks.length, 0),
  };
};

/** Missions of a month: each option once at least, the rest by chance. */
export const storiesOf = (random: Random): (Story & { day: number })[] => {
  const extra = (): Phase[] => {
    const hows = ["write", "fail", "ask-mission", "ask-pass", "ask-silent", "background", "give-up"] as const;
    return [
      { id: "x1", how: random.pick(hows) },
      { id: "x2", how: random.pick(hows), after: ["x1"] },
    ];
  };
  const check = (name: string) => [{ kind: "command", name: "whole", run: `grep -q right ${name}-whole.txt` }];
  return [
    {
      name: "m1",
      day: 1,
      wake: { approve: ["plan", "squad", "landing"], allowSquadProduction: true, checks: check("m1") },
      directions: [
        [
          { id: "w", how: "wrong" },
          { id: "s", how: "write", squad: true },
          { id: "q", how: "ask-direct", after: ["w"] },
          { id: "g", how: "give-up" },
        ],
      ],
      verifies: true,
    },
    {
      name: "m2",
      day: 2,
      wake: { landing: "branch", approve: ["landing"], checks: [], budget: { maxSteps: 5 } },
      directions: [
        [
          { id: "a", how: "write" },
          { id: "f", how: "fail" },
          { id: "q", how: "ask-mission" },
          { id: "b", how: "background", after: ["a"] },
        ],
      ],
    },
    {
      name: "m3",
      day: 4,
      wake: { landing: "branch", merge: "auto", approve: ["plan"] },
      directions: [
        [
          { id: "a", how: "write" },
          { id: "old", how: "slow" },
        ],
        [
          { id: "a", how: "write" },
          { id: "new", how: "ask-pass" },
        ],
      ],
      rejected: true,
    },
    {
      name: "m4",
      day: 7,
      wake: { checks: [] },
      directions: [
        [{ id: "q", how: "ask-silent" }, ...extra()],
        [
          { id: "q", how: "ask-silent" },
          { id: "late", how: "write" },
        ],
      ],
      silent: true,
      waits: true,
    },
    {
      name: "m5",
      day: 11,
      wake: { approve: ["landing", "squad"], allowSquadProduction: true },
      directions: [
        [{ id: "s", how: "ask-mission", squad: true }, { id: "old", how: "slow" }, ...extra()],
        [
          { id: "s", how: "ask-mission", squad: true },
          { id: "new", how: "ask-direct" },
        ],
      ],
      rejected: true,
    },
    {
      name: "m6",
      day: 15,
      wake: {
        landing: "branch",
        merge: "auto",
        approve: ["landing", "plan"],
        checks: check("m6"),
        budget: { maxTokens: 100_000 },
      },
      directions: [[{ id: "w", how: "wrong" }, ...extra()]],
      waits: true,
    },
    {
      name: "m7",
      day: 18,
      wake: { landing: "branch", approve: ["plan", "landing"], checks: check("m7"), budget: { maxSteps: 400 } },
      directions: [
        [
          { id: "w", how: "wrong" },
          { id: "old", how: "slow" },
        ],
        [{ id: "w", how: "wrong" }, ...extra(), { id: "f", how: "fail" }],
      ],
      verifies: true,
    },
    {
      name: "m8",
      day: 21,
      wake: { approve: random.pick([[], ["plan"], ["landing"]]), checks: [] },
      directions: [
        [...extra(), { id: "q", how: "ask-pass" }],
        [...extra(), { id: "q", how: "ask-pass" }],
      ],
      silent: true,
    },
  ];
};
