import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, temporary, until } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { sandboxesHere } from "../../harness/sandboxes.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What a Task's commands need beside its tree: the project's installed dependencies, and the operator's setup. */

const boxed = (await sandboxesHere()).some(({ tier }) => tier === 1);
const root = temporary("sortie-dependencies-");
const flags = join(root.path, "flags");
mkdirSync(flags);
const turns: Record<string, MockTurn[]> = {};
const open: (() => Promise<void>)[] = [];
let count = 0;
afterAll(async () => {
  for (const close of open.toReversed()) await close();
  root[Symbol.dispose]();
});

let provider: MockProvider | undefined;
const start = async (workspace: object, dataDir: string, sandbox: object = {}): Promise<TestService> => {
  if (provider === undefined) {
    provider = await startMockProvider(({ first, turn }) => {
      const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
      return turns[marker]?.[turn] ?? { text: "Done." };
    });
    open.unshift(async () => {
      await provider?.close();
    });
  }
  const config = join(root.path, `config-${(count += 1)}.jsonc`);
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ providers, workspace, sandbox: { paths: [flags], ...sandbox } }));
  const service = await startService(join(root.path, dataDir), { SERVICE_CONFIG: config });
  open.push(async () => service[Symbol.asyncDispose]());
  return service;
};

const clientOf = (service: TestService, directory: string) => createServiceClient({ baseUrl: service.url, directory });
type Client = ReturnType<typeof clientOf>;
const create = async (client: Client, given: MockTurn[], checks: string[]): Promise<string> => {
  const marker = `d${(count += 1)}`;
  turns[marker] = given;
  const body = { request: `do it [${marker}]`, model: "mock/large", productPillar: "code" as const };
  const { data, error } = await client.task.create({
    body: { ...body, checks: checks.map((run) => ({ kind: "command" as const, run })) },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data.taskID;
};
const settled = async (client: Client, taskID: string) => {
  const { data, error } = await client.task.wait({ path: { taskID }, timeoutMs: 20_000 });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};
const factsOf = async (client: Client, taskID: string) =>
  (await client.task.board({ path: { taskID } })).data?.timeline.map(({ summary }) => summary) ?? [];
const write = (path: string, content: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });
const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });

