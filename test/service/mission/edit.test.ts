import { afterAll, beforeAll, expect, test } from "vitest";
import { at, post, send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Say,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import type { MissionPlanned, MissionStatus, PlannedPhase } from "../../../src/protocol/mission/status.ts";

/** A person changes the plan of a Mission, before it is carried out and while it is. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const writes: Say = (turn, { first }) =>
  turn === 0
    ? {
        calls: [{ tool: "write", input: { path: /Write (\S+)\./.exec(first)?.[1] ?? "x.txt", content: "x\n" } }],
      }
    : { text: "Wrote it." };

const given = (id: string, more: Partial<PlannedPhase> = {}) => ({
  id,
  title: `Phase ${id}`,
  objective: `${id} is there.`,
  ...more,
});
const edit = async (directory: string, missionID: string, body: object) => {
  const answer = await post(stage.service.url, `/mission/${missionID}/plan`, directory, body);
  return { ...answer, body: answer.body as unknown as MissionPlanned };
};
/** The Mission's own approval, once it is another one than `before`. */
const asked = (directory: string, missionID: string, before?: string): Promise<MissionStatus> =>
  until(
    () => missionOf(stage.service.url, directory, missionID),
    ({ pending: [ask] }) => ask !== undefined && ask.id !== before,
  );
const messagesOf = async (directory: string, missionID: string) => {
  const { body } = await send(stage.service.url, at(`/mission/${missionID}/messages`, directory));
  return body as unknown as { messages: { role: string; source: string; text: string }[]; total: number };
};
/** Each request of its agent, as what it had not read before. */
const hearing = () => {
  const told: string[] = [];
  const hear =
    (...calls: { tool: string; input: unknown }[]): Say =>
    (_turn, _request, newest) => {
      told.push(newest);
      return calls.length === 0 ? { text: "It waits." } : { calls };
    };
  return { told, hear };
};

test("a person changes, adds, drops and moves phases while the plan waits, and approves it with the change", async () => {
  const { told, hear } = hearing();
  stage.play("edited", {
    mission: turns(
      { calls: [plan("a", "b", "c")] },
      { text: "So?" },
      hear(dispatch("d", "Write d.txt. [edited]"), dispatch("a", "Write a.txt. [edited]")),
      hear(finish("blocked", "Enough.")),
      hear(finish("blocked", "Enough.")),
    ),
    task: writes,
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[edited]", approve: ["plan"] });
  const before = await asked(directory, missionID);
  const [ask] = before.pending;
  const requests = told.length;

  // Saved, not approved: what was asked is void, and the person is asked about what is there now.
  const phases = [
    given("d", { title: "First of all", phase: "docs/page", acceptance: ["It is seen"] }),
    given("a", { objective: "More is there.", after: ["d"] }),
    given("b"),
  ];
  const saved = await edit(directory, missionID, { phases, revision: before.planRevision });
  expect(saved).toMatchObject({
    status: 200,
    body: { missionID, written: ["d", "a"], dropped: ["c"], reordered: true, approved: false },
  });
  const again = await asked(directory, missionID, ask?.id);
  expect(again).toMatchObject({ state: "asking", planRevision: saved.body.planRevision });
  expect(again.plan.map(({ id, title, phase, objective, after }) => [id, title, phase, objective, after])).toEqual([
    ["d", "First of all", "docs/page", "d is there.", []],
    ["a", "Phase a", "a", "More is there.", ["d"]],
    ["b", "Phase b", "b", "b is there.", []],
  ]);
  expect(again.pending.map(({ prompt, of }) => [of, prompt])).toEqual([
    ["plan", "Carry out this plan? It has 3 phases."],
  ]);
  expect(told).toHaveLength(requests);
  expect((await post(url, `/mission/${missionID}/pending/${ask?.id}`, directory, { decision: "allow" })).status).toBe(
    409,
  );

  // Changed once more, and approved with it.
  const independent = [given("d", { title: "First of all" }), given("a"), given("b", { after: ["a"] })];
  const approved = await edit(directory, missionID, {
    phases: independent,
    revision: again.planRevision,
    approve: true,
    source: "web",
  });
  expect(approved).toMatchObject({ status: 200, body: { written: ["d", "a", "b"], dropped: [], approved: true } });
  const end = await restOf(url, directory, missionID);
  expect(end.planChange).toBeNull();
  expect(end.tasks.map(({ title }) => title).toSorted()).toEqual(["First of all", "Phase a"]);
  expect(told[0]).toContain(
    'The user wrote phase d of the plan. It is now:\n{"title":"First of all","phase":"docs/page"',
  );
  expect(told[0]).toContain("The user dropped phase c from the plan.");
  expect(told[0]).toContain("The user put the phases of the plan into this order: d, a, b.");
  expect(told[0]).toContain('"objective":"b is there.","acceptance":[],"after":["a"]}');
  expect(told[0]).toContain("The user approved the plan: carry it out.");

  const events = await eventsOf(url, directory, missionID);
  const own = events.filter(({ taskID }) => taskID === undefined);
  const byUser = own.filter(({ type, data }) => /^(phase|plan)\./.test(type) && data["callID"] === null);
  expect(byUser.map(({ type, data }) => [type, data["source"], data["from"]])).toEqual([
    ["phase.dropped", "api", { user: null, address: expect.any(String) }],
    ...Array.from({ length: 2 }, () => ["phase.written", "api", { user: null, address: expect.any(String) }]),
    ["plan.ordered", "api", { user: null, address: expect.any(String) }],
    ...Array.from({ length: 3 }, () => ["phase.written", "web", { user: null, address: expect.any(String) }]),
  ]);
  expect(
    own.flatMap(({ type, data }) => (type === "ask.answered" ? [[data["decision"], data["by"], data["source"]]] : [])),
  ).toEqual([
    ["deny", "ended", "void"],
    ["deny", "ended", "void"],
    ["allow", "caller", "web"],
  ]);
  const { messages, total } = await messagesOf(directory, missionID);
  expect(messages).toHaveLength(total);
});

test("what cannot be a plan is refused as its agent's is, and a plan that was changed meanwhile", async () => {
  stage.play("refused", {
    mission: turns({ calls: [plan("a", "b"), dispatch("a", "Write a.txt. [refused]")] }, { text: "It runs." }),
    task: () => ({ text: "Done.", hold: true }),
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[refused]" });
  const mission = await until(
    () => missionOf(url, directory, missionID),
    ({ plan: phases, agentStatus }) => agentStatus === "inactive" && phases[0]?.state === "running",
  );
  const revision = mission.planRevision;
  const refusals = [
    [{ phases: [given("b")], revision }, 'the phase "a", whose Task runs, to stay; cancel that Task first'],
    [{ phases: [given("a"), given("b", { after: ["b"] })], revision }, "to come after others"],
    [{ phases: [given("a"), given("b", { after: ["c"] })], revision }, 'ids of this plan in `after` of "b", got "c"'],
    [{ phases: [given("a"), given("a")], revision }, 'got "a" twice'],
    [{ phases: [given("a", { after: ["b"] }), given("b", { after: ["a"] })], revision }, "without a circle in `after`"],
    [{ phases: [], revision }, "body.phases"],
    [{ phases: [given("A b")], revision }, "body.phases[0].id"],
    [{ phases: [given("a"), given("b")], revision, approve: true }, "asks for no approval of its plan"],
  ] as const;
  for (const [body, words] of refusals) {
    const answer = await edit(directory, missionID, body);
    expect({ status: answer.status, text: JSON.stringify(answer.body).replaceAll('\\"', '"') }).toEqual({
      status: 400,
      text: expect.stringContaining(words),
    });
  }
  const late = await edit(directory, missionID, {
    phases: [given("a"), given("b"), given("c")],
    revision: revision - 1,
  });
  expect(late).toMatchObject({ status: 409, body: { code: "plan_changed", details: { planRevision: revision } } });
  expect((await missionOf(url, directory, missionID)).planRevision).toBe(revision);

  // Control: with what it had read, the same is taken. A plan that is as it was is no change, whatever was read.
  const taken = await edit(directory, missionID, { phases: [given("a"), given("b"), given("c")], revision });
  expect(taken).toMatchObject({ status: 200, body: { written: ["c"], dropped: [], reordered: false, approved: true } });
  const same = await edit(directory, missionID, { phases: [given("a"), given("b"), given("c")], revision: 1 });
  expect(same).toMatchObject({
    status: 200,
    body: { written: [], dropped: [], reordered: false, planRevision: taken.body.planRevision },
  });
  stage.provider.release();
});

test("without an approval its agent is woken by the change, once; the same key changes it once", async () => {
  const { told, hear } = hearing();
  stage.play("woken", {
    mission: turns(
      { calls: [plan("a", "b"), finish("blocked", "What next?")] },
      hear(finish("blocked", "Still.")),
      hear(finish("blocked", "Again?")),
    ),
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[woken]" });
  const before = await restOf(url, directory, missionID);
  const body = { phases: [given("a"), given("b", { objective: "Less." }), given("c")], revision: before.planRevision };
  const send1 = () =>
    send(url, at(`/mission/${missionID}/plan`, directory), {
      method: "POST",
      headers: { "idempotency-key": "edit-1" },
      body,
    });
  const first = await send1();
  expect(first.status).toBe(200);
  await until(
    () => missionOf(url, directory, missionID),
    ({ finished }) => finished?.summary === "Still.",
  );
  expect(await send1()).toMatchObject({ status: 200, body: first.body });
  expect(told).toHaveLength(1);
  expect(told[0]).toContain("The user wrote phase b of the plan.");
  expect(told[0]).toContain("The user wrote phase c of the plan.");
  const written = (await eventsOf(url, directory, missionID)).filter(({ type }) => type === "phase.written");
  expect(written).toHaveLength(4);
});

test("its agent does not write over a change that it has not read, nor dispatch past it", async () => {
  const { told, hear } = hearing();
  const directory = stage.project();
  const { url } = stage.service;
  let missionID = "";
  const late: Say = async (_turn, _request, newest) => {
    told.push(newest);
    const { planRevision } = await missionOf(url, directory, missionID);
    await edit(directory, missionID, {
      phases: [given("a", { objective: "As the user wants it." }), given("b")],
      revision: planRevision,
    });
    return {
      calls: [
        { tool: "phase", input: { id: "a", objective: "As the agent wants it." } },
        dispatch("b", "Write b.txt. [late]"),
        finish("blocked", "Enough."),
      ],
    };
  };
  stage.play("late", {
    mission: turns({ calls: [plan("a", "b")] }, late, hear(dispatch("b", "Write b.txt. [late]")), hear()),
    task: writes,
  });
  ({ missionID } = await wake(url, directory, { text: "[late]" }));
  const mission = await until(
    () => missionOf(url, directory, missionID),
    ({ plan: [, b] }) => b?.state === "done",
  );
  expect(mission.plan[0]?.objective).toBe("As the user wants it.");
  const refused = "The user has changed the plan meanwhile. What they changed is the next thing that you read";
  expect(told[1]?.split(refused)).toHaveLength(3);
  expect(told[1]).toContain("A message came in while this was decided, so nothing was said.");
  expect(told[1]).toContain('The user wrote phase a of the plan. It is now:\n{"title":"Phase a"');
  expect(mission.tasks).toHaveLength(1);
});
