import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { git, makeProject, readText, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** `deny write(…)` rules, held against what is to land: whatever tool, command or move changed a file. */

const root = temporary("sortie-denied-");
const scripts: Record<string, MockTurn[]> = {};
/** The messages that a model got, by marker. */
const heard: Record<string, string[]> = {};
let provider: MockProvider;
let service: TestService;
let count = 0;

beforeAll(async () => {
  provider = await startMockProvider(({ first, turn, body }) => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    heard[marker] = body.messages.filter(({ role }) => role === "user").map(({ content }) => textOf(content));
    return scripts[marker]?.[turn] ?? { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  const permissions = { deny: ["write(migrations/)", "write(/VERSION)"] };
  writeFileSync(config, JSON.stringify({ providers, permissions }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const files = {
  "migrations/1.sql": "select 1;\n",
  "migrations/run.sh": "#!/bin/sh\n",
  VERSION: "1\n",
  "src/a.txt": "one\n",
  "lib/locked.txt": "locked\n",
  ".sortie/permissions.jsonc": '{ "deny": ["write(locked.txt)"] }',
};
const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });

const work = async (turns: MockTurn[], body: object = {}, folder = "") => {
  const marker = `d${(count += 1)}`;
  scripts[marker] = turns;
  const top = makeProject(join(root.path, marker), files);
  git(top, "update-index", "--chmod=+x", "migrations/run.sh");
  git(top, "commit", "-q", "--amend", "--no-edit");
  git(top, "checkout", "-q", "--", ".");
  const directory = join(top, folder);
  const client = createServiceClient({ baseUrl: service.url, directory });
  const request = `do it [${marker}]`;
  const { data } = await client.task.create({
    body: { productPillar: "code", request, model: "mock/large", ...body },
    throwOnError: true,
  });
  const { taskID } = data;
  const status = async () => {
    const { data, error } = await client.task.wait({ path: { taskID }, timeoutMs: 20_000 });
    if (data === undefined) throw new Error(JSON.stringify(error));
    return data;
  };
  const first = await status();
  const page = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0&limit=1000`);
  const { events } = (await page.json()) as { events: Frame[] };
  const denied = events.flatMap((event) => (event.type === "change.denied" ? [event.data] : []));
  return { top, client, taskID, first, again: status, denied, told: () => (heard[marker] ?? []).slice(1), marker };
};
const named = (denied: readonly EventData["change.denied"][]) =>
  denied.map((each) => each.files.map(({ path, rule, origin }) => `${path}: ${rule}, ${origin}`));
const undo = (base: string, path: string) => `git diff --binary ${base} -- '${path}' | git apply -R`;

describe("a change that a rule denies", () => {
  test("goes back with its paths and rules; taken back as the message says, the rest lands", async () => {
    const done = await work([
      shell("echo more >> migrations/1.sql; echo two >> src/a.txt; echo new > migrations/2.sql"),
      { text: "Finished." },
      // What the message gives as the way back, run as it stands there.
      shell(
        `${undo("$(git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)", "migrations/1.sql")}; rm migrations/2.sql`,
      ),
      { text: "Without the migrations." },
    ]);
    expect(done.first).toMatchObject({ lifecycleStatus: "completed" });
    expect(named(done.denied)).toEqual([
      ["migrations/1.sql: write(migrations/), operator", "migrations/2.sql: write(migrations/), operator"],
    ]);
    const [message = ""] = done.told();
    expect(message).toContain("(round 1 of 3)");
    expect(message).toContain("- migrations/1.sql: write(migrations/), a rule of the operator\n- migrations/2.sql: ");
    expect(message).toContain(undo(git(done.top, "rev-parse", "HEAD~1"), "migrations/1.sql"));
    expect(git(done.top, "diff", "--name-only", "HEAD~1", "HEAD")).toBe("src/a.txt");
    expect(readText(done.top, "src/a.txt")).toBe("one\ntwo\n");
  });

  test("that stays fails the Task after its rounds; nothing lands, and a message goes on", async () => {
    const done = await work([
      shell("echo more >> migrations/1.sql; echo two >> src/a.txt"),
      { text: "Finished." },
      { text: "I leave it." },
      shell("echo more >> migrations/1.sql"),
      { text: "I still leave it." },
      { text: "It stays." },
      shell("git show $(git rev-list --max-parents=0 HEAD):migrations/1.sql > migrations/1.sql"),
      { text: "Without it." },
    ]);
    expect(done.first).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "change_denied", retryable: false },
      error:
        "The work changes files that a rule forbids to change: migrations/1.sql (write(migrations/)). Nothing landed.",
    });
    // Told once a round, whether or not anything was changed in between.
    expect(done.told()).toHaveLength(3);
    expect(git(done.top, "log", "--format=%s", "main")).toBe("first");
    expect(readText(done.top, "migrations/1.sql")).toBe("select 1;\n");
    expect(git(done.top, "diff", "--name-only", "main", `sortie/${done.taskID}`)).toBe("migrations/1.sql\nsrc/a.txt");

    const { taskID } = done;
    await done.client.task.message({
      path: { taskID },
      body: { source: "test", text: "without it" },
      throwOnError: true,
    });
    expect(await done.again()).toMatchObject({ lifecycleStatus: "completed" });
    expect(git(done.top, "diff", "--name-only", "HEAD~1", "HEAD")).toBe("src/a.txt");
  });

  const ways: [what: string, command: string, denied: string[]][] = [
    ["removed with its folder", "rm -r migrations", ["migrations/1.sql", "migrations/run.sh"]],
    ["moved with its folder", "mv migrations moved", ["migrations/1.sql", "migrations/run.sh"]],
    ["made by a move", "mkdir x; mv src/a.txt x/; mv x migrations/", ["migrations/x/a.txt"]],
    ["in other letters", "mkdir -p Sub/MIGRATIONS; echo > Sub/MIGRATIONS/a", ["Sub/MIGRATIONS/a"]],
    ["only in its mode", "chmod -x migrations/run.sh", ["migrations/run.sh"]],
    ["replaced by a link", "rm VERSION; ln -s src/a.txt VERSION", ["VERSION"]],
    ["with a name of many signs", `echo > "migrations/a 'b' \\"c\\" é"`, [`migrations/a 'b' "c" é`]],
    [
      "by a rule of the project's",
      "echo x >> lib/locked.txt; echo '{}' > .sortie/permissions.jsonc",
      ["lib/locked.txt"],
    ],
  ];
  test.each(ways)("is seen %s", async (_what, command, expected) => {
    const done = await work([shell(command), ...Array.from({ length: 4 }, () => ({ text: "So be it." }))]);
    expect(done.first.errorInfo?.code).toBe("change_denied");
    expect(done.denied[0]?.files.map(({ path }) => path)).toEqual(expected);
    expect(git(done.top, "log", "--format=%s", "main")).toBe("first");
  });

  test("is seen where the project is a folder of the repository, by paths of the project; and where only a branch is kept", async () => {
    const command =
      "echo x > VERSION; mkdir migrations; echo x > migrations/1.sql; echo x >> ../migrations/1.sql; echo 2 > ../VERSION";
    const turns = [shell(command), ...Array.from({ length: 4 }, () => ({ text: "So be it." }))];
    const done = await work(turns, { landing: "branch" }, "src");
    expect(done.first.errorInfo?.code).toBe("change_denied");
    // `/VERSION` is the project's own; what lies above it has no path in the project.
    expect(done.denied[0]?.files.map(({ path }) => path)).toEqual([
      "../migrations/1.sql",
      "VERSION",
      "migrations/1.sql",
    ]);
    expect(done.told()[0]).toContain(`-- '../migrations/1.sql' | git apply -R`);
  });

  test("many are counted, and the fact stays small", async () => {
    const command = "for i in $(seq 1000 1149); do echo > migrations/$i.sql; done";
    const done = await work([shell(command), ...Array.from({ length: 4 }, () => ({ text: "So be it." }))]);
    const [fact] = done.denied;
    expect([fact?.files.length, fact?.more]).toEqual([100, 50]);
    expect(done.first.error).toContain("migrations/1009.sql (write(migrations/)) and 140 more. Nothing landed.");
  });

  test("control: what no rule denies lands at once, and nothing is told", async () => {
    const done = await work([
      shell("echo two >> src/a.txt; echo x > src/VERSION; echo A=1 > .env"),
      { text: "Finished." },
    ]);
    expect(done.first).toMatchObject({ lifecycleStatus: "completed" });
    expect([done.denied, done.told()]).toEqual([[], []]);
    expect(git(done.top, "diff", "--name-only", "HEAD~1", "HEAD")).toBe(".env\nsrc/VERSION\nsrc/a.txt");
  });
});
