import { join } from "node:path";
import { expect } from "vitest";
import type { Recorded } from "../../../src/domain/event.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { MissionStatus } from "../../../src/protocol/mission/status.ts";
import { at, logOf, post, send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  isMission,
  missionOf,
  newestOf,
  plan,
  taskIn,
} from "../../harness/double/missions.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { git, makeProject, readText } from "../../harness/project.ts";
import type { MissionSeen } from "./mission.ts";
import { type Follower, judge, recorded, untilStill, writeConfig } from "./place.ts";
import type { Scenario } from "./sweep.ts";

/**
 * A Mission with a branch of its own that has everything approved: its plan, which a person edits, the plan that it
 * changes, the squad that is made for it, and the merge, which a person asks for. One of its Tasks asks what only the user knows, and the
 * checks of the whole are red before a phase makes them green.
 */

const missionID = "m";

type Message = MockRequest["body"]["messages"][number];
type Standing = { phases: { id: string; state: string; squad?: string; productionTaskID?: string }[] };

const callsIn = (messages: readonly Message[]): string[] =>
  messages.flatMap(({ tool_calls: calls = [] }) => calls.map((call) => call.function.name));

const roster = ["one", "two", "three"].map((name) => ({ name, duty: "A duty." }));
const crew = { name: "Crew", summary: "A crew." };

/** What its agent does is read off what it is shown, so that a death in between changes nothing. */
const lead = (request: MockRequest): MockTurn => {
  const { messages } = request.body;
  const last = messages.findLastIndex(({ role }) => role === "user");
  const heard = textOf(messages[last]?.content);
  const since = messages.slice(last + 1);
  const asking = /asks \(ask_\w+\), and waits/.test(heard) ? taskIn(heard) : undefined;
  if (asking !== undefined && since.length === 0)
    return { calls: [{ tool: "task_answer", input: { task: asking, pass: true } }] };
  const shown = since.findLastIndex(({ role, content }) => role === "tool" && textOf(content).startsWith("{"));
  if (shown < 0) return { calls: [{ tool: "task_status", input: {} }] };
  const { phases } = JSON.parse(textOf(since[shown]?.content)) as Standing;
  if (phases.length === 0 && callsIn(since).includes("plan")) return { text: "That is the plan." };
  if (phases.length === 0) return { calls: [plan("a", { id: "b", phase: "web/shop", after: ["a"] })] };
  const after = callsIn(since.slice(shown + 1));
  if (after.includes("finish") && newestOf(request).includes("checks of the whole are red"))
    return { calls: [{ tool: "phase", input: { id: "c", title: "Green", objective: "It is green." } }] };
  if (after.length > 0) return { text: "So it is." };
  const ready = phases.find(({ state }) => state === "ready");
  if (ready !== undefined)
    return {
      calls: [
        ready.id !== "b" || ready.squad !== undefined || ready.productionTaskID !== undefined
          ? dispatch(ready.id, `Write ${ready.id}.txt now.`, {
              checks: [],
              ...(ready.id === "b" ? {} : { general: "A file alone." }),
            })
          : { tool: "produce_squad", input: { phase: "b", squad: "shop-crew", roster, ...crew } },
      ],
    };
  return phases.every(({ state }) => state === "done") ? { calls: [finish()] } : { text: "It runs." };
};

const work = (request: MockRequest): MockTurn => {
  const { messages } = request.body;
  const done = callsIn(messages);
  const cut = newestOf(request).includes("Interrupted:");
  if (request.first.startsWith("Make the squad")) {
    const agents = roster.map(({ name }) => ({ name, description: "A duty.", instructions: "You do it." }));
    const input = { ...crew, notFor: "Anything else.", pillars: ["code"], orchestrator: "You lead.", agents };
    return done.includes("author_squad") && !cut ? { text: "Made." } : { calls: [{ tool: "author_squad", input }] };
  }
  const [, path = "x.txt"] = /Write (\S+) now/.exec(request.first) ?? [];
  if (path === "a.txt" && !done.includes("ask"))
    return { calls: [{ tool: "ask", input: { question: "Which colour?" } }] };
  if (done.includes("write") && !cut) return { text: `Wrote ${path}.\n\nCommit: Write ${path}` };
  return { calls: [{ tool: "write", input: { path, content: `${path}\n` } }] };
};

export const approvedProvider = (): Promise<MockProvider> =>
  startMockProvider((request) => (isMission(request) ? lead(request) : work(request)));

