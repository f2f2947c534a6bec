import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
import { verdictOn, type MockRequest, type MockTurn } from "../../harness/double/mock-provider.ts";
import { at, send } from "../../harness/double/hostile-text.ts";
import { git, readText, until } from "../../harness/project.ts";
import { sortieIn } from "../../harness/sortie.ts";

/** The whole of a Mission is judged by a session that did not plan it, where nobody gave checks for it. */

let stage: Stage;
/** What whoever judges says, by the marker of the Mission. */
const judges = new Map<string, (request: MockRequest) => MockTurn>();
/** The briefs that it was given, the same. */
const briefs = new Map<string, string[]>();

beforeAll(async () => {
  stage = await openStage({}, {}, undefined, undefined, (request) => {
    const name = /\[(\w+)\]/.exec(request.first)?.[1] ?? "";
    if (request.turn === 0) briefs.set(name, [...(briefs.get(name) ?? []), request.first]);
    return request.turn === 0 ? judges.get(name)?.(request) : { text: "Judged." };
  });
});
afterAll(() => stage[Symbol.asyncDispose]());

const writes =
  (path: string): Say =>
  (turn) =>
    turn === 0 ? { calls: [{ tool: "write", input: { path, content: `${path}\n` } }] } : { text: "Wrote it." };

/** Between a dispatch and the Task's end. */
const runs: MockTurn = { text: "It runs." };

/** One phase that writes a file, then whatever follows. */
const play = async (name: string, after: Say[], body: Record<string, unknown> = {}) => {
  let at = 0;
  stage.play(name, {
    mission: turns({ calls: [plan("a"), dispatch("a", `Write it. [${name}]`)] }, runs, ...after),
    task: (turn, request, newest) => {
      if (turn === 0) at += 1;
      return writes(`${name}-${at}.txt`)(turn, request, newest);
    },
  });
  const directory = stage.project();
  const base = git(directory, "rev-parse", "HEAD").trim();
  const { missionID } = await wake(stage.service.url, directory, {
    text: `Write a file. [${name}]`,
    judged: true,
    ...body,
  });
  const mission = await restOf(stage.service.url, directory, missionID);
  const events = (await eventsOf(stage.service.url, directory, missionID)).filter(({ taskID }) => taskID === undefined);
  return { directory, base, missionID, mission, events, types: events.map(({ type }) => type) };
};
const done: Say = () => ({ calls: [finish("done", "It is written.")] });

