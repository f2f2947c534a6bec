import type { IncomingMessage } from "node:http";
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

  const isPush = ({ method, url }: IncomingMessage) => method === "POST" && url?.endsWith("/git-receive-pack") === true;

  // The follow-up of a pull request that is open; and of one that was merged, which removes its branch first.
  test.each([
    ["github", "open", "as the forge takes the new text", { in: "update", after: false }],
    ["gitea", "open", "when the new text is there", { in: "update", after: true }],
    ["gitlab", "open", "as the remote takes the push", { push: 1, after: false }],
    ["github", "merged", "as the remote takes the removal of the merged branch", { push: 1, after: false }],
    ["gitea", "merged", "when the merged branch is removed", { push: 1, after: true }],
    ["gitlab", "merged", "when the next branch is pushed", { push: 2, after: true }],
  ] as const)("%s, the follow-up of one that is %s: %s", async (kind, state, _when, kill) => {
    count += 1;
    const name = `acme/r${count}`;
    const { host } = lab;
    host.make(name, { "a.txt": "a\n" });
    const forge: ForgeDouble = addForge(host, kind);
    const { folder, env } = lab.prepare(`data-${count}`, kind);
    let taskID = "";
    let killed = false;
    {
      await using service = await startProcess(env);
      const body = { request: "add it", productPillar: "code", repository: { url: host.url(name) } };
      taskID = String((await send(service.url, "/task", { method: "POST", body })).body["taskID"]);
      expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ pullRequest: { number: 1 } });
      if (state === "merged") forge.merge(1);
      const die = () => {
        killed = true;
        service.child.kill("SIGKILL");
      };
      if ("in" in kill) forge.troubles.push({ on: kill.in, after: kill.after, run: die });
      let pushes = 0;
      const serveForge = host.before;
      host.before = async (incoming, outgoing) => {
        if ((await serveForge?.(incoming, outgoing)) === true) return true;
        if (!("push" in kill) || killed || !isPush(incoming) || (pushes += 1) < kill.push) return false;
        if (!kill.after) {
          die();
          return true;
        }
        outgoing.writeHead = () => {
          die();
          return outgoing;
        };
        return false;
      };
      const message = { source: "test", text: "again" };
      const said = await send(service.url, `/task/${taskID}/message`, { method: "POST", body: message });
      expect(said.status).toBe(202);
      await service.gone;
    }
    // Control: it died where it was to die.
    expect(killed).toBe(true);
    await using service = await startProcess(env);
    const settled = await settledTask(service.url, taskID, 40_000);
    const number = state === "merged" ? 2 : 1;
    expect(settled, settled.error).toMatchObject({
      lifecycleStatus: "completed",
      attempt: 2,
      pullRequest: { number, state: "open" },
    });
    expect(forge.pulls.map((pull) => pull.state)).toEqual(state === "merged" ? ["merged", "open"] : ["open"]);
    expect(forge.violations).toEqual([]);
    const branch = settled.landingBranch ?? "";
    expect(host.git(name, "rev-parse", branch)).toBe(settled.git.landedCommit);
    expect(host.git(name, "rev-parse", `${branch}^`)).toBe(host.git(name, "rev-parse", "main"));
    expect(host.git(name, "for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n").toSorted()).toEqual(
      ["main", branch].toSorted(),
    );
    const types = (await logOf(service.url, taskID)).map(({ type }) => type);
    expect(types.filter((type) => type === "landing.started")).toHaveLength(2);
    expect(types.filter((type) => type === "landing.finished")).toHaveLength(2);
    await service.kill("SIGTERM");
    await nothingLeft(folder);
  });
});
