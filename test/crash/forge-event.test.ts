import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addForge } from "../harness/double/forge/double.ts";
import { deliver, labelled, reviewed, secret } from "../harness/double/forge/event.ts";
import { canServe } from "../harness/double/git-host.ts";
import { logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { freePort } from "../harness/port.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { nothingLeft, type ServiceProcess, startProcess } from "./process.ts";

/** An event of a forge around which the service dies: one Task, one comment, whether it is delivered again or not. */

describe.runIf(canServe)("killed around an event of a forge", { timeout: 90_000 }, () => {
  let lab: RemoteLab;
  let count = 0;
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-forge-event-");
  });
  afterAll(() => lab[Symbol.asyncDispose]());

  const cases = [
    ["when the Task is on record, before the forge hears that", { answer: "/github" }],
    ["when the Task's first run begins", { on: "run.started" }],
    ["when the Task has ended, before anything is said", { on: "task.settled" }],
    ["as the forge takes the comment, before it is there", { after: false }],
    ["when the comment is there, before the answer", { after: true }],
  ] as const;

  const open = async () => {
    count += 1;
    const name = `acme/f${count}`;
    lab.host.make(name, { "a.txt": "a\n" });
    const forge = addForge(lab.host, "github");
    const match = `http://127.0.0.1:${lab.host.port}/acme/*`;
    const own = { match, forge: "github", secret: "env:FORGE_EVENTS", authors: ["ada"], network: true, secrets: true };
    const prepared = lab.prepare(`data-${count}`, "github", { events: [own] });
    const port = await freePort();
    const env = { ...prepared.env, FORGE_EVENTS: secret, SERVICE_FORGE_PORT: String(port) };
    const event = labelled("github", lab.host.url(name), { text: "Add it." });
    return { name, forge, port, env, event, folder: prepared.folder };
  };

  test.each(cases)("%s", async (_when, kill) => {
    const { name, forge, port, env, event, folder } = await open();
    {
      let first: ServiceProcess | undefined;
      if ("after" in kill) forge.troubles.push({ on: "say", after: kill.after, run: () => first?.kill("SIGKILL") });
      const dies =
        "on" in kill ? { TEST_KILL_ON: kill.on } : "answer" in kill ? { TEST_KILL_ANSWER: kill.answer } : undefined;
      await using service = await startProcess({ ...env, ...dies });
      first = service;
      const answered = await deliver(port, "github", event).catch(() => undefined);
      // Control: it died where it was to die.
      expect([undefined, 202]).toContain(answered?.status);
      if ("answer" in kill) expect(answered).toBeUndefined();
      else if (!("on" in kill && kill.on === "run.started")) expect(answered?.status).toBe(202);
      await service.gone;
    }
    expect(forge.troubles).toEqual([]);
    expect(forge.comments).toHaveLength("after" in kill && kill.after ? 1 : 0);

    await using service = await startProcess(env);
    // It is there whether the event is delivered again or not.
    const kept = await send(service.url, `/tasks?repository=${encodeURIComponent(lab.host.url(name))}`);
    expect(kept.body).toHaveLength(1);
    const again = await deliver(port, "github", event);
    expect(again, JSON.stringify(again.body)).toMatchObject({ status: 202, body: { repeated: true } });
    const taskID = String(again.body["taskID"]);
    expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ lifecycleStatus: "completed" });
    const list = await send(service.url, `/tasks?repository=${encodeURIComponent(lab.host.url(name))}`);
    expect(list.body).toHaveLength(1);
    await until(
      async () => forge.comments.length,
      (comments) => comments > 0,
      40_000,
    );
    // Its delivery is on record before the next would be tried.
    await until(
      async () => (await send(service.url, "/health")).status,
      (status) => status === 200,
    );
    expect(forge.comments).toMatchObject([{ repo: name, number: 7, body: expect.stringContaining(`Done: ${taskID}`) }]);
    expect(forge.pulls).toHaveLength(1);
    expect(forge.violations).toEqual([]);
    await service.kill("SIGTERM");
    expect(forge.comments).toHaveLength(1);
    await nothingLeft(folder);
  });

  test("a review before whose answer it dies is one follow-up, delivered again or not", async () => {
    const { name, forge, port, env, event, folder } = await open();
    let taskID = "";
    {
      await using service = await startProcess(env);
      const made = await deliver(port, "github", event);
      taskID = String(made.body["taskID"]);
      expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ lifecycleStatus: "completed" });
      await until(
        async () => forge.comments.length,
        (comments) => comments > 0,
        40_000,
      );
      await service.kill("SIGTERM");
    }
    const review = reviewed("github", lab.host.url(name), `sortie/${taskID}`, "Do it again.");
    {
      await using service = await startProcess({ ...env, TEST_KILL_ANSWER: "/github" });
      expect(await deliver(port, "github", review).catch(() => undefined)).toBeUndefined();
      await service.gone;
    }
    await using service = await startProcess(env);
    expect(await deliver(port, "github", review)).toMatchObject({ status: 202, body: { taskID, repeated: true } });
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
    const types = (await logOf(service.url, taskID)).map(({ type }) => type);
    expect(types.filter((type) => type === "message.received")).toHaveLength(1);
    await until(
      async () => forge.comments.length,
      (comments) => comments > 1,
      40_000,
    );
    await service.kill("SIGTERM");
    expect(forge.comments).toHaveLength(2);
    expect(forge.pulls).toHaveLength(1);
    expect(forge.violations).toEqual([]);
    await nothingLeft(folder);
  });
});
