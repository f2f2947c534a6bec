import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { post } from "../harness/double/hostile-text.ts";
import { type MockTurn, startMockProvider, textOf } from "../harness/double/mock-provider.ts";
import { dispatch, eventsOf, finish, missionOf, newestOf, plan, taskIn, wake } from "../harness/double/missions.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";

/**
 * The service is killed around a Task's question to its Mission: it is heard once, and answered once, by whom it may.
 */

const answers: Record<string, (task: string) => MockTurn> = {
  answer: (task) => ({ calls: [{ tool: "task_answer", input: { task, answer: "Blue." } }] }),
  pass: (task) => ({ calls: [{ tool: "task_answer", input: { task, pass: true } }] }),
  silent: () => ({ text: "Hm." }),
  checks: (task) => ({
    calls: [{ tool: "task_message", input: { task, text: "Blue.", checks: ["grep -q Blue colour.txt"] } }],
  }),
};

/** With `~` as soon as the fact is seen from outside: it is no run's. */
const points = [
  "answer ask.opened:1",
  "answer task.asked:1",
  "answer tool.started:4",
  "answer ~ask.answered",
  "pass ~ask.passed",
  "silent task.answered:1",
  "checks ~checks.replaced",
];

test.each(points)("killed at %j", { timeout: 60_000 }, async (named) => {
  const [how = "", point = ""] = named.split(" ");
  using root = temporary("sortie-task-ask-");
  const mission = [
    {
      calls: [
        plan("a"),
        dispatch("a", "Write it.", { checks: ["grep -q Blue colour.txt || grep -q purple colour.txt"] }),
      ],
    },
    { text: "It runs." },
  ];
  const provider = await startMockProvider((request) => {
    const { body, turn } = request;
    const newest = newestOf(request);
    if (!textOf(body.messages[0]?.content).includes("You lead one Mission")) {
      if (turn === 0) return { calls: [{ tool: "ask", input: { question: "Which colour?" } }] };
      const said = /answered: (\w+)|(Blue)\./.exec(JSON.stringify(body.messages));
      // Where the kill fell into the call, nothing was written yet.
      if (turn === 1 || newest.includes("Interrupted:"))
        return { calls: [{ tool: "write", input: { path: "colour.txt", content: `${said?.[1] ?? said?.[2]}\n` } }] };
      return { text: "Done." };
    }
    if (/asks \(ask_\w+\), and waits/.test(newest)) return answers[how]?.(taskIn(newest)) ?? {};
    if (newest.includes("ended completed")) return { calls: [finish()] };
    return mission[turn] ?? { text: "Waiting." };
  });
  try {
    const dataDir = join(root.path, "data");
    const config = join(root.path, "config.jsonc");
    const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
    const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
    const begin = (url: string) => wake(url, project, { missionID: "m", text: "Do it." });
    /** A person answers what a person is asked. */
    const attend = async (url: string) => {
      if (how !== "pass" && how !== "silent") return;
      const { tasks } = await until(
        () => missionOf(url, project, "m"),
        ({ state, tasks: [task] }) => (task?.pendingCount ?? 0) > 0 || state === "done",
        20_000,
      );
      const [ask] = tasks[0]?.pending ?? [];
      if (ask !== undefined)
        await post(url, `/task/${tasks[0]?.taskID}/pending/${ask.id}`, project, { answer: "Blue" });
    };
    {
      const seen = point.startsWith("~") ? point.slice(1) : undefined;
      await using service = await startProcess(seen === undefined ? { ...env, TEST_KILL_ON: point } : env);
      await begin(service.url).catch(() => undefined);
      if (seen === undefined) await attend(service.url).catch(() => undefined);
      else {
        await until(
          () => eventsOf(service.url, project, "m"),
          (events) => events.some(({ type }) => type === seen),
        );
        await service.kill("SIGKILL");
      }
      await service.gone;
    }
    await using service = await startProcess(env);
    await attend(service.url);
    const done = await until(
      () => missionOf(service.url, project, "m"),
      ({ state }) => state === "done",
      20_000,
    );
    expect(done.tasks).toMatchObject([{ lifecycleStatus: "completed", attempt: 1, pending: [] }]);
    const events = await eventsOf(service.url, project, "m");
    const times = (type: string) => events.filter((event) => event.type === type).length;
    const passes = how === "pass" || how === "silent" ? 1 : 0;
    // A person's answer is told to the Mission, beside that they were asked.
    expect([times("ask.opened"), times("task.asked"), times("ask.answered"), times("task.answered")]).toEqual([
      1,
      1,
      1,
      1 + passes,
    ]);
    const said = events.flatMap(({ type, data }) => (type === "task.answered" ? (data["said"] ?? []) : []));
    expect(said).toEqual(
      passes === 0 ? [] : [{ phase: "a", title: "Phase a", question: "Which colour?", answer: "Blue" }],
    );
    expect([times("ask.passed"), times("checks.replaced")]).toEqual([passes, how === "checks" ? 1 : 0]);
    const heard = events.find(({ type }) => type === "ask.answered")?.data;
    expect(heard).toMatchObject(
      how === "checks"
        ? { by: "ended", source: "message" }
        : { by: "caller", source: passes === 1 ? "api" : "mission" },
    );
    expect(readText(project, "colour.txt")).toBe("Blue\n");
    expect(git(project, "log", "--format=%s").split("\n")).toHaveLength(2);
    await nothingLeft(dataDir);
  } finally {
    await provider.close();
  }
});
