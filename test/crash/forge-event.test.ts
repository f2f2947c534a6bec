import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addForge } from "../harness/double/forge/double.ts";
import { deliver, labelled, secret } from "../harness/double/forge/event.ts";
import { canServe } from "../harness/double/git-host.ts";
import { send, settledTask } from "../harness/double/hostile-text.ts";
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
    ["when the Task's first run begins", { on: "run.started" }],
    ["when the Task has ended, before anything is said", { on: "task.settled" }],
    ["as the forge takes the comment, before it is there", { after: false }],
    ["when the comment is there, before the answer", { after: true }],
  ] as const;

  test.each(cases)("%s", async (_when, kill) => {
    count += 1;
    const name = `acme/f${count}`;
    lab.host.make(name, { "a.txt": "a\n" });
    const forge = addForge(lab.host, "github");
    const match = `http://127.0.0.1:${lab.host.port}/acme/*`;
    const entry = {
      match,
      forge: "github",
      secret: "env:FORGE_EVENTS",
      authors: ["ada"],
      network: true,
      secrets: true,
    };
    const prepared = lab.prepare(`data-${count}`, "github", { events: [entry] });
    const port = await freePort();
    const env = { ...prepared.env, FORGE_EVENTS: secret, SERVICE_FORGE_PORT: String(port) };
    const event = labelled("github", lab.host.url(name), { text: "Add it." });
    {
      let first: ServiceProcess | undefined;
      if ("after" in kill) forge.troubles.push({ on: "say", after: kill.after, run: () => first?.kill("SIGKILL") });
      await using service = await startProcess("on" in kill ? { ...env, TEST_KILL_ON: kill.on } : env);
      first = service;
      const answered = await deliver(port, "github", event).catch(() => undefined);
      // Control: it died where it was to die.
      expect([undefined, 202]).toContain(answered?.status);
      if (!("on" in kill && kill.on === "run.started")) expect(answered?.status).toBe(202);
      await service.gone;
    }
    expect(forge.troubles).toEqual([]);
    expect(forge.comments).toHaveLength("after" in kill && kill.after ? 1 : 0);

    await using service = await startProcess(env);
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
    await nothingLeft(prepared.folder);
  });
});
