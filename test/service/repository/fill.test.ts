import { afterEach, describe, expect, test } from "vitest";
import { canServe } from "../../harness/double/git-host.ts";
import { expectLandedChecked, logOf, send, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { addLfs } from "../../harness/double/lfs.ts";
import { nameSubmodule } from "../../harness/fill-lab.ts";
import { openForgeLab } from "../../harness/forge-lab.ts";

/** Tasks of repositories with submodules and large files: they have the files, and what they push has the names. */

describe.runIf(canServe)("submodules and large files of a Task", { timeout: 60_000 }, () => {
  let scope = new AsyncDisposableStack();
  afterEach(async () => {
    await scope.disposeAsync();
    scope = new AsyncDisposableStack();
  });

  const open = async () => {
    const place = await openForgeLab(scope, "gitea", { lfs: true, submodules: "same-host", fetchSeconds: 20 });
    const { host, service, lab } = place;
    const lfs = addLfs(host);
    const { pointer } = lfs.put("large\n");
    host.make("acme/lib", { "lib.txt": "lib\n" });
    host.make("acme/big", { "a.txt": "one\n", ".gitattributes": "*.bin filter=lfs -text\n", "l.bin": pointer });
    const lib = host.git("acme/lib", "rev-parse", "main");
    nameSubmodule(host, "acme/big", { url: "../lib.git", commit: lib });
    const create = async (turns: Parameters<typeof lab.request>[0], more: object = {}) => {
      const body = { productPillar: "code", ...lab.request(turns), repository: { url: host.url("acme/big") }, ...more };
      const answer = await send(service.url, "/task", { method: "POST", body });
      expect(answer.status, JSON.stringify(answer.body)).toBe(202);
      return String(answer.body["taskID"]);
    };
    const said = () => JSON.stringify(lab.provider.requests.at(-1)?.body.messages ?? []);
    return { ...place, lfs, pointer, lib, create, said, git: (...args: string[]) => host.git("acme/big", ...args) };
  };
  const done = { text: "Done.\n\nCommit: Add what is there" };

  test("a pull request of what the Task changed alone; a follow-up, and one after the merge", async () => {
    const { create, forge, git, service, lib, pointer } = await open();
    const main = git("rev-parse", "main");
    const turns = [
      shell("cat l.bin lib/lib.txt > seen.txt"),
      done,
      shell("echo three > c.txt"),
      done,
      shell("cat c.txt l.bin > d.txt"),
      done,
    ];
    const taskID = await create(turns, { checks: ["grep -q large l.bin", "test -f lib/lib.txt"] });
    const settled = await settledTask(service.url, taskID);
    const branch = `sortie/${taskID}`;
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      repository: { baseCommit: main },
      pullRequest: { number: 1 },
      git: { landedCommit: git("rev-parse", branch) },
    });
    const whole = () => ({
      parent: git("rev-parse", `${branch}^`),
      changed: git("diff", "--name-only", `${branch}^`, branch),
      pointer: git("show", `${branch}:l.bin`),
      lib: git("rev-parse", `${branch}:lib`),
    });
    expect(git("show", `${branch}:seen.txt`)).toBe("large\nlib");
    expect(whole()).toEqual({ parent: main, changed: "seen.txt", pointer: pointer.trim(), lib });
    const say = async () => {
      const body = { source: "t", text: "again" };
      await send(service.url, `/task/${taskID}/message`, { method: "POST", body });
      return settledTask(service.url, taskID);
    };
    expect(await say()).toMatchObject({ lifecycleStatus: "completed", pullRequest: { number: 1 } });
    expect(whole()).toEqual({ parent: main, changed: "c.txt\nseen.txt", pointer: pointer.trim(), lib });
    forge.merge(1);
    const merged = git("rev-parse", "main");
    expect(await say()).toMatchObject({ pullRequest: { number: 2 }, repository: { baseCommit: merged } });
    expect(whole()).toMatchObject({ parent: merged, changed: "d.txt" });
    expectLandedChecked(await logOf(service.url, taskID));
  });

  test("onto the branch itself, rebased where others were quicker and the submodule moved on", async () => {
    const { create, host, git, service, pointer, lab } = await open();
    let moved = "";
    const turns = [shell("echo two > b.txt"), done];
    const taskID = await create(turns, { landing: "commit", checks: ["test -f b.txt && sleep 1"] });
    // While it works.
    await expect.poll(() => lab.provider.requests.length, { timeout: 15_000 }).toBeGreaterThan(0);
    moved = host.commit("acme/lib", "main", { "more.txt": "more\n" });
    nameSubmodule(host, "acme/big", { url: "../lib.git", commit: moved });
    const theirs = git("rev-parse", "main");
    const settled = await settledTask(service.url, taskID);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({ lifecycleStatus: "completed" });
    expect(git("rev-parse", "main^")).toBe(theirs);
    expect(git("diff", "--name-only", "main^", "main")).toBe("b.txt");
    expect(git("rev-parse", "main:lib")).toBe(moved);
    expect(git("show", "main:l.bin")).toBe(pointer.trim());

    const revert = await send(service.url, `/task/${taskID}/revert`, { method: "POST", body: {} });
    expect(revert.status, JSON.stringify(revert.body)).toBe(202);
    const back = await settledTask(service.url, String(revert.body["taskID"]));
    expect(back, JSON.stringify(back.errorInfo)).toMatchObject({ lifecycleStatus: "completed" });
    expect(git("rev-parse", "main^{tree}")).toBe(git("rev-parse", `${theirs}^{tree}`));
  });

  test("a change of either is told to the agent, as of a rule, and lands once it is taken back", async () => {
    const { create, git, service, said } = await open();
    const change = shell("echo x >> l.bin; echo x > new.bin; echo x > lib/x.txt; echo two > b.txt");
    const back = shell("printf 'large\\n' > l.bin; rm new.bin lib/x.txt");
    const taskID = await create([change, done, back, done]);
    const settled = await settledTask(service.url, taskID);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({ lifecycleStatus: "completed" });
    expect(said()).toContain("a repository of its own, a rule of the service");
    const denied = (await logOf(service.url, taskID)).find(({ type }) => type === "change.denied");
    expect(denied?.data).toMatchObject({ files: [{ path: "lib/x.txt" }, { path: "l.bin" }, { path: "new.bin" }] });
    expect(git("diff", "--name-only", "main", `sortie/${taskID}`)).toBe("b.txt");
  });

  test("one that insists fails, and nothing of it is pushed", async () => {
    const { create, git, service } = await open();
    const taskID = await create([shell("echo x > lib/x.txt"), ...Array.from({ length: 8 }, () => done)]);
    expect(await settledTask(service.url, taskID)).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "change_denied" },
    });
    expect(git("for-each-ref", "--format=%(refname:short)", "refs/heads")).toBe("main");
  });
});
