import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isMission, type Recorded, type StreamID } from "../../src/domain/event.ts";
import { rowOf } from "../../src/domain/mission/status.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { messagesFrom, messageTypes } from "../../src/domain/view/message.ts";
import { summarise } from "../../src/domain/view/summary.ts";
import { evolveFold, type Fold, isMissionFold, isTaskFold } from "../../src/store/sql/fold.ts";
import { searchText } from "../../src/store/sql/row.ts";
import type { Filter, ListQuery } from "../../src/store/store.ts";
import { loadMessage, messagesIn } from "../../src/task/query/message.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { backends, type Place } from "../harness/store.ts";
import type { Filled } from "../harness/large/fill.ts";
import { night } from "../harness/night.ts";

/**
 * What is asked of a log that is larger than any window and page: every answer is the one that folding all events
 * gives. How long it takes is told by `test/night/large.test.ts`.
 */

const size = { tasks: 3900, projects: 4, turns: 700 };

// By day in the default store: PostgreSQL takes 8 s more.
const kept = backends.filter(({ name }) => name === "SQLite file" || (night && name === "PostgreSQL"));
describe.each(kept)("$name", ({ open }) => {
  let place: Place;
  let filled: Filled;
  const log: Recorded[] = [];
  const folds = new Map<StreamID, Fold>();

  beforeAll(async () => {
    place = await open();
    filled = (await place.fillLog?.(size)) as Filled;
    for (;;) {
      const page = await place.store.since(log.at(-1)?.position ?? 0, 1000);
      if (page.length === 0) break;
      log.push(...page);
    }
    for (const event of log) folds.set(event.stream, evolveFold(folds.get(event.stream), event));
  }, 60_000);
  afterAll(() => place[Symbol.asyncDispose]());

  const projectOf = (index: number) => `${filled.directories.at(index)}/.git`;
  const tasksOf = (project: string): TaskState[] =>
    [...folds.values()].filter((fold) => isTaskFold(fold)).filter((fold) => fold.project === project);

  test("the log is as large as it was made", () => {
    expect(log.length).toBe(filled.events);
    expect(log.length).toBeGreaterThan(80_000);
    // More than a search looks at in one query.
    expect(tasksOf(projectOf(0)).length).toBeGreaterThan(2000);
    expect([...folds.values()].filter((fold) => isTaskFold(fold))).toHaveLength(filled.tasks);
  });

  /** All that a filter wants, page by page. */
  const follow = async (after: number, limit: number, filter: Filter): Promise<number[]> => {
    const found: number[] = [];
    for (let edge = after; ; ) {
      const page = await place.store.since(edge, limit, filter);
      expect(page.length).toBeLessThanOrEqual(limit);
      const last = page.at(-1);
      if (last === undefined) return found;
      found.push(...page.map(({ position }) => position));
      edge = last.position;
    }
  };
  const wants = ({ stream, project, mission, types }: Filter, event: Recorded): boolean => {
    const fold = folds.get(event.stream);
    return (
      (stream === undefined || event.stream === stream) &&
      (project === undefined || fold?.project === project) &&
      (mission === undefined ||
        event.stream === mission ||
        (fold !== undefined && isTaskFold(fold) && fold.mission?.sessionID === mission)) &&
      (types === undefined || types.includes(event.type))
    );
  };

  test("events by project, Mission, stream and type are those that match, from the beginning, the middle and the end", async () => {
    const some = projectOf(0);
    const filters: Filter[] = [
      { project: some },
      { project: projectOf(-1) },
      { project: projectOf(2) },
      { project: "/nowhere" },
      { mission: filled.mission.stream },
      { mission: "ses_none" },
      { mission: filled.mission.stream, project: some },
      { mission: filled.mission.stream, project: projectOf(1) },
      { stream: filled.long, types: messageTypes },
      { stream: filled.long, project: some },
      { stream: filled.long, project: projectOf(1) },
      { types: ["task.settled"] },
      { types: ["squad.refused"] },
      { project: some, types: ["task.settled"] },
      { mission: filled.mission.stream, types: ["task.settled", "mission.woken"] },
    ];
    for (const filter of filters)
      for (const after of [0, Math.floor(log.length / 2), log.length - 60, log.length])
        expect(await follow(after, 200, filter), JSON.stringify({ filter, after })).toEqual(
          log.filter((event) => event.position > after && wants(filter, event)).map(({ position }) => position),
        );
    // A page of one, and of a few.
    expect(await follow(0, 1, { project: projectOf(-1) })).toHaveLength(5);
    expect(await place.store.since(0, 7, { project: projectOf(2) })).toHaveLength(7);
  });

  /** A whole list, page by page. */
  const listed = async (query: Omit<ListQuery, "limit">): Promise<string[]> => {
    const found: string[] = [];
    for (let cursor: ListQuery["cursor"]; ; ) {
      const page = await place.store.list({ ...query, limit: 40, ...(cursor === undefined ? {} : { cursor }) });
      found.push(...page.map(({ taskID }) => taskID));
      const last = page.at(-1);
      if (last === undefined || page.length < 40) return found;
      cursor = { updated: last.updated, taskID: last.taskID };
    }
  };

  test("lists have what every filter, search and value of metadata matches, in order, on all pages", async () => {
    const project = projectOf(0);
    const all = tasksOf(project)
      .map((state) => ({ state, summary: summarise(state) }))
      .toSorted(
        (one, other) => other.summary.updated - one.summary.updated || (one.state.taskID < other.state.taskID ? 1 : -1),
      );
    const one = all.find(({ state }) => state.metadata["ticket"] !== undefined);
    const { missionID } = filled.mission;
    type Expected = (state: TaskState) => boolean;
    const cases: [Omit<ListQuery, "limit" | "project">, Expected][] = [
      [{}, () => true],
      [{ status: "running" }, ({ lifecycle }) => lifecycle === "active"],
      [{ status: "inactive" }, ({ lifecycle }) => lifecycle !== "active"],
      [{ lifecycleStatus: "failed" }, ({ lifecycle }) => lifecycle === "failed"],
      [{ lifecycleStatus: "cancelled" }, () => false],
      [{ promptProfile: "base", priority: "normal" }, () => true],
      [{ promptProfile: "nobody" }, () => false],
      [{ productPillar: "work" }, () => false],
      [{ missionID }, ({ mission }) => mission?.missionID === missionID],
      [{ missionID, search: "Cents" }, (s) => s.mission?.missionID === missionID && searchText(s).includes("cents")],
      [{ search: "cents" }, (state) => searchText(state).includes("cents")],
      [{ search: "no such words" }, () => false],
      [{ search: one?.state.taskID.toUpperCase() ?? "" }, ({ taskID }) => taskID === one?.state.taskID],
      [{ metadata: { team: "red" } }, ({ metadata }) => metadata["team"] === "red"],
      [{ metadata: { team: "re" } }, () => false],
      [{ metadata: { team: "red", ticket: "T-none" } }, () => false],
      [
        { metadata: { ticket: JSON.stringify(one?.state.metadata["ticket"]).slice(1, -1) } },
        ({ taskID }) => taskID === one?.state.taskID,
      ],
      [
        { metadata: { team: "blue" }, search: "cents", status: "inactive" },
        (s) => s.metadata["team"] === "blue" && searchText(s).includes("cents") && s.lifecycle !== "active",
      ],
    ];
    expect(all.length).toBeGreaterThan(100);
    for (const [query, expected] of cases)
      expect(await listed({ ...query, project }), JSON.stringify(query)).toEqual(
        all.filter(({ state }) => expected(state)).map(({ state }) => state.taskID),
      );
    expect(await listed({ project: "/nowhere" })).toEqual([]);
  });

  test("projects are counted, last update first, and a deletion counts", async () => {
    const expected = filled.directories
      .map((directory) => {
        const own = tasksOf(`${directory}/.git`);
        const active = own.filter(({ lifecycle }) => lifecycle === "active").length;
        const updated = Math.max(...own.map((s) => summarise(s).updated));
        return { directory, repository: null, tasks: own.length, active, updated };
      })
      .filter(({ tasks }) => tasks > 0)
      .toSorted((one, other) => other.updated - one.updated);
    expect(expected).toHaveLength(4);
    expect(await place.store.projects(200)).toEqual(expected);
    expect(await place.store.projects(3)).toEqual(expected.slice(0, 3));
  });

  test("Missions are listed and searched with the counts of their Tasks", async () => {
    const all = [...folds.values()]
      .filter((fold) => isMissionFold(fold))
      .toSorted((one, other) => Date.parse(other.updatedAt) - Date.parse(one.updatedAt))
      .map((fold) => ({
        row: rowOf(fold),
        stats: { active: 0, completed: 1, failed: 1, cancelled: 0, asking: 0 },
      }));
    expect(all.length).toBeGreaterThan(10);
    expect(await place.store.missions({ limit: 200 })).toEqual(all);
    const { missionID } = filled.mission;
    const found = await place.store.missions({ limit: 5, search: missionID });
    expect(found.map(({ row }) => row.missionID)).toContain(missionID);
    expect(await place.store.missions({ limit: 5, search: "no such words" })).toEqual([]);
  });

  test("messages come in pages that together are the whole conversation", async () => {
    const { store } = place;
    const own = log.filter(({ stream }) => stream === filled.long);
    const whole = await Promise.all(messagesFrom(own).map((message) => loadMessage(store, message)));
    expect(whole).toHaveLength(size.turns + 1);
    for (const limit of [1, 7, 200, 1000]) {
      const read: typeof whole = [];
      for (let after: number | null = limit === 1 ? (whole.at(-9)?.eventID ?? 0) : 0; after !== null; ) {
        const page: Awaited<ReturnType<typeof messagesIn>> = await messagesIn(store, filled.long, {
          after,
          limit,
          open: [],
        });
        expect(page.messages.length).toBeGreaterThan(0);
        expect(page.messages.length).toBeLessThanOrEqual(limit);
        read.push(...page.messages);
        after = page.nextAfter;
      }
      expect(read, `pages of ${limit}`).toEqual(limit === 1 ? whole.slice(-8) : whole);
    }
  });

  test("one stream is read from either end, by type and by number", async () => {
    const own = log.filter(({ stream }) => stream === filled.long);
    const { store } = place;
    expect(await store.read(filled.long)).toEqual(own);
    expect(await store.read(filled.long, { last: true, limit: 300 })).toEqual(own.slice(-300));
    expect(await store.read(filled.long, { last: true, limit: 1500 })).toEqual(own.slice(-1500));
    expect(await store.read(filled.long, { after: 1050, limit: 1001 })).toEqual(own.slice(1050, 2051));
    expect(await store.read(filled.long, { types: ["task.created"], last: true, limit: 1 })).toEqual(own.slice(0, 1));
    expect(
      await store.read(filled.long, { types: ["tool.finished"], last: true, limit: 2, after: own.length - 4 }),
    ).toEqual(own.slice(-4).filter(({ type }) => type === "tool.finished"));
    expect(await store.read(filled.long, { types: ["ask.opened"] })).toEqual([]);
  });

  test("a Task that is deleted is gone from all of them, and its project's count is one less", async () => {
    const { store } = place;
    const project = projectOf(-1);
    const [only] = tasksOf(project);
    const before = await store.projects(200);
    expect(before.map(({ directory }) => directory)).toContain(filled.directories.at(-1));
    expect(await store.erase(only?.taskID ?? "")).toBe(true);
    expect(await store.projects(200)).toEqual(
      before.filter(({ directory }) => directory !== filled.directories.at(-1)),
    );
    expect(await store.list({ project, limit: 5 })).toEqual([]);
    expect(await store.since(0, 5, { project })).toEqual([]);
    expect(isMission(only?.taskID ?? "")).toBe(false);
  });
});

if (postgresURL === undefined) countSkipped(9);