export const approvedScenario = (baseURL: string): Scenario<MissionSeen> => ({
  name: "approved",
  open(root) {
    const dataDir = join(root, "data");
    const project = makeProject(join(root, "project"), { "one.txt": "one\n" });
    const config = writeConfig(join(root, "config.jsonc"), baseURL, {});
    const wake = (url: string) =>
      post(url, "/mission/wake", project, {
        missionID,
        text: "Do it.",
        approve: ["plan", "squad", "landing"],
        landing: "branch",
        checks: ["test -f c.txt"],
        allowSquadProduction: true,
      });
    return {
      env: { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root },
      restart() {},
      async play({ url }) {
        expect((await wake(url)).status).toBe(200);
        await atEnd(url, project);
      },
      async finish(service, follower) {
        const { url } = service;
        const { body } = await send(url, at("/missions", project));
        if ((body as unknown as unknown[]).length === 0) await wake(url);
        await follow(url, project, follower);
        if (follower === "delete") {
          const ids = await tasksIn(url, project);
          await untilStill(
            () => answered(url, project, ids),
            ({ active }) => active === 0,
            ({ fact }) => fact,
          );
          await judge(service, { dataDir, project }, ids);
          return { mission: [], tasks: [] };
        }
        const mission = await atEnd(url, project);
        const own = (await eventsOf(url, project, missionID)).filter(({ taskID }) => taskID === undefined);
        const events = recorded(own as unknown as Frame[], mission.sessionID);
        const ids = mission.tasks.map(({ taskID }) => taskID);
        await judge(service, { dataDir, project }, ids);
        const tasks = await Promise.all(ids.map(async (taskID) => recorded(await logOf(url, taskID), taskID)));
        if (follower !== "cancel") expectOnce([events, ...tasks]);
        // Words more are more work, and may be approved once more.
        if (follower === "nothing" || follower === "PostgreSQL") expectDone(project, mission, [events, ...tasks]);
        return { mission: events, tasks };
      },
    };
  },
});

type Logs = readonly (readonly Recorded[])[];

/**
 * Whatever people do: no two approvals of one stream wait at a time, each is answered once, and no landing is without
 * one.
 */
const expectOnce = (logs: Logs): void => {
  for (const log of logs) {
    let open: string | undefined;
    let allowed = false;
    for (const event of log) {
      if (event.type === "ask.opened" && event.data.kind === "approval") {
        expect(open, "one at a time").toBeUndefined();
        open = event.data.askID;
        allowed = false;
      }
      if (event.type === "ask.answered" && event.data.askID === open) {
        open = undefined;
        allowed = event.data.decision === "allow";
      }
      if (
        event.type === "landing.started" &&
        log.some(({ type, data }) => type === "task.created" && "mergeOf" in data)
      )
        expect(allowed, "a merge without a person's word").toBe(true);
    }
    expect(open).toBeUndefined();
  }
};

const expectDone = (project: string, mission: MissionStatus, logs: Logs): void => {
  expect(mission).toMatchObject({ state: "done", verified: true, merged: { state: "merged" } });
  expect(mission.tasks.map(({ lifecycleStatus, attempt }) => `${lifecycleStatus} ${attempt}`)).toEqual(
    Array(5).fill("completed 1"),
  );
  const opened = logs
    .flat()
    .flatMap((event) => (event.type === "ask.opened" ? [event.data.of ?? event.data.kind] : []));
  // What was asked of the plan before it was edited is void.
  expect(opened.toSorted()).toEqual(["landing", "plan", "plan", "plan", "question", "squad"]);
  expect(mission.plan.map(({ title }) => title)).toEqual([ownTitle, "Phase b", "Green"]);
  const times = (type: Recorded["type"]) => logs.flat().filter((event) => event.type === type).length;
  expect([
    times("ask.answered"),
    times("mission.branched"),
    times("mission.finished"),
    times("squad.installed"),
  ]).toEqual([6, 1, 1, 1]);
  for (const name of ["a", "b", "c"]) expect(readText(project, `${name}.txt`)).toBe(`${name}.txt\n`);
  expect(git(project, "log", "--first-parent", "--format=%s", "main").split("\n")).toEqual(["Merge sortie/m", "first"]);
  expect(git(project, "rev-list", "--count", "main^1..main^2")).toBe("4");
};

const tasksIn = async (url: string, project: string): Promise<string[]> => {
  const { body } = await send(url, at("/tasks", project));
  return (body as unknown as { taskID: string }[]).map(({ taskID }) => taskID);
};

