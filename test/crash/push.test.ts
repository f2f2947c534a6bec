import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addForge } from "../harness/double/forge/double.ts";
import { canServe } from "../harness/double/git-host.ts";
import { logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { addLfs } from "../harness/double/lfs.ts";
import { git, until } from "../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { nothingLeft, startProcess } from "./process.ts";

/** A push to a repository's remote around which the service dies: neither lost nor done twice. */

describe.runIf(canServe)("killed around a push", { timeout: 90_000 }, () => {
  let lab: RemoteLab;
  let count = 0;
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-push-");
  });
  afterAll(() => lab[Symbol.asyncDispose]());

  /** A hook of the remote that kills the service's process, once. */
  const killer = (bare: string, hook: string): string => {
    const pid = join(lab.root, `pid-${count}`);
    const script = `#!/bin/sh\ntest -e ${pid} && { kill -9 $(cat ${pid}); rm ${pid}; sleep 0.3; }\nexit 0\n`;
    writeFileSync(join(bare, "hooks", hook), script, { mode: 0o755 });
    return pid;
  };

  const cases = [
    ["as the remote takes it, before its branch moves", "pre-receive", "branch"],
    ["as the remote takes it, before its branch moves", "pre-receive", "commit"],
    ["when the branch has moved, before the answer", "post-receive", "branch"],
    ["when the branch has moved, before the answer", "post-receive", "commit"],
    ["before it is sent", "none", "branch"],
    ["before it is sent", "none", "commit"],
  ] as const;

  test.each(cases)("%s (%s), landing as %s", async (_when, hook, landing) => {
    count += 1;
    const name = `r${count}`;
    const { host } = lab;
    const bare = host.make(name, { "a.txt": "a\n" });
    const base = host.git(name, "rev-parse", "main");
    const { folder, env } = lab.prepare(name);
    const pid = hook === "none" ? "" : killer(bare, hook);
    let taskID = "";
    {
      await using service = await startProcess(hook === "none" ? { ...env, TEST_KILL_ON: "landing.started" } : env);
      if (pid !== "") writeFileSync(pid, String(service.child.pid));
      const body = {
        request: "add it",
        productPillar: "code",
        landing,
        repository: { url: host.url(name), ref: "main" },
      };
      const created = await send(service.url, "/task", { method: "POST", body });
      expect(created.status, JSON.stringify(created.body)).toBe(202);
      taskID = String(created.body["taskID"]);
      await service.gone;
    }
    // Control: it died where it was to die, with the landing begun.
    if (pid !== "") expect(existsSync(pid)).toBe(false);
    rmSync(join(bare, "hooks", hook), { force: true });
    const ref = landing === "commit" ? "main" : `sortie/${taskID}`;
    if (hook === "post-receive") expect(host.git(name, "rev-list", "--count", ref)).toBe("2");
    else if (hook === "none") expect(host.git(name, "rev-parse", "main")).toBe(base);

    await using service = await startProcess(env);
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed", landingBranch: ref });
    expect(host.git(name, "rev-list", "--count", ref)).toBe("2");
    expect(host.git(name, "rev-parse", `${ref}^`)).toBe(base);
    expect(host.git(name, "rev-parse", ref)).toBe(settled.git.landedCommit);
    expect(host.git(name, "for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n").toSorted()).toEqual(
      landing === "commit" ? ["main"] : ["main", ref].toSorted(),
    );
    const types = (await logOf(service.url, taskID)).map(({ type }) => type);
    expect(types.filter((type) => type === "landing.started")).toHaveLength(1);
    expect(types.filter((type) => type === "landing.finished")).toHaveLength(1);
    await service.kill("SIGTERM");
    await nothingLeft(folder);
  });

  const others = [
    ["as the remote takes it, before its branch moves", "pre-receive"],
    ["when the branch has moved, before the answer", "post-receive"],
    ["before it is sent", "none"],
  ] as const;

  /** Starts a service that dies around the push of a Task, and another one; resolves to the Task at its end. */
  const killedAround = async (
    name: string,
    hook: (typeof others)[number][1],
    env: Record<string, string>,
    { path, body }: { path: string; body: object },
  ) => {
    const bare = lab.host.git(name, "rev-parse", "--absolute-git-dir");
    const pid = hook === "none" ? "" : killer(bare, hook);
    let taskID = "";
    {
      await using service = await startProcess(hook === "none" ? { ...env, TEST_KILL_ON: "landing.started" } : env);
      if (pid !== "") writeFileSync(pid, String(service.child.pid));
      const whole = { request: "add it", productPillar: "code", ...body };
      const created = await send(service.url, path, { method: "POST", body: whole });
      expect(created.status, JSON.stringify(created.body)).toBe(202);
      taskID = String(created.body["taskID"]);
      await service.gone;
    }
    if (pid !== "") expect(existsSync(pid)).toBe(false);
    rmSync(join(bare, "hooks", hook), { force: true });
    await using service = await startProcess(env);
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
    const types = (await logOf(service.url, taskID)).map(({ type }) => type);
    for (const type of ["landing.started", "landing.finished"] as const)
      expect(types.filter((each) => each === type)).toHaveLength(1);
    return settled;
  };

  test.each(others)("%s (%s), of a clone as a pull request", async (_when, hook) => {
    count += 1;
    const name = `acme/r${count}`;
    const { host } = lab;
    const bare = host.make(name, { "a.txt": "a\n" });
    const forge = addForge(host, "github");
    const clone = join(lab.root, `clone-${count}`);
    git(lab.root, "clone", "-q", bare, clone);
    git(clone, "remote", "set-url", "origin", host.url(name));
    const { env } = lab.prepare(`data-${count}`, "github");
    const task = { path: `/task?directory=${encodeURIComponent(clone)}`, body: { landing: "pull-request" } };
    const settled = await killedAround(name, hook, env, task);
    expect(settled).toMatchObject({ pullRequest: { number: 1, state: "open" } });
    const ref = `sortie/${settled.taskID}`;
    expect(forge.pulls).toMatchObject([{ branch: ref }]);
    expect(host.git(name, "rev-list", "--count", ref)).toBe("2");
    expect(host.git(name, "rev-parse", ref)).toBe(settled.git.landedCommit);
    expect(git(clone, "status", "--porcelain")).toBe("");
  });

  test.each(others)("%s (%s), with large files named again", async (_when, hook) => {
    count += 1;
    const name = `r${count}`;
    const { host } = lab;
    const { pointer } = addLfs(host).put("large");
    host.make(name, { "a.txt": "a\n", ".gitattributes": "*.bin filter=lfs\n", "l.bin": pointer });
    const { env } = lab.prepare(`data-${count}`, undefined, { lfs: true });
    const body = { landing: "commit", repository: { url: host.url(name), ref: "main" } };
    const settled = await killedAround(name, hook, env, { path: "/task", body });
    expect(host.git(name, "rev-list", "--count", "main")).toBe("2");
    expect(host.git(name, "rev-parse", "main")).toBe(settled.git.landedCommit);
    expect(host.git(name, "show", "main:l.bin")).toBe(pointer.trim());
    expect(host.git(name, "diff", "--name-only", "main^", "main")).toBe("new.txt");
  });

  test("the remote is away at the restart: the Task says what it waits for, and goes on", async () => {
    count += 1;
    const name = `r${count}`;
    const { host } = lab;
    host.make(name, { "a.txt": "a\n" });
    const { env } = lab.prepare(name, undefined, { fetchSeconds: 120 });
    let taskID = "";
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "landing.started" });
      const body = { request: "add it", productPillar: "code", repository: { url: host.url(name) } };
      taskID = String((await send(service.url, "/task", { method: "POST", body })).body["taskID"]);
      await service.gone;
    }
    host.before = (_incoming, outgoing) => {
      outgoing.writeHead(503).end();
      return true;
    };
    await using service = await startProcess(env);
    await until(
      async () => (await send(service.url, `/task/${taskID}/status`)).body["now"] as { text: string } | null,
      (now) => now?.text.startsWith(`Waiting for ${host.url(name)}`) ?? false,
      20_000,
    );
    host.before = undefined;
    expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ lifecycleStatus: "completed" });
    expect(host.git(name, "rev-list", "--count", `sortie/${taskID}`)).toBe("2");
  });
});
