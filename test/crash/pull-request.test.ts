import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addForge, type ForgeDouble, type Kind } from "../harness/double/forge/double.ts";
import { canServe } from "../harness/double/git-host.ts";
import { logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { nothingLeft, type ServiceProcess, startProcess } from "./process.ts";

/** A pull request around whose opening the service dies: neither forgotten nor opened twice. */

describe.runIf(canServe)("killed around the opening of a pull request", { timeout: 90_000 }, () => {
  let lab: RemoteLab;
  let count = 0;
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-propose-");
  });
  afterAll(() => lab[Symbol.asyncDispose]());

  const kinds: readonly Kind[] = ["github", "gitea", "gitlab"];
  const cases = [
    ["when the branch is pushed, before the forge is asked", { on: "landing.finished" }],
    ["as the forge takes it, before it is opened", { in: "open", after: false }],
    ["when it is open, before the answer", { in: "open", after: true }],
    ["when it is on record", { on: "landing.proposed" }],
  ] as const;

  test.each(cases.flatMap(([when, kill], at) => [[kinds[at % 3] ?? "github", when, kill] as const]))(
    "%s: %s",
    async (kind, _when, kill) => {
      count += 1;
      const name = `acme/r${count}`;
      const { host } = lab;
      host.make(name, { "a.txt": "a\n" });
      const forge: ForgeDouble = addForge(host, kind);
      const { folder, env } = lab.prepare(`data-${count}`, kind);
      let taskID = "";
      {
        let first: ServiceProcess | undefined;
        if ("in" in kill) forge.troubles.push({ on: kill.in, after: kill.after, run: () => first?.kill("SIGKILL") });
        await using service = await startProcess("on" in kill ? { ...env, TEST_KILL_ON: kill.on } : env);
        first = service;
        const body = { request: "add it", productPillar: "code", repository: { url: host.url(name) } };
        const created = await send(service.url, "/task", { method: "POST", body });
        expect(created.body, JSON.stringify(created.body)).toMatchObject({ landing: "pull-request" });
        taskID = String(created.body["taskID"]);
        await service.gone;
      }
      // Control: it died where it was to die.
      expect(forge.troubles).toEqual([]);
      const there = "on" in kill ? kill.on === "landing.proposed" : kill.after;
      expect(forge.pulls).toHaveLength(there ? 1 : 0);

      await using service = await startProcess(env);
      const settled = await settledTask(service.url, taskID, 40_000);
      expect(settled, settled.error).toMatchObject({
        lifecycleStatus: "completed",
        pullRequest: { number: 1, state: "open" },
      });
      expect(forge.pulls).toMatchObject([{ branch: `sortie/${taskID}`, title: "Add new.txt" }]);
      expect(forge.violations).toEqual([]);
      const types = (await logOf(service.url, taskID)).map(({ type }) => type);
      for (const type of ["landing.started", "landing.finished", "landing.proposed"])
        expect([type, types.filter((each) => each === type).length]).toEqual([type, 1]);
      await service.kill("SIGTERM");
      await nothingLeft(folder);
    },
  );
});