describe.skipIf(!boxed)("dependency folders of the project, in a sandbox", () => {
  test("npm: the check sees the Task's workspace package through the user's node_modules", async () => {
    const service = await start({}, "npm");
    const directory = makeProject(join(root.path, "npm-project"), {
      ".gitignore": "node_modules\n",
      "packages/lib/index.js": "module.exports = 1\n",
      "packages/lib/package.json": `{"name":"@own/lib","main":"index.js"}`,
    });
    mkdirSync(join(directory, "node_modules/@own"), { recursive: true });
    symlinkSync("../../packages/lib", join(directory, "node_modules/@own/lib"));
    const client = clientOf(service, directory);
    const taskID = await create(
      client,
      [
        shell("node -p 'require(\"@own/lib\")'; touch node_modules/mine"),
        {
          calls: [
            { tool: "read", input: { path: "node_modules/@own/lib/index.js" } },
            { tool: "list", input: { path: "node_modules" } },
            { tool: "search", input: { path: "node_modules/@own", pattern: "exports" } },
            { tool: "read", input: { path: "node_modules.txt" } },
          ],
        },
        write("packages/lib/index.js", "module.exports = 2\n"),
      ],
      [`[ "$(node -p 'require("@own/lib")')" = 2 ]`, "[ ! -e node_modules/mine ]"],
    );
    expect(await settled(client, taskID)).toMatchObject({
      lifecycleStatus: "completed",
      dependencies: [{ path: "node_modules", how: "layer" }],
    });
    expect(readdirSync(join(directory, "node_modules"))).toEqual(["@own"]);
    expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("packages/lib/index.js");
    const { data } = await client.task.messages({ path: { taskID } });
    const outputs = data?.messages.flatMap(({ calls }) => calls.map(({ output }) => output));
    expect(outputs?.[0]).toMatch(
      /^Exit code 0 after .* s\.\n1\n\n\[Commands find the project's node_modules as installed by its user; the file tools do not show it\. Nothing in there becomes part of the change\.\]$/,
    );
    for (const output of outputs?.slice(1, 4) ?? [])
      expect(output).toMatch(/^node_modules is installed, and there for commands alone: look at it with `shell`/);
    expect(outputs?.[4]).toContain("got nothing there");
  });

  test("Python: an editable install with the project's absolute path is the Task's", async () => {
    const service = await start({}, "python");
    const directory = makeProject(join(root.path, "python-project"), {
      ".gitignore": ".venv/\n",
      "src/pkg/__init__.py": "value = 1\n",
    });
    mkdirSync(join(directory, ".venv"));
    writeFileSync(join(directory, ".venv/editable.pth"), `${directory}/src\n`);
    const client = clientOf(service, directory);
    const asked = `python3 -Bc 'import site; site.addsitedir(".venv"); import pkg; assert pkg.value == 2, pkg.value'`;
    const taskID = await create(client, [write("src/pkg/__init__.py", "value = 2\n")], [asked]);
    expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  });
});

describe("workspace.setup", () => {
  test("runs once in a new worktree, before the first command; what it installs is in no commit", async () => {
    const setup = "mkdir vendor && echo dep > vendor/dep";
    const service = await start({ setup }, "once");
    const directory = makeProject(join(root.path, "once-project"), { ".gitignore": "vendor\n", "a.txt": "a\n" });
    const client = clientOf(service, directory);
    const taskID = await create(
      client,
      [write("b.txt", "b\n"), shell("cat vendor/dep; echo more >> vendor/dep"), shell("cat vendor/dep")],
      // The checks have a setup of their own.
      ["grep dep vendor/dep && ! grep more vendor/dep"],
    );
    expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", dependencies: [] });
    const facts = await factsOf(client, taskID);
    expect(facts.filter((fact) => /^Sett?(ing|up)/.test(fact))).toEqual([
      `Setting up the workspace: ${setup}`,
      "Setup passed",
    ]);
    // Not for what needs no command.
    expect(facts.indexOf("write started")).toBeLessThan(facts.indexOf(`Setting up the workspace: ${setup}`));
    expect(git(directory, "show", "--format=", "--name-only", "HEAD")).toBe("b.txt");
    expect(existsSync(join(directory, "vendor"))).toBe(false);
    const taskTwo = await create(client, [write("c.txt", "c\n")], []);
    expect(await settled(client, taskTwo)).toMatchObject({ lifecycleStatus: "completed" });
    expect((await factsOf(client, taskTwo)).filter((fact) => fact.startsWith("Sett"))).toEqual([]);
  });

  test("its failure ends the Task with the log's end and the remedy; a message tries again, from a clean folder", async () => {
    const setup = `mkdir vendor && echo part > vendor/part && echo installing && ls ${flags}/mended`;
    const service = await start({ setup }, "fails");
    const directory = makeProject(join(root.path, "fails-project"), { ".gitignore": "vendor\n", "a.txt": "a\n" });
    const client = clientOf(service, directory);
    const taskID = await create(
      client,
      [shell("echo never"), write("b.txt", "b\n"), shell("cat vendor/part")],
      ["true"],
    );
    const status = await settled(client, taskID);
    expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "setup_failed", retryable: false } });
    expect(status.error).toMatch(
      /^workspace\.setup of the service's configuration failed.*exit 2\.\n\ninstalling\nls: /s,
    );
    expect(status.errorInfo?.remedy).toContain("workspace.setupNetwork");
    const { data } = await client.task.messages({ path: { taskID } });
    const [output] = data?.messages.flatMap(({ calls }) => calls.map((call) => call.output)) ?? [];
    expect(output).toContain("Nothing was run: the workspace could not be set up (exit 2), so the Task ends here.");
    expect(git(directory, "status", "--porcelain")).toBe("");

    writeFileSync(join(flags, "mended"), "");
    await client.task.message({ path: { taskID }, body: { text: "again", source: "test" } });
    expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
    rmSync(join(flags, "mended"));
  });

  test("stopped in the middle it begins anew in a clean folder; finished, it is not repeated after a restart", async () => {
    const setup = `mkdir vendor && touch vendor/started && { [ ! -e ${flags}/slow ] || sleep 60; } && touch vendor/done`;
    writeFileSync(join(flags, "slow"), "");
    const first = await start({ setup }, "stopped");
    const directory = makeProject(join(root.path, "stopped-project"), { ".gitignore": "vendor\n", "a.txt": "a\n" });
    const taskID = await create(
      clientOf(first, directory),
      [shell("ls vendor"), shell("ls vendor")],
      ["ls vendor/done"],
    );
    const started = (facts: string[]) => facts.some((fact) => fact.startsWith("Setting"));
    await until(() => factsOf(clientOf(first, directory), taskID), started);
    await first[Symbol.asyncDispose]();
    rmSync(join(flags, "slow"));
    const second = await start({ setup }, "stopped");
    const client = clientOf(second, directory);
    await settled(client, taskID);
    const facts = (await factsOf(client, taskID)).filter((fact) => fact.startsWith("Set"));
    expect(facts).toEqual([`Setting up the workspace: ${setup}`, `Setting up the workspace: ${setup}`, "Setup passed"]);
    await second[Symbol.asyncDispose]();
    const third = await start({ setup }, "stopped");
    const later = clientOf(third, directory);
    await later.task.message({ path: { taskID }, body: { text: "again", source: "test" } });
    expect(await settled(later, taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
    expect((await factsOf(later, taskID)).filter((fact) => fact.startsWith("Set"))).toEqual(facts);
  });

  test.skipIf(!boxed)("setupNetwork gives the network to the setup alone", async () => {
    const interfaces = "tail -n +3 /proc/net/dev | grep -v '^ *lo:' | wc -l";
    const setup = `mkdir vendor && ${interfaces} > vendor/had`;
    const directory = makeProject(join(root.path, "network-project"), { ".gitignore": "vendor\n", "a.txt": "a\n" });
    const seen = async (setupNetwork: boolean) => {
      const service = await start({ setup, setupNetwork }, `network-${setupNetwork}`);
      const client = clientOf(service, directory);
      const taskID = await create(client, [shell(`cat vendor/had; ${interfaces}`)], []);
      await settled(client, taskID);
      const { data } = await client.task.messages({ path: { taskID } });
      return data?.messages.flatMap(({ calls }) =>
        calls.map(({ output }) => output?.split("\n").slice(1, 3).map(Number)),
      );
    };
    const [[had = 0, has] = []] = (await seen(true)) ?? [];
    expect([had > 0, has]).toEqual([true, 0]);
    expect(await seen(false)).toEqual([[0, 0]]);
  });
});
