import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { git, until } from "../../harness/project.ts";
import { at, send } from "../../harness/double/hostile-text.ts";
import { textOf } from "../../harness/double/mock-provider.ts";
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
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/**
 * What a dispatched Task is given, and what of it is shown: its squad's reason, files, checks, its place in the queue.
 */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Writes the file that its request names. */
const worker: Say = (turn, { first }) =>
  turn === 0
    ? { calls: [{ tool: "write", input: { path: /Write (\S+)\./.exec(first)?.[1] ?? "x.txt", content: "made\n" } }] }
    : { text: "Wrote it." };
const dispatched = async (directory: string, missionID: string) =>
  (await eventsOf(stage.service.url, directory, missionID)).flatMap(({ type, data }) =>
    type === "task.dispatched" ? [data] : [],
  );

describe("a phase that no squad owns", () => {
  test("goes to a general squad with the agent's reason, which is a fact; a squad could have been made", async () => {
    stage.play("opt", {
      mission: turns(
        { calls: [plan("a")] },
        { calls: [dispatch("a", "Write a.txt. [opt]")] },
        (_turn, _request, newest) => {
          expect(newest).toContain("have one made with produce_squad first");
          return { calls: [dispatch("a", "Write a.txt. [opt]", { general: "One file, no domain." })] };
        },
        { calls: [finish()] },
      ),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[opt]", allowSquadProduction: true });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({
      squadProduction: "authorised",
      plan: [{ state: "done", squad: { id: "base" }, productionTaskID: null, general: "One file, no domain." }],
    });
    expect(await dispatched(directory, missionID)).toMatchObject([{ general: "One file, no domain." }]);
  });

  test("or with the service's, where none may be made; one with an owner has none", async () => {
    stage.play("bar", {
      mission: turns(
        { calls: [plan("a", { id: "b", phase: "web/shop" })] },
        {
          calls: [
            dispatch("a", "Write a.txt. [bar]"),
            // An owner does it, whatever is said of a general one.
            dispatch("b", "Write b.txt. [bar]", { general: "I would rather." }),
          ],
        },
        { text: "Runs." },
        (_turn, _request, _newest) => ({ text: "One more." }),
        { calls: [finish()] },
      ),
      task: worker,
    });
    const owner = JSON.stringify({
      id: "shop",
      version: "1.0.0",
      name: "Shop",
      summary: "Shops.",
      notFor: "Else.",
      pillars: ["code"],
      owns: { phases: ["web/shop"] },
      agents: [],
      skills: [],
    });
    const directory = stage.project({
      "a.txt": "one\n",
      ".sortie/squads/shop/squad.json": owner,
      ".sortie/squads/shop/README.md": "# Shop\n",
      ".sortie/squads/shop/agents/orchestrator.md":
        "---\nname: orchestrator\ndescription: Leads.\ntools: [read, write]\n---\n\nYou lead.\n",
    });
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[bar]" });
    const { plan: phases } = await restOf(url, directory, missionID);
    expect(phases).toMatchObject([
      { squad: { id: "base" }, general: expect.stringContaining("creating squads is not allowed here") },
      { squad: { id: "shop" }, general: null },
    ]);
    const [, owned] = await dispatched(directory, missionID);
    expect(owned).not.toHaveProperty("general");
  });
});

