import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { built, compileCache } from "../../harness/built.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { home } from "../document/manual.ts";

/** What the command line shows of an investigation, and of a Task with a follow-up. */

const root = temporary("sortie-report-");
const scripts: Record<string, MockTurn[]> = {};
let provider: MockProvider;
let service: TestService;

beforeAll(async () => {
  await built();
  provider = await startMockProvider(({ first, turn }) => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    return scripts[marker]?.[turn] ?? { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock }, sandbox: { tier: 3 } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
}, 120_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

type Ended = { code: number; out: string; err: string };

const call = (args: readonly string[], extra: Record<string, string> = {}): Promise<Ended> =>
  new Promise((resolve) => {
    const env = { PATH: process.env["PATH"] ?? "", HOME: root.path, ...compileCache, ...extra };
    const words = [join(home, "bin/sortie.js"), ...args];
    execFile(process.execPath, words, { cwd: root.path, env }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });

const sortie = (directory: string, ...args: string[]): Promise<Ended> =>
  call([...args, "--url", service.url, "-C", directory]);

const write = (path: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content: "new\n" } }] });

test("an investigation: its answer whole, that nothing changed, what it took; and it leaves no branch", async () => {
  const directory = makeProject(join(root.path, "asked"), { "a.txt": "one\n".repeat(30) });
  const answer = `There is one file.\n${Array.from({ length: 30 }, (_, at) => `- a.txt:${at + 1}: claim ${at + 1} of thirty`).join("\n")}`;
  const look: MockTurn = {
    calls: [{ tool: "shell", input: { command: "ls" } }],
    usage: { input: 61_700, output: 300 },
  };
  scripts["asked"] = [look, { text: answer, usage: { input: 2000, output: 5900 } }];
  const ran = await sortie(directory, "run", "What is here? [asked]");
  expect(ran.code, ran.out + ran.err).toBe(0);
  const shown = await sortie(directory, "task", "show", "@last");
  const logs = await sortie(directory, "task", "logs", "@last");
  for (const { out } of [ran, shown, logs]) {
    expect(out).toContain("  There is one file.\n  - a.txt:1: claim 1 of thirty\n");
    expect(out).toContain("  - a.txt:30: claim 30 of thirty\n");
  }
  for (const { out } of [ran, shown]) {
    expect(out).toContain("no checks, 63.7k tokens in, 6.2k out, cost unknown, nothing changed, task_");
    expect(out).not.toMatch(/, branch sortie|Goes to/);
  }
  expect(shown.out).toMatch(/^Landed +nothing changed$/m);
  expect(git(directory, "branch", "--list", "sortie/*")).toBe("");
});

test("control: with a follow-up it shows what was said then, both reports' last, and each landing", async () => {
  const directory = makeProject(join(root.path, "twice"), { "a.txt": "one\n" });
  scripts["twice"] = [write("b.txt"), { text: "Made b." }, write("c.txt"), { text: "Made c.\n\nCommit: Add c" }];
  await sortie(directory, "run", "Make b [twice]");
  const first = git(directory, "rev-parse", "HEAD");
  const again = await sortie(directory, "task", "message", "@last", "And c,\nplease.", "-f");
  expect(again.code, again.out + again.err).toBe(0);
  const { out } = await sortie(directory, "task", "show", "@last");
  expect(out).toMatch(
    /^Request\n {2}Make b \[twice\]\nThen cli, .* UTC\n {2}And c,\n {2}please\.\nReport\n {2}Made c\.\n/m,
  );
  expect(out).toMatch(new RegExp(`^Landed +${first} on main, 1 file, \\+1 -0$`, "m"));
  expect(out).toMatch(new RegExp(`^Landed +${git(directory, "rev-parse", "HEAD")} on main, 1 file, \\+1 -0$`, "m"));
  expect(out).not.toContain("nothing changed");
  expect(git(directory, "branch", "--list", "sortie/*")).not.toBe("");
});

test("of a step of many lines that fails the line is shown that says what failed; control: without one the last", async () => {
  const directory = makeProject(join(root.path, "many"), { "a.txt": "one\n" });
  const script = (name: string, lines: string[]) => {
    writeFileSync(join(directory, name), `${lines.map((line) => `echo '${line}'`).join("\n")}\nexit 3\n`);
    git(directory, "add", name);
  };
  script("says.sh", [
    "running 3 tests",
    "AssertionError: expected 2.34, got 2.35",
    "  actual: {",
    "    total: 2.35",
    "  }",
  ]);
  script("quiet.sh", ["one", "two"]);
  git(directory, "commit", "--quiet", "--message=Scripts");
  const shell = (command: string): MockTurn => ({ calls: [{ tool: "shell", input: { command } }] });
  scripts["many"] = [shell("sh says.sh"), shell("sh quiet.sh"), { text: "Both fail." }];
  const { out } = await sortie(directory, "run", "Run the scripts. [many]");
  expect(out).toMatch(/shell sh says\.sh: exit 3, \S+ m?s AssertionError: expected 2\.34, got 2\.35$/m);
  expect(out).toMatch(/shell sh quiet\.sh: exit 3, \S+ m?s two$/m);
});

test("what is suggested names the address that was given; control: without one it does not", async () => {
  const directory = makeProject(join(root.path, "again"), { "a.txt": "one\n" });
  scripts["again"] = [{ text: "Nothing to do." }];
  const { out: id } = await sortie(directory, "run", "Look. [again]", "--detach");
  await sortie(directory, "task", "logs", "-f", id.trim());
  const again = await sortie(directory, "task", "message", id.trim(), "Look again.");
  expect(again.out).toContain(`\`sortie task logs -f ${id.trim()} --url ${service.url}\``);
  const unnamed = await call(["task", "message", id.trim(), "And again.", "-C", directory], {
    SERVICE_URL: service.url,
  });
  expect(unnamed.out).toContain(`\`sortie task logs -f ${id.trim()}\``);
});

test("`list` is `ls`", async () => {
  const directory = makeProject(join(root.path, "listed"), { "a.txt": "one\n" });
  for (const noun of ["task", "mission", "squad", "webhook"]) {
    const [ls, list] = [await sortie(directory, noun, "ls"), await sortie(directory, noun, "list")];
    expect(list, noun).toEqual(ls);
    expect(list.code, list.err).toBe(0);
  }
  expect((await sortie(directory, "squad", "lost")).code).toBe(2);
});