/** A person says yes to what waits for one. */
const say = (url: string, project: string, path: string, { id, kind }: { id: string; kind: string }) =>
  post(url, `${path}/pending/${id}`, project, kind === "question" ? { answer: "Blue." } : { decision: "allow" });

const ownTitle = "Edited by hand";

/** Once, a person approves the plan with a title of their own. false: the plan has it already. */
const edited = async (
  url: string,
  project: string,
  { plan: phases, planRevision }: MissionStatus,
): Promise<boolean> => {
  if (phases.some(({ title }) => title === ownTitle)) return false;
  const next = phases.map(({ id, title, phase, objective, acceptance, after }) => ({
    id,
    title: id === "a" ? ownTitle : title,
    phase,
    objective,
    acceptance,
    after,
  }));
  const body = { phases: next, revision: planRevision, approve: true };
  const { status } = await post(url, `/mission/${missionID}/plan`, project, body);
  // Its agent may have changed the plan meanwhile.
  expect([200, 409]).toContain(status);
  return true;
};

const answered = async (
  url: string,
  project: string,
  ids: readonly string[],
): Promise<{ active: number; fact: string }> => {
  let active = 0;
  const facts: unknown[] = [];
  for (const taskID of ids) {
    const { body } = await send(url, `/task/${taskID}/status`);
    const task = body as unknown as MissionStatus["tasks"][number];
    facts.push([taskID, task.lastEventID]);
    if (task.lifecycleStatus !== "active") continue;
    active += 1;
    // What its Mission was asked first is a person's once that has passed it on.
    for (const ask of task.pending) if (ask.passesAt === undefined) await say(url, project, `/task/${taskID}`, ask);
  }
  return { active, fact: JSON.stringify(facts) };
};

/** Until nothing waits for anybody, and what is done is merged, as a person asks for. */
const atEnd = (url: string, project: string): Promise<MissionStatus> =>
  untilStill(
    async () => {
      const mission = await missionOf(url, project, missionID);
      for (const ask of mission.pending)
        if (ask.of !== "plan" || !(await edited(url, project, mission)))
          await say(url, project, `/mission/${missionID}`, ask);
      await answered(
        url,
        project,
        mission.tasks.filter(({ pending }) => pending.length > 0).map(({ taskID }) => taskID),
      );
      if (mission.state === "done" && mission.merged?.state !== "merged") {
        const { status, body } = await post(url, `/mission/${missionID}/merge`, project, {});
        expect([202, 409], JSON.stringify(body)).toContain(status);
      }
      return mission;
    },
    ({ status, agentStatus, state, merged, pending }) =>
      status === "inactive" &&
      agentStatus === "inactive" &&
      pending.length === 0 &&
      (state === "done" ? merged?.state === "merged" : ["aborted", "stalled", "blocked"].includes(state)),
    ({ usage, tasks, pending, merged }) =>
      JSON.stringify([usage, pending, merged, tasks.map(({ lastEventID }) => lastEventID)]),
  );

const follow = async (url: string, project: string, follower: Follower): Promise<void> => {
  const control = { surface: "sweep", reason: "sweep" };
  const abort = async () => {
    const answer = await post(url, `/mission/${missionID}/abort`, project, { ...control, cascade: true });
    expect([200, 202], JSON.stringify(answer.body)).toContain(answer.status);
  };
  if (follower === "queue")
    expect((await post(url, "/mission/wake", project, { missionID, text: "Go on." })).status).toBe(200);
  if (follower === "interrupt") {
    const { tasks } = await missionOf(url, project, missionID);
    const running = tasks.find(({ lifecycleStatus }) => lifecycleStatus === "active");
    const body = { source: "sweep", text: "Go on.", onBusy: "interrupt" };
    if (running !== undefined)
      expect((await post(url, `/task/${running.taskID}/message`, project, body)).status).toBe(202);
  }
  if (follower === "cancel") await abort();
  if (follower === "delete") {
    const path = at(`/mission/${missionID}?surface=sweep&reason=sweep`, project);
    const first = await send(url, path, { method: "DELETE" });
    expect([200, 409], JSON.stringify(first.body)).toContain(first.status);
    if (first.status === 200) return;
    await abort();
    await untilStill(
      () => missionOf(url, project, missionID),
      ({ status, agentStatus }) => status === "inactive" && agentStatus === "inactive",
      ({ tasks }) => JSON.stringify(tasks.map(({ lastEventID }) => lastEventID)),
    );
    expect((await send(url, path, { method: "DELETE" })).status).toBe(200);
  }
};