describe("files that came with a wake", () => {
  const file = (filename: string, text: string) => ({
    filename,
    mime: "text/plain",
    data: Buffer.from(text).toString("base64"),
  });

  test("go to the Tasks that they are named for, and to no others; the newest of a name counts", async () => {
    const seen: Record<string, string> = {};
    let shown = "";
    let listed = "";
    const talk = turns(
      (_turn, { body }) => {
        shown = body.messages.map(({ content }) => textOf(content)).join("\n");
        return { calls: [plan("a", "b", "c"), { tool: "task_status", input: {} }] };
      },
      (_turn, _request, newest) => {
        listed = newest;
        return {
          calls: [
            dispatch("a", "Write a.txt. [files]", { attachments: ["spec.md", "spec.md"] }),
            dispatch("b", "Write b.txt. [files]"),
            dispatch("c", "Write c.txt. [files]", { attachments: ["other.md"] }),
          ],
        };
      },
      (_turn, _request, newest) => ({ calls: [finish("waiting", newest)] }),
    );
    stage.play("files", {
      mission: (turn, request, newest) => {
        if (newest.includes("Newer."))
          return { calls: [dispatch("c", "Write c.txt. [files]", { attachments: ["spec.md"] })] };
        return turn < 3 ? talk(turn, request, newest) : { calls: [finish("blocked", "That was it.")] };
      },
      task: (turn, request, newest) => {
        const name = /Write (\S)\.txt/.exec(request.first)?.[1] ?? "";
        if (turn === 0) seen[name] = request.body.messages.map(({ content }) => textOf(content)).join("\n");
        return worker(turn, request, newest);
      },
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, {
      text: "[files]",
      attachments: [file("colours.txt", "red"), file("spec.md", "the spec says seven")],
    });
    const mission = await restOf(url, directory, missionID);
    expect(mission.attachments.map(({ filename }) => filename)).toEqual(["colours.txt", "spec.md"]);
    expect(listed).toMatch(/"attachments": \[\s*"colours.txt",\s*"spec.md"/);
    const said = (await eventsOf(url, directory, missionID)).flatMap(({ type, data }) =>
      type === "tool.finished" && data["tool"] === "dispatch" ? [String(data["output"])] : [],
    );
    expect(said[2]).toBe(
      'Expected names of files that the user sent ("colours.txt", "spec.md") or ids of artifacts of your Tasks, got "other.md". Nothing was dispatched.',
    );
    expect(shown).toContain("the spec says seven");
    // Its agent has no working directory, and is told of none.
    expect(shown).not.toContain("working directory");
    expect(seen["a"]).toContain("the spec says seven");
    expect(seen["a"]).toContain(".sortie/attachments");
    expect(seen["a"]).not.toContain("colours.txt");
    expect(seen["b"]).not.toContain("spec says");
    const [given, other] = await dispatched(directory, missionID);
    expect(given).toMatchObject({ attachments: ["spec.md"] });
    expect(other).not.toHaveProperty("attachments");
    const [task] = mission.tasks;
    const { body } = await send(url, `/task/${task?.taskID}`);
    expect(body).toMatchObject({ attachments: [{ filename: "spec.md", mime: "text/plain", bytes: 19 }] });

    await wake(url, directory, { missionID, text: "Newer.", attachments: [file("spec.md", "the spec says eight")] });
    await until(
      () => missionOf(url, directory, missionID),
      ({ taskCounts }) => taskCounts.total === 3,
    );
    const { attachments } = await restOf(url, directory, missionID);
    expect(attachments.map(({ filename }) => filename)).toEqual(["colours.txt", "spec.md"]);
    expect(seen["c"]).toContain("the spec says eight");
    expect(seen["c"]).not.toContain("seven");
  });
});

describe("the checks of a dispatched Task", () => {
  test("are of every kind: run, served, looked at and judged; a red one ends the Task", async () => {
    const start = "node serve.mjs";
    const serve = `import { createServer } from "node:http";
createServer((_, answer) => answer.end("hello")).listen(Number(process.env.PORT ?? 4711), "127.0.0.1");
`;
    const checks = [
      "test -f kinds.txt",
      {
        kind: "http",
        id: "served",
        start,
        url: "http://127.0.0.1:4711/",
        expect: { status: 200, bodyMatches: "hello" },
      },
      { kind: "file", id: "there", path: "kinds.txt", matches: "made" },
      { kind: "review", id: "judged", criteria: "It is made." },
    ];
    stage.play("kinds", {
      mission: turns(
        { calls: [plan("a", "b")] },
        {
          calls: [
            dispatch("a", "Write kinds.txt. [kinds]", { checks }),
            dispatch("b", "Write other.txt. [kinds]", {
              checks: [{ kind: "file", id: "missing", path: "nowhere.txt" }],
            }),
            {
              tool: "dispatch",
              input: { phase: "b", request: "x", checks: [{ kind: "http", url: "http://127.0.0.1/" }] },
            },
          ],
        },
        (_turn, _request, newest) => ({ text: newest }),
        { text: "One more." },
        { calls: [finish("blocked", "As far as it goes.")] },
      ),
      task: worker,
    });
    const directory = stage.project({ "serve.mjs": serve });
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[kinds]" });
    const mission = await restOf(url, directory, missionID, 60_000);
    const [one, other] = mission.tasks;
    expect(one).toMatchObject({ lifecycleStatus: "completed", checkCounts: { total: 4, passed: 4 } });
    expect(one?.checks.map(({ id, kind, state }) => [id, kind, state])).toEqual([
      ["check-1", "command", "passed"],
      ["served", "http", "passed"],
      ["there", "file", "passed"],
      ["judged", "review", "passed"],
    ]);
    expect(other).toMatchObject({ lifecycleStatus: "failed", error: expect.stringContaining("nowhere.txt") });
    expect(mission.taskCounts.total).toBe(2);
    expect(git(directory, "log", "--format=%s").split("\n")).toHaveLength(2);
  });

  test("a picture to compare with may be a file that the user sent", async () => {
    const png = (width: number, height: number) => {
      const bytes = Buffer.alloc(33);
      bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13]);
      bytes.write("IHDR", 12);
      bytes.writeUInt32BE(width, 16);
      bytes.writeUInt32BE(height, 20);
      return bytes;
    };
    const visual = { kind: "visual", id: "page", start: "true", url: "http://127.0.0.1:4712/", baseline: "page.png" };
    let refusal = "";
    stage.play("picture", {
      mission: turns(
        { calls: [plan("a")] },
        { calls: [dispatch("a", "Look. [picture]", { checks: [visual] })] },
        (_turn, _request, newest) => {
          refusal = newest;
          return { calls: [dispatch("a", "Look. [picture]", { checks: [visual], attachments: ["page.png"] })] };
        },
        { calls: [finish("blocked", "x")] },
      ),
      task: () => ({ text: "Looked.", hold: true }),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, {
      text: "[picture]",
      attachments: [{ filename: "page.png", mime: "image/png", data: png(64, 48).toString("base64") }],
    });
    const { tasks } = await until(
      () => missionOf(url, directory, missionID),
      ({ taskCounts }) => taskCounts.total === 1,
    );
    expect(refusal).toContain("Expected the name of an attachment or a file of the project");
    const { body } = await send(url, `/task/${tasks[0]?.taskID}`);
    expect(body).toMatchObject({
      requestedChecks: [{ kind: "visual", viewport: { width: 64, height: 48 }, against: { name: "page.png" } }],
    });
    await send(url, at(`/mission/${missionID}/abort`, directory), { method: "POST", body: { cascade: true } });
    await until(
      () => taskOf(url, tasks[0]?.taskID ?? ""),
      ({ status }) => status === "inactive",
    );
  });
});

test("a Task that waits for a place shows where it stands, in the Mission's status as in its own", async () => {
  await using other = await openStage({ SERVICE_MAX_RUNNING: "1" });
  other.play("queue", {
    mission: turns(
      { calls: [plan("a", "b", "c")] },
      { calls: ["a", "b", "c"].map((id) => dispatch(id, `Write ${id}.txt. [queue]`)) },
      { text: "They run." },
    ),
    task: () => ({ text: "…", hold: true }),
  });
  const directory = other.project();
  const { url } = other.service;
  const { missionID } = await wake(url, directory, { text: "[queue]" });
  const { tasks } = await until(
    () => missionOf(url, directory, missionID),
    ({ agentStatus, tasks: [first] }) => agentStatus === "inactive" && first?.phase !== "queued",
  );
  expect(tasks.map(({ phase, queue }) => [phase === "queued", queue?.position])).toEqual([
    [false, undefined],
    [true, 1],
    [true, 2],
  ]);
  expect(tasks[1]?.queue).toMatchObject({ reason: "waits for a slot", notBefore: null });
  expect((await taskOf(url, tasks[2]?.taskID ?? "")).queue).toEqual(tasks[2]?.queue);
  const figures = await (await fetch(`${url}/metrics`)).text();
  expect(figures).toMatch(/^sortie_tasks_waiting 2$/m);
  expect(figures).toMatch(/^sortie_tasks_running 1$/m);
  await send(url, at(`/mission/${missionID}/abort`, directory), { method: "POST", body: { cascade: true } });
});

test("a Mission that looks again at a time of its own is no Task that waits", async () => {
  stage.play("later", { mission: () => ({ calls: [finish("waiting", "Later.", { wakeInMinutes: 60 })] }) });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[later]" });
  expect((await restOf(url, directory, missionID)).finished?.wakeAt).not.toBeNull();
  const figures = async () => (await fetch(`${url}/metrics`)).text();
  await until(figures, (text) => /^sortie_missions_running 0$/m.test(text));
  expect(await figures()).toMatch(/^sortie_tasks_waiting 0$/m);
});

test("a model that the wake names is that of its Tasks, too; without one they have the configured one", async () => {
  stage.play("named", {
    mission: turns(
      { calls: [plan("a")] },
      { calls: [dispatch("a", "Write a.txt. [named]")] },
      {
        calls: [finish()],
      },
    ),
    task: worker,
  });
  const { url } = stage.service;
  const modelsOf = async (model?: string): Promise<unknown[]> => {
    const directory = stage.project();
    const { missionID } = await wake(url, directory, { text: "[named]", ...(model === undefined ? {} : { model }) });
    const mission = await restOf(url, directory, missionID);
    const asked = await taskOf(url, mission.tasks[0]?.taskID ?? "");
    return [mission.model, asked.model, asked.lifecycleStatus];
  };
  expect(await modelsOf("mock/small")).toEqual(["mock/small", "mock/small", "completed"]);
  expect(await modelsOf()).toEqual(["mock/large", "mock/large", "completed"]);
});
