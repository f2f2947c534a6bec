import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { createProgram } from "../../../src/cli/main.ts";
import { type RunOptions, runTask } from "../../../src/cli/task/run.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import { canServe, type GitHost, startGitHost } from "../../harness/double/git-host.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** `sortie run --repo`, and the typed client, which sends its directory with everything. */

describe.runIf(canServe)("a repository by address", { timeout: 30_000 }, () => {
  const root = temporary("sortie-repo-");
  let service: TestService;
  let host: GitHost;
  let said = "";
  const screen = () => ({ ...createScreen(process.stdout, true), say: (text: string) => void (said += `${text}\n`) });
  const run = (options: Partial<RunOptions>) => {
    said = "";
    const target = { url: service.url, directory: root.path, username: "service", password: undefined };
    return runTask('replace "one" with "two" in a.txt', { pillar: "code", ...options }, target, screen(), () => {});
  };
  beforeAll(async () => {
    host = await startGitHost(root.path, null);
    const config = join(root.path, "config.jsonc");
    writeFileSync(config, JSON.stringify({ repositories: { allow: [`http://127.0.0.1:${host.port}/*`] } }));
    service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
    host.make("app", { "a.txt": "one\n" });
  });
  afterAll(async () => {
    await service[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
    root[Symbol.dispose]();
  });

  test("run names it, follows the Task, and says which branch has the result", async () => {
    expect(await run({ repo: host.url("app") })).toBe(0);
    expect(said).toContain(`in ${host.url("app")}`);
    const taskID = /task_\w+/.exec(said)?.[0] ?? "";
    expect(said).toContain(`sortie/${taskID}`);
    expect(host.git("app", "show", `sortie/${taskID}:a.txt`)).toBe("two");
    expect(host.git("app", "show", "main:a.txt")).toBe("one");
  });

  test("onto a branch that is named", async () => {
    host.git("app", "branch", "next", "main");
    expect(await run({ repo: host.url("app"), ref: "next", landing: "commit" })).toBe(0);
    expect(host.git("app", "show", "next:a.txt")).toBe("two");
    expect(host.git("app", "show", "main:a.txt")).toBe("one");
  });

  test("its Tasks are listed and named by --repo; control: the folder has none", async () => {
    let ended: number | undefined;
    const folder = makeProject(join(root.path, "folder"), { "a.txt": "one\n" });
    const sortie = async (...args: string[]): Promise<string> => {
      const lines: string[] = [];
      const write = vi.spyOn(process.stdout, "write").mockImplementation((text) => {
        lines.push(String(text));
        return true;
      });
      try {
        await createProgram((code) => void (ended = code)).parseAsync(
          ["task", ...args, "--url", service.url, "-C", folder],
          { from: "user" },
        );
      } finally {
        write.mockRestore();
      }
      return lines.join("");
    };
    expect(await sortie("ls", "--repo", host.url("app"))).toMatch(/task_\w+ +completed/);
    expect(await sortie("diff", "@last", "--repo", host.url("app"))).toContain("+two");
    expect(ended).toBe(0);
    expect(await sortie("ls")).toContain("No Tasks in this project yet.");
  });

  test("--ref without --repo, and an address that is not allowed, are wrong values", async () => {
    await expect(run({ ref: "main" })).rejects.toMatchObject({ exitCode: 2 });
    await expect(run({ repo: "https://elsewhere.example/x" })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining("repositories.allow"),
    });
  });

  test("a client with a directory of its own names a repository instead", async () => {
    const client = createServiceClient({ baseUrl: service.url, directory: root.path, throwOnError: true });
    const { data: made } = await client.task.create({
      body: { request: "list TODOs", productPillar: "code", repository: { url: host.url("app") } },
    });
    expect(made?.repository).toEqual({ url: host.url("app"), ref: null });
    const { data: ended } = await client.task.wait({ path: { taskID: made?.taskID ?? "" }, timeoutMs: 15_000 });
    expect(ended?.lifecycleStatus).toBe("completed");
    const { data: listed } = await client.task.list({ query: { repository: host.url("app") } });
    expect(listed?.map(({ taskID }) => taskID)).toContain(made?.taskID);
  });
});