describe("done without checks", () => {
  test("accepted: it is verified; whoever judged had the user's words and the whole change, and landed nothing", async () => {
    judges.set("good", () => ({
      calls: [
        { tool: "write", input: { path: "debris.txt", content: "x\n" } },
        { tool: "shell", input: { command: "echo x > debris.txt" } },
        ...(verdictOn("accepted", "The file is there.").calls ?? []),
      ],
    }));
    const { mission, directory, base, types, events } = await play("good", [done]);
    const head = git(directory, "rev-parse", "HEAD").trim();
    expect(mission).toMatchObject({
      state: "done",
      outcome: "done",
      verified: true,
      finished: { summary: "It is written." },
      verdict: { verdict: "accepted", notes: "The file is there.", commit: head },
      taskCounts: { total: 2, running: 0 },
    });
    expect(mission.tasks[1]).toMatchObject({ taskID: mission.verdict?.taskID, lifecycleStatus: "completed" });
    expect(types.filter((type) => type === "mission.finished")).toHaveLength(1);
    expect(types.indexOf("mission.judging")).toBeLessThan(types.lastIndexOf("task.dispatched"));
    expect(git(directory, "log", "--format=%s").trim().split("\n")).toHaveLength(2);
    expect(git(directory, "rev-parse", `sortie/${mission.verdict?.taskID}`).trim()).toBe(head);
    const [brief = ""] = briefs.get("good") ?? [];
    expect(briefs.get("good")).toHaveLength(1);
    for (const part of ["Write a file. [good]", "It is written.", `From ${base}`, `to ${head}`, "+good-1.txt"])
      expect(brief).toContain(part);
    expect(events.find(({ type }) => type === "mission.finished")?.data).toMatchObject({ verified: true });
  });

  test("rejected: its agent is told what is missing, has it mended, and the whole is judged again", async () => {
    judges.set("missing", () =>
      (briefs.get("missing") ?? []).length === 1
        ? verdictOn("rejected", "There is no second file.")
        : verdictOn("accepted", "Both are there."),
    );
    let told = "";
    const { mission, directory, types } = await play("missing", [
      done,
      (_turn, _request, newest) => {
        told = newest;
        return { calls: [plan("a", "b"), dispatch("b", "Write another. [missing]")] };
      },
      () => runs,
      done,
    ]);
    expect(told).toMatch(/rejects it:\n<data from="task_\w+ verdict">\nThere is no second file\./);
    expect(told).not.toContain("Its last words");
    expect(mission).toMatchObject({ state: "done", verified: true, verdict: { notes: "Both are there." } });
    expect(readText(directory, "missing-2.txt")).toBe("missing-2.txt\n");
    expect(types.filter((type) => type === "mission.judging")).toHaveLength(2);
  });

  test("rejected, and said to be done all the same: done, not verified, told so, and not judged again", async () => {
    judges.set("stubborn", () => verdictOn("rejected", "It is too short."));
    const { mission, events } = await play("stubborn", [done, done], { budget: { maxSteps: 60 } });
    const said = events.flatMap((event) => (event.type === "tool.finished" ? [String(event.data["output"])] : []));
    expect(said.at(-1)).toContain("ends without being verified");
    // Half of what is left stays for what a person says meanwhile.
    const reserved = events.flatMap((event) => (event.type === "task.dispatched" ? [event.data["reserved"]] : []));
    expect((reserved[1] as { maxSteps: number }).maxSteps).toBeLessThan(30);
    expect(mission).toMatchObject({ state: "done", verified: false, verdict: { verdict: "rejected" } });
    expect(briefs.get("stubborn")).toHaveLength(1);
  });

  test("a verdict is of what had been said by then: later words are judged anew, on the same files", async () => {
    judges.set("more", () => verdictOn("accepted", "All of it is there."));
    const first = await play("more", [done, done]);
    expect(first.mission).toMatchObject({ state: "done", verified: true });
    expect(briefs.get("more")).toHaveLength(1);
    judges.set("more", () => verdictOn("rejected", "There is no CHANGELOG.md."));
    const { directory, missionID } = first;
    await wake(stage.service.url, directory, { missionID, text: "And add a CHANGELOG.md." });
    const mission = await until(
      () => missionOf(stage.service.url, directory, missionID),
      ({ verdict }) => verdict?.verdict === "rejected",
    );
    expect(mission).toMatchObject({ verdict: { notes: "There is no CHANGELOG.md." } });
    expect(mission.verified).not.toBe(true);
    const [, brief = ""] = briefs.get("more") ?? [];
    expect(brief).toContain("And add a CHANGELOG.md.");
    expect(brief).toContain("What was found when it was judged before");
  });

  test.each([
    ["cannot tell", "unsure", () => verdictOn("inconclusive", "It does not run here."), "inconclusive"],
    ["gives no verdict", "silent", () => ({ text: "Fine." }), "inconclusive"],
  ] as const)("whoever judges %s: done, not verified", async (_what, name, say, verdict) => {
    judges.set(name, say);
    const { mission, types } = await play(name, [done]);
    expect(mission).toMatchObject({ state: "done", verified: false, verdict: { verdict } });
    expect(types.filter((type) => type === "mission.finished")).toHaveLength(1);
  });

  test("a text of the user comes first; the verdict on the files that are there then still counts", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    judges.set("late", () => ({ hold: true, ...verdictOn("accepted", "It is there.") }));
    stage.play("late", {
      mission: turns({ calls: [plan("a"), dispatch("a", "Write it. [late]")] }, runs, done, () => {
        release();
        return { calls: [finish("blocked", "You wanted to see it first.")] };
      }),
      task: writes("late.txt"),
    });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "Write a file. [late]", judged: true });
    await until(
      () => Promise.resolve(briefs.get("late")?.length),
      (count) => count === 1,
    );
    const judged = await missionOf(stage.service.url, directory, missionID);
    const words = "A session that did not plan it judges the whole";
    expect(judged).toMatchObject({
      state: "waiting",
      stateReason: words,
      outcome: null,
      finished: null,
      now: { kind: "verdict", text: words },
      verdict: null,
      judging: { summary: "It is written.", commit: git(directory, "rev-parse", "HEAD").trim() },
    });
    expect(judged.tasks.map(({ taskID }) => taskID).indexOf(judged.judging?.taskID ?? "-")).toBe(1);
    const { body } = await send(stage.service.url, at("/mission", directory));
    expect((body as unknown as { now: object }[])[0]).toMatchObject({ now: { kind: "verdict" } });
    const sortie = sortieIn(() => ({ url: stage.service.url, directory }));
    const shown = (await sortie("mission", "status", missionID)).out;
    expect(shown).toMatch(
      new RegExp(`^Judged +now \\(task_\\w+\\), at \\w{10}; its agent reports: It is written\\.$`, "m"),
    );
    expect(shown).toContain(`OPEN: 1/1 phases`);
    expect((await sortie("mission", "ls")).out).toContain("  judged now  ");
    await wake(stage.service.url, directory, { missionID, text: "Wait, show it to me first." });
    await held;
    stage.provider.release();
    const mission = await until(
      () => missionOf(stage.service.url, directory, missionID),
      ({ state, verdict }) => state === "blocked" && verdict !== null,
    );
    expect(mission).toMatchObject({ verified: null, judging: null, now: null, verdict: { verdict: "accepted" } });
    expect((await sortie("mission", "ls")).out).not.toContain("judged now");
  });
});

describe("nobody is asked", () => {
  test("where nothing landed, where the caller gave checks or wants none, and where no budget is left; the control is above", async () => {
    stage.play("none", { mission: turns({ calls: [finish("done", "Nothing was to be done.")] }) });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "Look. [none]", judged: true });
    expect(await restOf(stage.service.url, directory, missionID)).toMatchObject({
      state: "done",
      verified: false,
      verdict: null,
    });
    const checked = await play("checked", [done], { checks: ["test -f checked-1.txt"] });
    expect(checked.mission).toMatchObject({ state: "done", verified: true, verdict: null });
    const unwanted = await play("unwanted", [done], { checks: [] });
    expect(unwanted.mission).toMatchObject({ state: "done", verified: false, verdict: null });
    const capped = await play("capped", [done], { budget: { maxSteps: 6 } });
    expect(capped.mission).toMatchObject({ state: "done", verified: false });
    expect(["none", "checked", "unwanted"].map((name) => briefs.get(name))).toEqual([undefined, undefined, undefined]);
  });
});
