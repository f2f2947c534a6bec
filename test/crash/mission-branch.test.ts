import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { MissionStatus } from "../../src/protocol/mission/status.ts";
import { addForge, type ForgeDouble } from "../harness/double/forge/double.ts";
import { canServe } from "../harness/double/git-host.ts";
import { send } from "../harness/double/hostile-text.ts";
import { dispatch, finish, type MissionEvent, plan } from "../harness/double/missions.ts";
import type { MockRequest, MockTurn } from "../harness/double/mock-provider.ts";
import { until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { nothingLeft, type ServiceProcess, startProcess } from "./process.ts";

/** The branch of a Mission of a repository, and its pull request: made once, whenever the service dies. */

const said: MockTurn[] = [{ calls: [plan("a")] }, { calls: [dispatch("a", "Add new.txt.")] }, { calls: [finish()] }];
const ofMission = ({ body, turn }: MockRequest): MockTurn | undefined =>
  JSON.stringify(body.messages[0]).includes("You lead one Mission") ? (said[turn] ?? { text: "Done." }) : undefined;

describe.runIf(canServe)("killed around what a Mission does to its repository", { timeout: 90_000 }, () => {
  let lab: RemoteLab;
  let count = 0;
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-mission-branch-", ofMission);
  });
  afterAll(() => lab[Symbol.asyncDispose]());

  const cases = [
    ["when its branch is made, before the answer", { hook: true }],
    ["when the Task is dispatched", { on: "task.dispatched" }],
    ["when it is done, before the forge is asked", { on: "mission.finished" }],
    ["as the forge takes its pull request, before it is open", { after: false }],
    ["when its pull request is open, before the answer", { after: true }],
    ["when its pull request is on record", { on: "mission.proposed" }],
  ] as const;

  test.each(cases)("%s", async (_when, kill) => {
    count += 1;
    const name = `acme/m${count}`;
    const bare = lab.host.make(name, { "a.txt": "a\n" });
    const forge: ForgeDouble = addForge(lab.host, "gitea");
    const { folder, env } = lab.prepare(`data-${count}`, "gitea");
    const url = lab.host.url(name);
    const pid = join(lab.root, `pid-${count}`);
    const hook = join(bare, "hooks/post-receive");
    if ("hook" in kill)
      writeFileSync(hook, `#!/bin/sh\ntest -e ${pid} && { kill -9 $(cat ${pid}); rm ${pid}; sleep 0.3; }\nexit 0\n`, {
        mode: 0o755,
      });
    let missionID = "";
    {
      let first: ServiceProcess | undefined;
      if ("after" in kill) forge.troubles.push({ on: "open", after: kill.after, run: () => first?.kill("SIGKILL") });
      await using service = await startProcess("on" in kill ? { ...env, TEST_KILL_ON: kill.on } : env);
      first = service;
      if ("hook" in kill) writeFileSync(pid, String(service.child.pid));
      const woken = await send(service.url, "/mission/wake", {
        method: "POST",
        body: { text: "Add it.", checks: [], repository: { url } },
      });
      expect(woken.status, JSON.stringify(woken.body)).toBe(200);
      missionID = String(woken.body["missionID"]);
      await service.gone;
    }
    // Control: it died where it was to die.
    expect([existsSync(pid), forge.troubles]).toEqual([false, []]);
    expect(forge.pulls).toHaveLength(
      ("after" in kill && kill.after) || ("on" in kill && kill.on === "mission.proposed") ? 1 : 0,
    );
    rmSync(hook, { force: true });

    await using service = await startProcess(env);
    const at = `?repository=${encodeURIComponent(url)}`;
    const mission = await until(
      async () => (await send(service.url, `/mission/${missionID}/status${at}`)).body as unknown as MissionStatus,
      ({ agentStatus, status, finished, pullRequest, error }) =>
        error !== undefined ||
        (agentStatus === "inactive" && status === "inactive" && finished !== null && pullRequest !== null),
      40_000,
    );
    expect(mission, mission.error).toMatchObject({ pullRequest: { number: 1, state: "open" } });
    const branch = mission.landingBranch ?? "";
    expect(forge.pulls).toMatchObject([{ branch, base: "main" }]);
    expect(forge.violations).toEqual([]);
    expect(mission.tasks).toHaveLength(1);
    expect(lab.host.git(name, "rev-list", "--count", `main..${branch}`)).toBe("1");
    const branches = lab.host.git(name, "for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n");
    expect(branches.toSorted()).toEqual(["main", branch]);
    const { body } = await send(service.url, `/mission/${missionID}/events${at}&format=json&limit=1000`);
    const types = (body["events"] as MissionEvent[]).map(({ type }) => type);
    for (const type of ["task.dispatched", "mission.finished", "mission.proposed"])
      expect([type, types.filter((each) => each === type).length]).toEqual([type, 1]);
    await service.kill("SIGTERM");
    await nothingLeft(folder);
  });
});
