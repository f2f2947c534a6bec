import { writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { canServe } from "../../harness/double/git-host.ts";
import { logOf, send, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import { until } from "../../harness/project.ts";
import { makeRemoteLab, type RemoteLab } from "../../harness/remote-lab.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Remotes that are slow, silent, broken in the middle of a push, or changed by others meanwhile. */

describe.runIf(canServe)("a remote in trouble", { timeout: 60_000 }, () => {
  let lab: RemoteLab;
  let service: TestService;
  let count = 0;
  /** What happens once, as an agent begins to work. */
  let meanwhile: (() => void) | undefined;
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-trouble-", () => {
      meanwhile?.();
      meanwhile = undefined;
      return undefined;
    });
    const { folder, env } = lab.prepare("data", undefined, { fetchSeconds: 3 });
    service = await startService(folder, env);
  });
  afterEach(() => {
    lab.host.before = undefined;
    meanwhile = undefined;
  });
  afterAll(async () => {
    await service.close();
    await lab[Symbol.asyncDispose]();
  });

  const make = () => {
    const name = `t${(count += 1)}`;
    const bare = lab.host.make(name, { "a.txt": "a\n" });
    const git = (...args: string[]) => lab.host.git(name, ...args);
    return { name, bare, git };
  };
  const create = async (name: string, more: object = {}, ref?: string): Promise<string> => {
    const repository = { url: lab.host.url(name), ...(ref === undefined ? {} : { ref }) };
    const body = { request: "add it", productPillar: "code", repository, ...more };
    const answer = await send(service.url, "/task", { method: "POST", body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return String(answer.body["taskID"]);
  };
  const say = async (taskID: string) => {
    const body = { source: "t", text: "again" };
    const answer = await send(service.url, `/task/${taskID}/message`, { method: "POST", body });
    expect(answer.status).toBe(202);
    return settledTask(service.url, taskID, 30_000);
  };
  const countOf = async (taskID: string, wanted: string) =>
    (await logOf(service.url, taskID)).filter(({ type }) => type === wanted).length;
  const isPush = (method: string | undefined, url: string | undefined) =>
    method === "POST" && url?.endsWith("/git-receive-pack") === true;

  test("one that answers slowly is served like any other", async () => {
    const { name, git } = make();
    lab.host.before = () => new Promise((resolve) => setTimeout(() => resolve(false), 250));
    const taskID = await create(name);
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(git("rev-list", "--count", `sortie/${taskID}`)).toBe("2");
  });

  // What the remote does with a push before it is heard of no more.
  const breaks: [string, (outgoing: ServerResponse) => boolean][] = [
    [
      "carried out and answered with 502",
      (outgoing) => {
        const head = outgoing.writeHead.bind(outgoing);
        outgoing.writeHead = () => head(502);
        outgoing.write = () => true;
        return false;
      },
    ],
    [
      "carried out, and the connection cut before the answer",
      (outgoing) => {
        outgoing.writeHead = () => outgoing;
        outgoing.write = () => true;
        outgoing.end = () => outgoing.destroy();
        return false;
      },
    ],
    [
      "not carried out and answered with 503",
      (outgoing) => {
        outgoing.writeHead(503).end();
        return true;
      },
    ],
    ["never answered", () => true],
  ];
  test.each(breaks.flatMap(([what, act]) => (["branch", "commit"] as const).map((as) => [what, as, act] as const)))(
    "a push that is %s (%s) is there once",
    async (_what, landing, act) => {
      const { name, git } = make();
      let broken = 0;
      lab.host.before = (incoming, outgoing) => {
        if (!isPush(incoming.method, incoming.url) || broken > 0) return false;
        broken += 1;
        return act(outgoing);
      };
      const taskID = await create(name, { landing }, "main");
      const settled = await settledTask(service.url, taskID, 40_000);
      expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
      // Control: a push was broken.
      expect(broken).toBe(1);
      const ref = landing === "commit" ? "main" : `sortie/${taskID}`;
      expect(git("rev-list", "--count", ref)).toBe("2");
      expect(git("rev-parse", ref)).toBe(settled.git.landedCommit);
      expect(await countOf(taskID, "landing.started")).toBe(1);
      expect(await countOf(taskID, "landing.finished")).toBe(1);
    },
  );

  test("a remote that is silent from the push on: the Task says what it waits for, and lands once it answers", async () => {
    const { name, git } = make();
    let silent = false;
    lab.host.before = (incoming) => {
      silent ||= isPush(incoming.method, incoming.url);
      return silent;
    };
    const taskID = await create(name);
    await until(
      () => statusOf(service.url, taskID),
      ({ now }) => now?.text.startsWith(`Waiting for ${lab.host.url(name)}`) ?? false,
      20_000,
    );
    lab.host.before = undefined;
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(git("rev-list", "--count", `sortie/${taskID}`)).toBe("2");
  });

  test("a branch that is protected stays as it is: the host's words are the Task's, and a message tries again", async () => {
    const { name, bare, git } = make();
    const hook = join(bare, "hooks/update");
    const words = "GH006: Protected branch update failed for refs/heads/main.";
    writeFileSync(hook, `#!/bin/sh\ntest "$1" = refs/heads/main || exit 0\necho '${words}' >&2\nexit 1\n`, {
      mode: 0o755,
    });
    const before = git("rev-parse", "main");
    const taskID = await create(name, { landing: "commit" }, "main");
    const settled = await settledTask(service.url, taskID);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_refused" } });
    expect(settled.error).toContain(words);
    expect(git("rev-parse", "main")).toBe(before);
    // Control: it was the protection.
    writeFileSync(hook, "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    expect(await say(taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(git("rev-parse", "main^")).toBe(before);
  });

  test("a branch that was deleted while the work went on is not made anew: the work stays in the archive", async () => {
    const { name, git } = make();
    git("branch", "next", "main");
    meanwhile = () => git("branch", "-D", "next");
    const taskID = await create(name, { landing: "commit" }, "next");
    const settled = await settledTask(service.url, taskID);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "repository_unavailable" } });
    expect(settled.error).toContain('"next"');
    expect(git("for-each-ref", "--format=%(refname:short)", "refs/heads")).toBe("main");
    // Once it is there again, a message lands.
    git("branch", "next", "main");
    expect(await say(taskID)).toMatchObject({ lifecycleStatus: "completed", landingBranch: "next" });
  });

  test("a branch whose history was rewritten meanwhile gets the change on its new end, and nothing of the old", async () => {
    const { name, git } = make();
    lab.host.commit(name, "main", { "a.txt": "b\n" });
    const parent = git("rev-parse", "main^");
    let rewritten = "";
    meanwhile = () => {
      git("update-ref", "refs/heads/main", parent);
      rewritten = lab.host.commit(name, "main", { "c.txt": "c\n" });
    };
    const taskID = await create(name, { landing: "commit" }, "main");
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(git("rev-parse", "main^")).toBe(rewritten);
    expect(git("rev-list", "--count", "main")).toBe("3");
    expect(git("diff", "--name-only", "main^..main")).toBe("new.txt");
  });

  test("the Task's own branch: rewritten by others it is left alone; deleted, it is there again with the follow-up", async () => {
    const { name, git } = make();
    const taskID = await create(name);
    await settledTask(service.url, taskID);
    const branch = `sortie/${taskID}`;
    git("update-ref", `refs/heads/${branch}`, git("rev-parse", "main"));
    const refused = await say(taskID);
    expect(refused).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_refused" } });
    expect(refused.error).toContain("was changed by somebody else");
    expect(git("rev-parse", branch)).toBe(git("rev-parse", "main"));
    git("update-ref", "-d", `refs/heads/${branch}`);
    const again = await say(taskID);
    expect(again, again.error).toMatchObject({ lifecycleStatus: "completed", landingBranch: branch });
    expect(git("rev-parse", branch)).toBe(again.git.landedCommit);
    expect(git("rev-parse", `${branch}^`)).toBe(git("rev-parse", "main"));
  });
});
