import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canServe } from "../../harness/double/git-host.ts";
import { logOf, send, settledTask } from "../../harness/double/hostile-text.ts";
import { type MockRequest, textOf } from "../../harness/double/mock-provider.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { makeRemoteLab, type RemoteLab } from "../../harness/remote-lab.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What a repository says to its agents counts as in a directory: AGENTS.md, skills, rules and squads, of the ref. */

const skill = "---\nname: release\ndescription: How releases are made here.\n---\n\nTag, then push.\n";
const own = Object.fromEntries(
  Object.entries(teamOf("own", { orchestrator: ["read, write, shell"] })).map(([path, text]) => [
    `.sortie/squads/${path}`,
    text,
  ]),
);

describe.runIf(canServe)("a repository by address", { timeout: 60_000 }, () => {
  let lab: RemoteLab;
  let service: TestService;
  let asked: MockRequest[] = [];
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-own-texts-", (request) => {
      asked.push(request);
      return request.turn === 0
        ? { calls: [{ tool: "write", input: { path: "locked.txt", content: "mine\n" } }] }
        : request.turn === 1
          ? { calls: [{ tool: "write", input: { path: "open.txt", content: "mine\n" } }] }
          : { text: "Done.\n\nCommit: Add a file" };
    });
    const { folder, env } = lab.prepare("data", undefined, { fetchSeconds: 5 });
    service = await startService(folder, env);
  });
  afterAll(async () => {
    await service.close();
    await lab[Symbol.asyncDispose]();
  });

  const create = (name: string, more: object) => {
    asked = [];
    const body = { request: "Add a file.", productPillar: "code", repository: { url: lab.host.url(name) }, ...more };
    return send(service.url, "/task", { method: "POST", body });
  };
  const read = () => JSON.stringify(asked[0]?.body.messages.map(({ content }) => textOf(content)));

  test("its AGENTS.md, skills, rules and a squad of its own hold, of the ref that is named", async () => {
    lab.host.make("whole", {
      "AGENTS.md": "Use tabs, as our elders did.\n",
      ".agents/skills/release/SKILL.md": skill,
      ".sortie/permissions.jsonc": '{ "deny": ["write(locked.txt)"] }\n',
      ...own,
    });
    const bare = lab.host.git(
      "whole",
      "-c",
      "user.name=A",
      "-c",
      "user.email=a@b",
      "commit-tree",
      "-m",
      "x",
      "main:.agents",
    );
    lab.host.git("whole", "branch", "bare", bare);
    const repository = { url: lab.host.url("whole"), ref: "main" };
    // The first Task of it that this service ever has: the squad is found by the fetch that its name asks for.
    const created = await create("whole", { repository, promptProfile: "own" });
    expect(created.status, JSON.stringify(created.body)).toBe(202);
    const taskID = String(created.body["taskID"]);
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({
      lifecycleStatus: "completed",
      squad: { id: "own", scope: "project" },
    });
    expect(read()).toContain("You are the orchestrator.");
    expect(read()).toContain("Use tabs, as our elders did.");
    expect(read()).toContain("How releases are made here.");
    expect(await logOf(service.url, taskID)).toContainEqual(
      expect.objectContaining({
        type: "permission.decided",
        data: expect.objectContaining({ decision: "deny", origin: "project", subject: "locked.txt" }),
      }),
    );
    expect(lab.host.git("whole", "diff", "--name-only", "main", `sortie/${taskID}`)).toBe("open.txt");
    const squads = await send(service.url, `/squads?repository=${encodeURIComponent(repository.url)}`);
    expect(squads.status).toBe(200);
  });

  test("control: of a ref without them none holds", async () => {
    const created = await create("whole", { repository: { url: lab.host.url("whole"), ref: "bare" } });
    const taskID = String(created.body["taskID"]);
    const settled = await settledTask(service.url, taskID, 40_000);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed", squad: { scope: "builtin" } });
    expect(read()).not.toContain("Use tabs, as our elders did.");
    expect(read()).not.toContain("How releases are made here.");
    const changed = lab.host.git("whole", "diff", "--name-only", "bare", `sortie/${taskID}`);
    expect(changed.split("\n")).toEqual(["locked.txt", "open.txt"]);
    const refused = await create("whole", {
      repository: { url: lab.host.url("whole"), ref: "bare" },
      promptProfile: "own",
    });
    expect(refused).toMatchObject({ status: 422, body: { code: "squad_not_available" } });
    expect(String(refused.body["message"])).not.toContain("could not be fetched");
  });

  test("another service, which has fetched nothing, lists and shows it, too", async () => {
    const { folder, env } = lab.prepare("fresh", undefined, { fetchSeconds: 5 });
    await using fresh = await startService(folder, env);
    const of = (name: string) => `repository=${encodeURIComponent(lab.host.url(name))}`;
    const ids = async (path: string, key: string) => {
      const { status, body } = await send(fresh.url, path);
      return { status, body, ids: ((body[key] ?? []) as { id: string }[]).map(({ id }) => id) };
    };
    expect(await ids(`/squads?${of("whole")}`, "squads")).toMatchObject({
      status: 200,
      body: { complete: true },
      ids: expect.arrayContaining(["own", "base"]) as string[],
    });
    expect(await send(fresh.url, `/squad/own?${of("whole")}`)).toMatchObject({ status: 200, body: { id: "own" } });
    // Control: one that cannot be fetched has what every project has, and says what it lacks.
    const nowhere = await ids(`/squads?${of("nowhere")}`, "squads");
    expect(nowhere).toMatchObject({ status: 200, body: { complete: false, healthy: false } });
    expect(nowhere.ids).toContain("base");
    expect(nowhere.body["issues"]).toMatchObject([{ scope: "project", code: "not_fetched" }]);
    expect((await send(fresh.url, `/squad/own?${of("nowhere")}`)).status).toBe(404);
  });

  test("a Mission that names it is not refused by a service that has fetched nothing", async () => {
    const { folder, env } = lab.prepare("fresh-mission", undefined, { fetchSeconds: 5 });
    await using fresh = await startService(folder, env);
    const wake = (squads: string[], missionID: string) =>
      send(fresh.url, "/mission/wake", {
        method: "POST",
        body: { missionID, text: "Look.", squads, repository: { url: lab.host.url("whole") } },
      });
    expect(await wake(["nobodys"], "m-0")).toMatchObject({ status: 422, body: { code: "squad_not_available" } });
    expect((await wake(["own"], "m-1")).status).toBe(200);
  });

  test("a squad that cannot be looked for is refused with why", async () => {
    const refused = await create("nowhere", { promptProfile: "own" });
    expect(refused).toMatchObject({ status: 422, body: { code: "squad_not_available" } });
    expect(String(refused.body["message"])).toContain("could not be fetched to look for it there");
  });
});
