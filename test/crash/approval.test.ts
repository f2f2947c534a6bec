import { expect, test } from "vitest";
import { createTask, logOf, post, send, at, statusOf } from "../harness/double/hostile-text.ts";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { git, readText, temporary, until } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/** The service is killed around an approval: it is asked for once, and what was approved is carried out once. */

const turns = [{ calls: [{ tool: "write", input: { path: "x.txt", content: "x\n" } }] }];

/** Of a Task whose plan is approved, too. */
const planned = [{ text: "I mean to write x." }, ...turns];

const points = [
  "",
  "tree.committed:1",
  "ask.opened:1",
  "answered",
  "landing.started:1",
  "landing.finished:1",
  "task.settled:1",
  "plan ask.opened:1",
  "plan run.started:2",
  "plan ask.opened:2",
  "plan landing.started:1",
];

test.each(points)("killed at %j", { timeout: 60_000 }, async (named) => {
  const point = named.replace("plan ", "");
  const approved = point === named ? ["landing"] : ["plan", "landing"];
  const script = point === named ? turns : planned;
  using root = temporary("sortie-approval-");
  const provider = await startMockProvider(({ turn }) => script[turn] ?? { text: "Done." });
  try {
    const { dataDir, project, env } = settingIn(root.path, provider.baseURL);
    const create = (url: string) => createTask(url, project, { request: "Do it.", approve: approved });
    /** The service may die of any of this. */
    const approve = async (url: string, taskID: string): Promise<void> => {
      for (let asked = 0; asked < approved.length; asked += 1) {
        const { pending } = await until(
          () => statusOf(url, taskID),
          ({ pending: asks, status }) => asks.length > 0 || status === "inactive",
          20_000,
        );
        const [ask] = pending;
        if (ask === undefined) return;
        await post(url, `/task/${taskID}/pending/${ask.id}`, project, { decision: "allow", source: "test" });
      }
    };
    if (point !== "") {
      await using service = await startProcess(point === "answered" ? env : { ...env, TEST_KILL_ON: point });
      await create(service.url)
        .then((taskID) => approve(service.url, taskID))
        .catch(() => undefined);
      if (point === "answered") await service.kill("SIGKILL");
      await service.gone;
    }
    await using service = await startProcess(env);
    if (point === "") await create(service.url);
    const listed = (await send(service.url, at("/tasks", project))).body as unknown as { taskID: string }[];
    expect(listed).toHaveLength(1);
    const taskID = listed[0]?.taskID ?? "";
    if (["", "tree.committed:1", "ask.opened:1"].includes(point))
      expect(git(project, "log", "--format=%s")).toBe("first");
    await approve(service.url, taskID);
    const task = await until(
      () => statusOf(service.url, taskID),
      ({ status }) => status === "inactive",
      20_000,
    );
    expect(task).toMatchObject({ lifecycleStatus: "completed", attempt: 1, pending: [] });
    const events = await logOf(service.url, taskID);
    const times = (type: string) => events.filter((event) => event.type === type).length;
    expect([times("ask.opened"), times("ask.answered")]).toEqual([approved.length, approved.length]);
    expect([times("landing.started"), times("landing.finished"), times("task.settled")]).toEqual([1, 1, 1]);
    expect(readText(project, "x.txt")).toBe("x\n");
    expect(git(project, "log", "--format=%s").split("\n")).toHaveLength(2);
    await nothingLeft(dataDir);
  } finally {
    await provider.close();
  }
});

test("an hour later somebody is reminded, once, whenever the service is killed", { timeout: 60_000 }, async () => {
  using root = temporary("sortie-reminder-");
  const provider = await startMockProvider(({ turn }) => turns[turn] ?? { text: "Done." });
  try {
    const { project, env } = settingIn(root.path, provider.baseURL);
    let taskID = "";
    const waiting = async (url: string) => {
      await until(
        () => statusOf(url, taskID),
        ({ phase }) => phase === "waiting",
        20_000,
      );
    };
    const reminders = async (url: string) =>
      (await logOf(url, taskID)).filter(({ type }) => type === "ask.reminded").length;
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "ask.reminded:1" });
      taskID = await createTask(service.url, project, { request: "Do it.", approve: ["landing"] });
      await waiting(service.url);
      service.child.kill("SIGALRM");
      await service.gone;
    }
    await using service = await startProcess(env);
    await waiting(service.url);
    expect(await reminders(service.url)).toBe(1);
    // By its own clock again less than an hour has gone by; the second is due after four.
    for (let hour = 0; hour < 4; hour += 1) {
      service.child.kill("SIGALRM");
      // Signals that come together are one.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await until(
      () => reminders(service.url),
      (count) => count === 2,
      20_000,
    );
    expect(git(project, "log", "--format=%s")).toBe("first");
  } finally {
    await provider.close();
  }
});
