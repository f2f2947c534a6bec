import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { Facts, ModelFailure, ModelReply, PromptFile, PromptMessage } from "../../src/model/model.ts";
import { parse } from "../../src/model/builtin/grammar/parse.ts";
import { createBuiltinModel } from "../../src/model/builtin/builtin.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import type { CommandCheck } from "../../src/protocol/check.ts";
import { toolSpecs, tools } from "../../src/tool/registry.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { callContext } from "../harness/project.ts";

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
console.info(`rules: fast-check seed ${seed}; repeat with TEST_SEED=${seed} vitest run test/model/builtin.test.ts`);

const diff = "--- a/src/a.ts\n+++ b/src/a.ts\n@@ -1 +1 @@\n-one\n+two\n";
const fence = (info: string, content: string, ticks = "```") => `${ticks}${info}\n${content}${ticks}\n`;
const file = (filename: string, text: string | Uint8Array, mime = "text/plain"): PromptFile => ({
  filename,
  mime,
  bytes: typeof text === "string" ? Buffer.from(text) : text,
});

/** An instruction in short: its kind and what matters. */
const brief = (text: string, files: PromptFile[] = []) =>
  parse(text, files).instructions.map((instruction) => {
    switch (instruction.kind) {
      case "run":
        return `run ${instruction.what}`;
      case "apply":
        return `apply ${instruction.paths.join(" ")}`;
      case "write":
        return `write ${instruction.path} ${JSON.stringify(instruction.content)}`;
      case "replace":
        return `replace ${instruction.old} → ${instruction.new}${instruction.glob === undefined ? "" : ` in ${instruction.glob}`}`;
      case "move":
        return `move ${instruction.from} → ${instruction.to}`;
      case "delete":
        return `delete ${instruction.path}`;
      case "bump":
        return `bump ${instruction.name} → ${instruction.version}${instruction.folder === undefined ? "" : ` in ${instruction.folder}`}`;
      case "fix":
        return `fix ${instruction.what}`;
      case "codemod":
        return `codemod ${instruction.name}`;
      case "inventory":
        return `${instruction.what} of ${instruction.of} into ${instruction.into}`;
    }
  });
const unknown = (text: string, files: PromptFile[] = []) => parse(text, files).unknown.map(({ said }) => said);

describe("grammar: understood", () => {
  test.each<[string, string[]]>([
    ["run the tests", ["run tests"]],
    ["Run the tests.", ["run tests"]],
    ["RUN TESTS", ["run tests"]],
    ["run the test", ["run tests"]],
    ["run the tests and report", ["run tests"]],
    ["Please run the checks, and report.", ["run checks"]],
    ["run the build", ["run build"]],
    ["run build", ["run build"]],
    ["run lint", ["run lint"]],
    ["run the typecheck then report", ["run typecheck"]],
    ["run type-check", ["run typecheck"]],
    ["1. run lint", ["run lint"]],
    ["12) run lint", ["run lint"]],
    ["- run lint", ["run lint"]],
    ["* [ ] run lint", ["run lint"]],
    ["• then please run lint!", ["run lint"]],
    ["run lint and run the tests", ["run lint", "run tests"]],
    ["run lint, then run the tests and report.", ["run lint", "run tests"]],
    ["run lint, the tests and build", ["run lint", "run tests", "run build"]],
    ["run lint and tests and report", ["run lint", "run tests"]],
    ["run lint. Run build.", ["run lint", "run build"]],
    ["run lint; run build", ["run lint", "run build"]],
    ['replace "a" with "b"', ["replace a → b"]],
    ["replace 'a b' with `c d`.", ["replace a b → c d"]],
    ['Replace "it\'s" with ""', ["replace it's → "]],
    ['replace "a" with "b" in src/**/*.ts.', ["replace a → b in src/**/*.ts"]],
    ['replace "a" with "b" in "my docs/*.md" and run the tests', ["replace a → b in my docs/*.md", "run tests"]],
    ['replace "$1.*" with "\\n"', ["replace $1.* → \\n"]],
    ['replace "run the tests" with "x"', ["replace run the tests → x"]],
    ["rename src/a.ts to src/b.ts", ["move src/a.ts → src/b.ts"]],
    ["rename ./a.ts to `b c.ts`.", ["move a.ts → b c.ts"]],
    ["move a.ts to src/.", ["move a.ts → src/"]],
    ['move "it\'s.md" to docs/', ["move it's.md → docs/"]],
    ["delete src/old.ts", ["delete src/old.ts"]],
    ["bump react to 19.0.0.", ["bump react → 19.0.0"]],
    [
      "Update @scope/a.b to 1.2.3-rc.1 in packages/web and run the tests",
      ["bump @scope/a.b → 1.2.3-rc.1 in packages/web", "run tests"],
    ],
    ["bump `golang.org/x/text` to v0.14.0", ["bump golang.org/x/text → v0.14.0"]],
    [
      "update flask to 3.0rc1, then bump zope.interface to 6.0.post1",
      ["bump flask → 3.0rc1", "bump zope.interface → 6.0.post1"],
    ],
    ["fix lint and fix the formatting", ["fix lint", "fix format"]],
    ["run codemod to-esm.", ["codemod to-esm"]],
    ["list TODOs", ["todos of undefined into undefined"]],
    ["List all todos into docs/todo.md.", ["todos of undefined into docs/todo.md"]],
    [
      "licence report, license report",
      ["licences of undefined into undefined", "licences of undefined into undefined"],
    ],
    [
      "dead links; list the dead links into `a b.md`",
      ["links of undefined into undefined", "links of undefined into a b.md"],
    ],
    ["summarise git log since v1.2.0", ["log of v1.2.0 into undefined"]],
    ["summarize the git log since HEAD~3 into log.md", ["log of HEAD~3 into log.md"]],
    ["changelog since 2026-01-31 into CHANGES.md", ["changelog of 2026-01-31 into CHANGES.md"]],
    ["summarise logs/app.log", ["digest of logs/app.log into undefined"]],
    ["summarise log var/out.txt into sum.md", ["digest of var/out.txt into sum.md"]],
    ["delete `a b.ts`, then delete c.ts and run the tests", ["delete a b.ts", "delete c.ts", "run tests"]],
    ["delete .github/workflows/ci.yml.", ["delete .github/workflows/ci.yml"]],
    ["run lint\r\nrun build\r\n", ["run lint", "run build"]],
    ["\uFEFFrun lint", ["run lint"]],
    ["   \n\n  run lint  \n", ["run lint"]],
    [fence("diff", diff), ["apply src/a.ts"]],
    [fence("patch", diff), ["apply src/a.ts"]],
    [fence("DIFF", diff, "~~~"), ["apply src/a.ts"]],
    [`The fix:\n\n${fence("diff", diff)}\nrun the tests`, ["apply src/a.ts", "run tests"]],
    [`Please apply this patch for the failing test:\n${fence("diff", diff)}`, ["apply src/a.ts"]],
    [
      `1. Apply:\n   ${fence("diff", diff).trimEnd().replaceAll("\n", "\n   ")}\n2. run lint`,
      ["apply src/a.ts", "run lint"],
    ],
    [`- ${fence("diff", diff).trimEnd().replaceAll("\n", "\n  ")}`, ["apply src/a.ts"]],
    [fence("diff", diff).replaceAll("\n", "\r\n"), ["apply src/a.ts"]],
    [fence("ts file=src/a.ts", "x\n"), ['write src/a.ts "x\\n"']],
    [fence("ts path=src/a.ts", ""), ['write src/a.ts ""']],
    [fence('ts title="my docs/a b.md"', "x\n"), ['write my docs/a b.md "x\\n"']],
    [fence("ts {file='a.ts'}", "x\n"), ['write a.ts "x\\n"']],
    [fence("file=a.ts", "x\n"), ['write a.ts "x\\n"']],
    [fence("file=a.ts path=a.ts", "x\n"), ['write a.ts "x\\n"']],
    [fence("md file=a.md", "```js\n1\n```\n", "````"), ['write a.md "```js\\n1\\n```\\n"']],
    [fence("md file=a.md", "run the tests\n"), ['write a.md "run the tests\\n"']],
    [fence("txt file=a.txt", "a\r\nb\n"), ['write a.txt "a\\r\\nb\\n"']],
    [`src/a.ts:\n${fence("ts file=src/a.ts", "x\n")}`, ['write src/a.ts "x\\n"']],
  ])("%j", (text, expected) => {
    expect(unknown(text)).toEqual([]);
    expect(brief(text)).toEqual(expected);
  });
});

describe("grammar: not understood", () => {
  test.each<[string, string[]]>([
    ["find the cause", ["find the cause"]],
    ["run the tests and find the cause", ["find the cause"]],
    ["do not run the tests", ["do not run the tests"]],
    ["don't delete a.ts", ["don't delete a.ts"]],
    ["run the tests now", ["now"]],
    ["run the tests run lint", ["run lint"]],
    ["run the tests if they exist", ["if they exist"]],
    ["run `npm test`", ["run `npm test`"]],
    ["run everything", ["run everything"]],
    ["rerun the tests", ["rerun the tests"]],
    ["run the testing", ["run the testing"]],
    ["run codemod", ["run codemod"]],
    ["run codemod ../x", ["run codemod ../x"]],
    ["run codemod `a; rm -rf /`", ["run codemod `a; rm -rf /`"]],
    ...["19", "latest", "^1.2.3", "~1.2", ">=2", "1.x", "1.2.x", "*", "1.2.3 || 2.0.0", "v", "next", "1.2.3$(id)"].map(
      (version): [string, string[]] => [`bump react to "${version}"`, [`bump react to "${version}"`]],
    ),
    ...["-g", "--registry=http://x", "a b", "a;id", "$(id)", "a&&b", "../a", "@/a", "/a", "a/../b", "é", ""].map(
      (name): [string, string[]] => [`bump "${name}" to 1.2.3`, [`bump "${name}" to 1.2.3`]],
    ),
    ["update the docs to 2.0", ["update the docs to 2.0"]],
    ["bump react to 19.0.0 in ../x", ["bump react to 19.0.0 in ../x"]],
    ["bump react to 19.0.0 and redux", ["redux"]],
    ["bump react", ["bump react"]],
    ["fix the lint errors", ["errors"]],
    ["fix it", ["fix it"]],
    ["fix lintrc", ["fix lintrc"]],
    ["list files", ["list files"]],
    ["list TODOs into ../x.md", ["list TODOs into ../x.md"]],
    ["list TODOs into todos.txt", ["list TODOs into todos.txt"]],
    ["list TODOs into .git/x.md", ["list TODOs into .git/x.md"]],
    ["list TODOs in src", ["in src"]],
    ["dead links now", ["now"]],
    ["changelog since v1..v2", ["changelog since v1..v2"]],
    ["changelog since --output=x", ["changelog since --output=x"]],
    ["changelog since `$(id)`", ["changelog since `$(id)`"]],
    ["changelog since 2026-02-30", ["changelog since 2026-02-30"]],
    ["summarise git log", ["summarise git log"]],
    ["summarise README.md", ["summarise README.md"]],
    ["summarise ../x.log", ["summarise ../x.log"]],
    ["delete src/..", ["delete src/.."]],
    ["move a.ts to src/..", ["move a.ts to src/.."]],
    ["report", ["report"]],
    ["replace a with b", ["replace a with b"]],
    ['replace "a" by "b"', ['replace "a" by "b"']],
    ['replace "" with "b"', ['replace "" with "b"']],
    ['replace "a" with "a"', ['replace "a" with "a"']],
    ['replace "a" with "b" in ../x', ['replace "a" with "b" in ../x']],
    ['replace "a" with "b" in *.{ts,js}', ['replace "a" with "b" in *.{ts,js}']],
    ['replace "a" with "b" in "!x"', ['replace "a" with "b" in "!x"']],
    ['replace "a" with "b" in all files', ["files"]],
    ["replace 'it's' with 'x'", ["replace 'it's' with 'x'"]],
    ["rename a.ts", ["rename a.ts"]],
    ["rename a.ts to b.ts everywhere", ["everywhere"]],
    ["rename a.ts to ../b.ts", ["rename a.ts to ../b.ts"]],
    ["move /etc/passwd to x", ["move /etc/passwd to x"]],
    ["move a to ~/b", ["move a to ~/b"]],
    ["move a to C:\\b", ["move a to C:\\b"]],
    ["delete .git/config", ["delete .git/config"]],
    ["delete .", ["delete ."]],
    ["delete the file a.ts", ["file a.ts"]],
    ["delete a.ts b.ts", ["b.ts"]],
    ['delete "a"b', ["b"]],
    ["> run the tests", ["> run the tests"]],
    ["## Steps", ["## Steps"]],
    ["Steps:\nrun the tests", ["Steps:"]],
    ["- [x] run the tests", ["[x] run the tests"]],
    ["apply the patch", ["apply the patch"]],
    ["---", ["---"]],
    ["`run the tests`", ["`run the tests`"]],
    ["```run the tests```", ["```run the tests```"]],
    [`Do not apply this:\n${fence("diff", diff)}`, ["Do not apply this:"]],
    [`Revert this:\n${fence("diff", diff)}`, ["Revert this:"]],
    [`Find the cause, then apply:\n${fence("diff", diff)}`, ["Find the cause, then apply:"]],
    [`Apply this and fix the docs:\n${fence("diff", diff)}`, ["Apply this and fix the docs:"]],
    [`For example:\n${fence("diff", diff)}`, ["For example:"]],
    [`Apply this\n${fence("diff", diff)}`, ["Apply this"]],
    [fence("ts", "x\n"), ["block ```ts"]],
    [fence("", "x\n"), ["block ```"]],
    [fence("diff", "x\n"), ["block ```diff"]],
    [fence("diff", diff.replaceAll("src/", "../")), ["block ```diff"]],
    [fence("diff", diff.replaceAll("a/src/a.ts", "/etc/x").replaceAll("b/src/a.ts", "/etc/x")), ["block ```diff"]],
    [fence("diff", diff.replaceAll("src/a.ts", ".git/hooks/x")), ["block ```diff"]],
    [fence("diff", diff.replace("-1 +1", "-1,4 +1,4")), ["block ```diff"]],
    [fence("diff file=a.ts", diff), ["block ```diff file=a.ts"]],
    [fence("ts file=../a.ts", "x\n"), ["block ```ts file=../a.ts"]],
    [fence("ts file=/a.ts", "x\n"), ["block ```ts file=/a.ts"]],
    [fence("ts file=", "x\n"), ["block ```ts file="]],
    [fence("ts file=a.ts path=b.ts", "x\n"), ["block ```ts file=a.ts path=b.ts"]],
    [fence("ts file=a.ts mode=append", "x\n"), ["block ```ts file=a.ts mode=append"]],
    [fence("ts file=my docs/a.ts", "x\n"), ["block ```ts file=my docs/a.ts"]],
    ["```ts file=a.ts\nx\n", ["block ```ts file=a.ts"]],
    [fence("md file=a.md", "```js\n1\n```\n"), ["block ```"]],
  ])("%j", (text, expected) => {
    expect(unknown(text)).toEqual(expected);
  });

  test("every unknown part of a request is listed, and why where it can be said", () => {
    const { unknown: parts } = parse("find it\nrun the tests\nmove a to ../b\nand explain", []);
    expect(parts).toEqual([
      { said: "find it", why: undefined },
      { said: "move a to ../b", why: 'expected a path inside the project without "..", got "../b"' },
      { said: "explain", why: undefined },
    ]);
  });
});

describe("grammar: attachments", () => {
  const patch = file("fix.patch", diff);
  test("a patch comes first, or where a line names it", () => {
    expect(brief("run the tests", [patch])).toEqual(["apply src/a.ts", "run tests"]);
    expect(brief("run lint, apply the attached patch and run the tests", [patch])).toEqual([
      "run lint",
      "apply src/a.ts",
      "run tests",
    ]);
    expect(brief("run lint\napply fix.patch.\n", [patch])).toEqual(["run lint", "apply src/a.ts"]);
    expect(brief("run lint", [file("x.DIFF", diff), file("y", diff, "text/x-diff")])).toEqual([
      "apply src/a.ts",
      "apply src/a.ts",
      "run lint",
    ]);
  });
  test("what is no patch is not understood", () => {
    expect(unknown("run lint", [file("notes.txt", "x")])).toEqual(["attachment notes.txt"]);
    expect(unknown("run lint", [file("a.patch", "no diff")])).toEqual(["attachment a.patch"]);
    expect(unknown("run lint", [file("a.patch", Buffer.from([0xff, 0xfe, 0x00]))])).toEqual(["attachment a.patch"]);
    expect(unknown("apply other.patch", [patch])).toEqual(["apply other.patch"]);
  });
});

// ---- the model -----------------------------------------------------------------------------------------------------

const model = createBuiltinModel({ x: "true" });
const specs = toolSpecs(Object.values(tools));
const noFacts: Facts = { checks: [], detected: {} };
const spec = (check: Partial<CommandCheck>): CommandCheck => ({
  id: "check-1",
  name: "check",
  kind: "command",
  run: "true",
  timeoutSeconds: 600,
  required: true,
  baseline: false,
  ...check,
});
const user = (text: string, extra: object = {}): PromptMessage => ({
  role: "user",
  messageID: "msg_u",
  source: "api",
  text,
  files: [],
  ...extra,
});

const reply = (messages: PromptMessage[], facts = noFacts, names = specs) =>
  model.reply({
    system: "",
    messages,
    tools: names,
    facts,
    signal: new AbortController().signal,
    onText: () => undefined,
    onReasoning: () => undefined,
  });

const callsOf = (answer: ModelReply | ModelFailure) => (answer.ok ? answer.calls : []);
const failureOf = (answer: ModelReply | ModelFailure) => (answer.ok ? undefined : answer.failure);

type Outcome = { outcome: "ok" | "error" | "interrupted"; output?: string; exitCode?: number | null };
/** A turn as it stands in the conversation: what the model called, and what came of it. */
const turn = (calls: { tool: string; input: unknown }[], outcomes: Outcome[]): PromptMessage[] => [
  {
    role: "assistant",
    messageID: "msg_a",
    text: "",
    calls: calls.map((call, at) => ({ callID: `call_${at}`, ...call })),
  },
  {
    role: "tool",
    results: calls.map(({ tool }, at) => ({
      callID: `call_${at}`,
      tool,
      outcome: "ok",
      output: "",
      exitCode: null,
      ...outcomes[at],
    })),
  },
];
const ran = (code: number, text = ""): Outcome => ({
  outcome: code === 0 ? "ok" : "error",
  exitCode: code,
  output: `Exit code ${code} after 1.2 s.\n${text}`,
});
const test_ = { detected: { test: "npm test" }, checks: [] } satisfies Facts;
const npmTest = { tool: "shell", input: { command: "npm test", timeoutSeconds: 600 } };

describe("model: given the conversation, what comes next", () => {
  test("it says what it is", () => {
    expect(model.ref).toBe("builtin/rules-1");
    expect(model.retries).toBe(false);
  });
  test("a known instruction: the call; its result: the report", async () => {
    const ask = [user("run the tests")];
    const first = await reply(ask, test_);
    expect(first).toEqual({
      ok: true,
      text: "",
      calls: [npmTest],
      finish: "calls",
      usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0 },
    });
    const last = await reply([...ask, ...turn([npmTest], [ran(0)])], test_);
    expect(last).toMatchObject({ ok: true, calls: [], finish: "end", text: "`npm test`, exit 0 after 1.2 s." });
  });
  test("red: instruction_failed with command, exit code and first failing lines", async () => {
    const output = "> test\n\u001b[31m✖ adds\u001b[0m\n  AssertionError: 1 !== 2\n  at x\nmore\n";
    const failure = failureOf(
      await reply([user("run the tests and report"), ...turn([npmTest], [ran(1, output)])], test_),
    );
    expect(failure).toMatchObject({ code: "instruction_failed", retryable: false });
    expect(failure?.message).toBe(
      "run the tests and report: `npm test`, exit 1 after 1.2 s (first failure: ✖ adds | AssertionError: 1 !== 2).",
    );
  });
  test("a time-out is red", async () => {
    const failure = failureOf(
      await reply(
        [user("run the tests"), ...turn([npmTest], [{ outcome: "error", output: "Timed out after 600 s: ended." }])],
        test_,
      ),
    );
    expect(failure?.message).toContain("Timed out after 600 s");
  });
  test("the request's checks come first; `checks` means all of them; none is said", async () => {
    const checks = [
      spec({ name: "unit", run: "npm test", cwd: "pkg" }),
      spec({ id: "check-2", name: "types", run: "npm run typecheck" }),
    ];
    const facts = { checks, detected: { test: "make test", lint: "make lint" } };
    const commands = async (text: string, on: Facts = facts) =>
      callsOf(await reply([user(text)], on)).map(({ input }) => (input as { command: string }).command);
    expect(await commands("run the tests")).toEqual(["npm test"]);
    expect(callsOf(await reply([user("run the tests")], facts))[0]?.input).toMatchObject({ cwd: "pkg" });
    expect(await commands("run the checks")).toEqual(["npm test", "npm run typecheck"]);
    expect(await commands("run the typecheck")).toEqual(["npm run typecheck"]);
    expect(await commands("run lint")).toEqual(["make lint"]);
    expect(await commands("run the checks", test_)).toEqual(["npm test"]);
    const check = spec({ name: "npm test", run: "npm test", kind: "lint" });
    expect(await commands("run lint", { ...noFacts, checks: [check] })).toEqual(["npm test"]);
    expect(failureOf(await reply([user("run the build")], facts))).toMatchObject({
      code: "instruction_failed",
      message: expect.stringContaining("runs the build, found neither"),
    });
    expect(failureOf(await reply([user("run the checks")]))?.message).toContain("found neither");
  });
  test("a check is run as it was asked for: environment, folder, time, expected exit code", async () => {
    const check = spec({ kind: "test", run: "x", cwd: "p", env: { A: "it's" }, timeoutSeconds: 9 });
    const facts = { ...noFacts, checks: [{ ...check, expect: { exitCode: 3 } }] };
    const call = { tool: "shell", input: { command: "export A='it'\\''s'\nx", timeoutSeconds: 9, cwd: "p" } };
    expect(callsOf(await reply([user("run the tests")], facts))).toEqual([call]);
    expect(await reply([user("run the tests"), ...turn([call], [ran(3)])], facts)).toMatchObject({ finish: "end" });
    expect(failureOf(await reply([user("run the tests"), ...turn([call], [ran(0)])], facts))?.code).toBe(
      "instruction_failed",
    );
  });
  test("NEEDS_MODEL names both parts and both ways, and nothing is called", async () => {
    const failure = failureOf(await reply([user("run the tests and find the cause")], test_));
    expect(failure?.code).toBe("needs_model");
    expect(failure?.message).toMatch(
      /^NEEDS_MODEL: this Task needs a language model\. The built-in rules understand "run the tests", but not "find the cause"\. Nothing was done\.\nUse a model: set ANTHROPIC_API_KEY \(or the key of another provider\), or name one in config\.jsonc\. Or use a form that the built-in rules know, .* \/ui\/manual\/rules$/,
    );
    expect(failureOf(await reply([user("find it")]))?.message).toContain(`do not understand "find it"`);
    expect(failureOf(await reply([user(" ")]))?.code).toBe("needs_model");
  });
  test("a tool the agent lacks is a failure, not a skip", async () => {
    const without = specs.filter(({ name }) => name !== "shell");
    expect(failureOf(await reply([user("run the tests")], test_, without))?.message).toContain('no tool "shell"');
  });
  test("an abort rejects", async () => {
    const signal = AbortSignal.abort(new Error("cancelled"));
    await expect(
      model.reply({
        system: "",
        messages: [user("run lint")],
        tools: specs,
        facts: noFacts,
        signal,
        onText: () => undefined,
        onReasoning: () => undefined,
      }),
    ).rejects.toThrow("cancelled");
  });
});

describe("model: messages and interruptions", () => {
  const write = { tool: "write", input: { path: "a.txt", content: "x\n" } };
  const wrote: Outcome = { outcome: "ok", output: "Created a.txt (1 line, 2 bytes)." };
  const block = fence("file=a.txt", "x\n");

  test("a follow-up is carried out after what was asked before", async () => {
    const messages = [user(`${block}run lint`), ...turn([write], [wrote]), user("run the tests")];
    const facts = { checks: [], detected: { test: "t", lint: "l" } };
    const lint = { tool: "shell", input: { command: "l", timeoutSeconds: 600 } };
    expect(callsOf(await reply(messages, facts))).toEqual([lint]);
    const after = [...messages, ...turn([lint], [ran(0)])];
    expect(callsOf(await reply(after, facts))).toMatchObject([{ tool: "shell", input: { command: "t" } }]);
    const all = [...after, ...turn([{ tool: "shell", input: {} }], [ran(0)])];
    expect(await reply(all, facts)).toMatchObject({
      text: "Created a.txt (1 line, 2 bytes).\n`l`, exit 0 after 1.2 s.\n`t`, exit 0 after 1.2 s.",
    });
  });
  test("a follow-up that is not understood stops the rest", async () => {
    const failure = failureOf(
      await reply([user(`${block}run the tests`), ...turn([write], [wrote]), user("and make it nice")], test_),
    );
    expect(failure).toMatchObject({ code: "needs_model", message: expect.stringContaining("Nothing more was done") });
  });
  test("after a report only the new message counts", async () => {
    const done: PromptMessage = { role: "assistant", messageID: "msg_f", text: "done", calls: [] };
    const messages = [user(block), ...turn([write], [wrote]), done, user("run the tests")];
    expect(callsOf(await reply(messages, test_))).toEqual([npmTest]);
  });
  test("a failed attempt is over when a message begins a new one", async () => {
    const red = [user("run the tests"), ...turn([npmTest], [ran(1)])];
    expect(callsOf(await reply([...red, user(block, { restarted: true })], test_))).toEqual([write]);
    expect(callsOf(await reply([user("find it"), user(block, { restarted: true })], test_))).toEqual([write]);
    // Control: a message steered into a running attempt does not make the red result green.
    expect(failureOf(await reply([...red, user(block)], test_))?.code).toBe("instruction_failed");
  });
  test("failed checks have no second attempt", async () => {
    expect(failureOf(await reply([user(block), user("`npm test` failed", { source: "checks" })]))?.code).toBe(
      "instruction_failed",
    );
  });
  test("a wrap-up says what is done and what is not, and calls nothing", async () => {
    const wrap = user("stop", { messageID: "wrap-up", source: "service" });
    expect(await reply([user(`${block}run the tests`), ...turn([write], [wrote]), wrap], test_)).toMatchObject({
      ok: true,
      calls: [],
      text: "Created a.txt (1 line, 2 bytes).\nNot done: run the tests.",
    });
  });
  test("interrupted commands and whole files are repeated; missing results count as interrupted", async () => {
    const cut: Outcome = { outcome: "interrupted" };
    expect(callsOf(await reply([user("run the tests"), ...turn([npmTest], [cut])], test_))).toEqual([npmTest]);
    expect(callsOf(await reply([user(block), ...turn([write], [cut])]))).toEqual([write]);
    expect(callsOf(await reply([user(block), ...turn([write], []).slice(0, 1)]))).toEqual([write]);
    expect(await reply([user(block), ...turn([write], [cut]), ...turn([write], [wrote])])).toMatchObject({
      text: wrote.output,
    });
  });
  test("an interrupted patch is looked for first, and never applied twice", async () => {
    const applied = { tool: "apply_patch", input: { patch: diff } };
    const check = { tool: "apply_patch", input: { patch: diff, mode: "check-applied" } };
    const fits = { tool: "apply_patch", input: { patch: diff, mode: "check" } };
    const cut = [user(fence("diff", diff)), ...turn([applied], [{ outcome: "interrupted" }])];
    expect(callsOf(await reply(cut))).toEqual([check]);
    const there: Outcome = { outcome: "ok", output: "All of the patch is in the files already." };
    expect(await reply([...cut, ...turn([check], [there])])).toMatchObject({
      finish: "end",
      text: `The patch was interrupted. ${there.output}`,
    });
    const absent = [...cut, ...turn([check], [{ outcome: "error" }])];
    expect(callsOf(await reply(absent))).toEqual([fits]);
    expect(callsOf(await reply([...absent, ...turn([fits], [{ outcome: "ok" }])]))).toEqual([applied]);
    expect(failureOf(await reply([...absent, ...turn([fits], [{ outcome: "error" }])]))?.code).toBe(
      "instruction_failed",
    );
  });
  test("an interrupted replacement is repeated only where it can be told that it was not done", async () => {
    const edit = (old: string, fresh: string) => ({
      tool: "edit",
      input: { path: "f", edits: [{ old, new: fresh, all: true }] },
    });
    const given = (old: string, fresh: string, left: string) => {
      const grep = { tool: "git", input: {} };
      return [
        user(`replace "${old}" with "${fresh}"`),
        ...turn([grep], [{ outcome: "ok", output: "2\tf" }]),
        ...turn([edit(old, fresh)], [{ outcome: "interrupted" }]),
        ...turn([{ tool: "search", input: {} }], [{ outcome: "ok", output: left }]),
      ];
    };
    expect(callsOf(await reply(given("cat", "dog", "2\tf")))).toEqual([edit("cat", "dog")]);
    expect(await reply(given("cat", "dog", "No match in f."))).toMatchObject({
      finish: "end",
      text: expect.stringContaining("interrupted and found done"),
    });
    for (const [old, fresh] of [
      ["cat", "cats"],
      ["cat", "t"],
      ["cat", "xca"],
      ["aa", ""],
    ] as const)
      expect(failureOf(await reply(given(old, fresh, "2\tf"))), `${old} → ${fresh}`).toMatchObject({
        code: "instruction_failed",
      });
    expect(await reply(given("cat", "cats", "No match in f."))).toMatchObject({ finish: "end" });
  });
  test("a conversation that does not fit is refused", async () => {
    expect(failureOf(await reply([user("run the tests"), ...turn([write], [wrote])], test_))?.message).toContain(
      "got write",
    );
  });
});

describe("model: arbitrary requests", () => {
  const pieces = fc.oneof(
    fc.string(),
    fc.string({ unit: "binary" }),
    fc.constantFrom(
      "run the tests",
      "run lint and report",
      "bump react to 1.2.3",
      "update @a/b to 2.0.0 in packages/x",
      "fix lint",
      "fix format.",
      "run codemod x",
      "list TODOs into t.md",
      "licence report",
      "dead links",
      "changelog since v1",
      "summarise git log since 2026-01-01",
      "summarise a.log",
      "$(id)",
      'replace "a" with "b" in *.ts',
      "rename a to b",
      "delete x.ts",
      "find the cause",
      fence("diff", diff),
      fence("ts file=a.ts", "x\n"),
      "```",
      "~~~~",
      "The fix:",
      "- ",
      "1. ",
      "and",
      "then",
      ",",
      "\n",
      "\r\n",
      "'",
      '"',
      "`",
      "apply the patch",
      "--- a/x\n+++ b/x\n@@ -1 +1 @@\n",
      "@@ -1,9999999999 +1 @@",
      "rename from a\n",
      "file=",
      "../",
      "/etc/passwd",
      ".git/config",
      "\0",
    ),
  );
  const mixed = fc
    .array(pieces, { maxLength: 12 })
    .chain((parts) => fc.constantFrom("", " ", "\n").map((glue) => parts.join(glue)));
  const known = fc
    .array(
      fc.constantFrom(
        "- run the tests",
        "run lint and report.",
        'replace "a" with "b"',
        "rename a to b",
        fence("diff", diff),
      ),
      { maxLength: 5 },
    )
    .map((lines) => lines.join("\n"));
  const requests = fc.oneof({ arbitrary: mixed, weight: 4 }, { arbitrary: known, weight: 1 });

  test("never throws, and never acts while any part is not understood", async () => {
    let refused = 0;
    let acted = 0;
    await fc.assert(
      fc.asyncProperty(requests, fc.boolean(), async (text, attach) => {
        const files = attach ? [file("a.patch", text)] : [];
        const { unknown: parts, instructions } = parse(text, files);
        const answer = await reply([user(text, { files })], { checks: [], detected: { test: "t", lint: "l" } });
        if (parts.length > 0 || instructions.length === 0) {
          refused += 1;
          expect(failureOf(answer)?.code).toBe("needs_model");
        } else {
          acted += 1;
          // A codemod that the operator has not allowed is understood, and refused before anything is done.
          const refusedFirst = instructions[0]?.kind === "codemod";
          expect(answer.ok || (refusedFirst && failureOf(answer)?.code === "instruction_failed")).toBe(true);
          for (const { tool, input } of callsOf(answer)) {
            const checked = tools[tool]?.input.safeParse(input);
            // A path with a NUL or the like is the grammar's to refuse, an empty patch the tool's.
            expect(checked?.success, JSON.stringify(input)).toBe(true);
          }
        }
      }),
      { seed, numRuns: 3000 },
    );
    // Control: both sides were reached.
    expect(refused).toBeGreaterThan(100);
    expect(acted).toBeGreaterThan(100);
  });
  test("no line of a request is lost: what is left over is refused", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{3,9}( [a-z]{2,9}){1,4}$/), fc.nat(3), (words, at) => {
        fc.pre(!/^(?:run|delete|rename|move|replace|apply|then|and|please)\b/.test(words));
        const lines = ["run the tests", "run lint", "delete a.ts", "run build"];
        lines.splice(at, 0, words);
        expect(unknown(lines.join("\n"))).toEqual([words]);
      }),
      { seed, numRuns: 500 },
    );
  });
  test("hostile lengths stay quick", () => {
    const pieces = [
      "run lint, ",
      'replace "',
      "- ",
      "`",
      "rename a to ",
      "and ",
      "1. ",
      "{",
      "a=",
      "--- a/x\n+++ b/x\n",
      "@@ -1 +1 @@\n",
      "a:\n",
      "a:\n\n",
    ];
    /** CPU time of this thread, so that a busy machine does not count. */
    const took = (length: number): number => {
      const started = process.threadCpuUsage();
      for (const piece of pieces)
        for (const head of ["", "```diff\n", "```ts "])
          parse(head + piece.repeat(Math.floor(length / piece.length)), []);
      const { user, system } = process.threadCpuUsage(started);
      return (user + system) / 1000;
    };
    took(5_000);
    /** The best of three: collecting garbage is CPU time of this thread, too. */
    const best = (length: number) => Math.min(took(length), took(length), took(length));
    const [half, whole] = [best(100_000), best(200_000)];
    console.log(`hostile lengths: ${half.toFixed(0)} and ${whole.toFixed(0)} ms`);
    // Quadratic work would take four times as long.
    expect(whole / half).toBeLessThan(3);
  }, 90_000);
});

// ---- with the real tools -------------------------------------------------------------------------------------------

describe("a request on a real project", () => {
  const temp = realpathSync(mkdtempSync(join(tmpdir(), "sortie-rules-")));
  const processes = createProcesses({
    folder: join(temp, "record"),
    keepEnv: process.env,
    log: silent,
  });
  afterAll(async () => {
    await processes.stop();
    rmSync(temp, { recursive: true, force: true });
  });
  const workspaces = createWorkspaces({
    dataDir: join(temp, "data"),
    projectRoots: [],
    processes,
    limits: defaultLimits,
    log: silent,
  });
  let workspace: Workspace;
  /** The user's project, then the Task's worktree of it. */
  let root: string;
  let serial = 0;
  const put = (path: string, content: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  };
  const get = (path: string) => readFileSync(join(root, path), "utf8");
  const sh = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" });

  const prepare = async (isolation: "worktree" | "directory") => {
    workspace = await workspaces.prepare({ taskID: `task_${serial}`, directory: root, isolation, landing: "none" });
    root = workspace.root;
  };

  beforeEach(async () => {
    root = join(temp, `p${(serial += 1)}`);
    mkdirSync(root);
    sh("init", "-q", "-b", "main");
    put("src/a.ts", "one\n");
    put("test.sh", "grep -q two src/a.ts || { echo 'not ok 1 - is two'; exit 3; }\n");
    put("docs/cat.md", "cat cat\nCat\n");
    put("docs/more/cat.txt", "cat\n");
    put(".gitignore", "out/\n");
    sh("add", "-A");
    sh("-c", "user.name=T", "-c", "user.email=t@t", "commit", "-qm", "base");
    await prepare("worktree");
    put("out/cat.txt", "cat\n");
  });

  /**
   * The loop in small: asks the model, runs its calls, until it calls no more. `cut` interrupts one call, done or not.
   */
  const carry = async (text: string, cut?: { at: number; done: boolean }) => {
    const signal = new AbortController().signal;
    const messages: PromptMessage[] = [user(text)];
    const made: string[] = [];
    for (let step = 0; step < 50; step += 1) {
      const answer = await reply(messages, { checks: [], detected: { test: "sh test.sh" } });
      if (!answer.ok) return { failure: answer.failure, made };
      if (answer.calls.length === 0) return { report: answer.text, made };
      const outcomes: Outcome[] = [];
      for (const { tool: name, input } of answer.calls) {
        const tool = tools[name];
        if (tool === undefined) throw new Error(name);
        const parsed = tool.input.parse(input);
        const interrupt = cut?.at === made.length;
        made.push(name);
        const result =
          interrupt && !cut.done
            ? undefined
            : await tool.run(parsed, {
                ...callContext,
                workspace,
                limits: { ...defaultLimits },
                signal,
                onOutput: () => undefined,
              });
        outcomes.push(interrupt || result === undefined ? { outcome: "interrupted" } : { exitCode: null, ...result });
      }
      messages.push(...turn(answer.calls, outcomes));
    }
    throw new Error("the model does not come to an end");
  };

  test("fix, test, write, replace, rename and delete in order", async () => {
    const { report, failure } = await carry(
      `The fix:\n${fence("diff", diff)}\n1. run the tests\n2. Replace "cat" with "dog" in docs.\n${fence("md file='docs/new cat.md'", "a cat\n")}\n` +
        `3. replace "a cat" with "one dog"\n4. rename docs/cat.md to docs/dog.md and move docs/more to src/\n5. delete .gitignore`,
    );
    expect(failure).toBeUndefined();
    expect(report?.replace(/after [\d.]+ s/, "after 0 s")).toBe(
      [
        "Applied the patch to 1 file. M src/a.ts (+1 -1)",
        "`sh test.sh`, exit 0 after 0 s.",
        'Replaced 3 matches of "cat" with "dog" in 2 files in docs.',
        "Created docs/new cat.md (1 line, 6 bytes).",
        'Replaced 1 match of "a cat" with "one dog" in 1 file.',
        "Moved docs/cat.md to docs/dog.md.",
        "Moved docs/more to src/more (1 file).",
        "Removed .gitignore (1 file).",
      ].join("\n"),
    );
    expect([get("docs/dog.md"), get("src/more/cat.txt"), get("docs/new cat.md"), get("out/cat.txt")]).toEqual([
      "dog dog\nCat\n",
      "dog\n",
      "one dog\n",
      "cat\n",
    ]);
    expect([existsSync(join(root, "docs/cat.md")), existsSync(join(root, ".gitignore"))]).toEqual([false, false]);
  });
  test("without a fix the tests are red and the instruction is named", async () => {
    const { failure } = await carry("run the tests\ndelete docs/cat.md");
    expect(failure).toMatchObject({
      code: "instruction_failed",
      message: expect.stringMatching(
        /^run the tests: `sh test\.sh`, exit 3 after .* \(first failure: not ok 1 - is two\)\.$/,
      ),
    });
    expect(existsSync(join(root, "docs/cat.md"))).toBe(true);
  });
  test("one unknown line and nothing is done", async () => {
    const { failure, made } = await carry(`${fence("diff", diff)}\nimprove the docs`);
    expect([failure?.code, made, get("src/a.ts")]).toEqual(["needs_model", [], "one\n"]);
    // Control: without that line it is done.
    await carry(fence("diff", diff));
    expect(get("src/a.ts")).toBe("two\n");
  });
  test.each([
    ["a patch that does not apply", fence("diff", diff.replace("-one", "-uno")), "Rejected: src/a.ts, hunk 1 of 1"],
    ["no match", 'replace "zebra" with "x"', 'no match of "zebra"'],
    ["no match in the glob", 'replace "cat" with "x" in src', "no match"],
    ["only ignored files match", 'replace "cat" with "x" in out/*', "no match"],
    ["a missing file", "delete none.txt", "got nothing there"],
    ["a taken name", "rename src/a.ts to test.sh", "got something there"],
    ["a protected file", fence("file=.env", "A=1\n"), "protected"],
  ])("%s fails", async (_name, text, words) => {
    const { failure } = await carry(text);
    expect(failure).toMatchObject({ code: "instruction_failed", message: expect.stringContaining(words) });
    expect(sh("status", "--short")).toBe("");
  });
  test("without Git", async () => {
    root = join(temp, `p${serial}`);
    rmSync(join(root, ".git"), { recursive: true });
    await prepare("directory");
    expect(workspace.git).toBeUndefined();
    const { report } = await carry(`${fence("diff", diff)}replace "cat" with "dog" in docs/**\ndelete docs/more`);
    expect(report).toContain('Replaced 3 matches of "cat" with "dog" in 2 files');
    expect(get("src/a.ts")).toBe("two\n");
  });
  test.each([true, false])(
    "a service that dies at any call, its effect done: %s, comes to the same files",
    async (done) => {
      const text = `${fence("diff", diff)}run the tests\nreplace "cat" with "dog"\n${fence("file=n.txt", "n\n")}rename docs/cat.md to dog.md\ndelete test.sh`;
      const whole = await carry(text);
      expect(whole.failure).toBeUndefined();
      const expected = [sh("status", "--short", "-uall"), get("dog.md"), get("src/a.ts"), get("n.txt")];
      for (let at = 0; at < whole.made.length; at += 1) {
        sh("reset", "-q", "--hard");
        sh("clean", "-qfd");
        const again = await carry(text, { at, done });
        expect(again.failure, `cut at call ${at}, ${whole.made[at]}`).toBeUndefined();
        expect(
          [sh("status", "--short", "-uall"), get("dog.md"), get("src/a.ts"), get("n.txt")],
          `cut at call ${at}`,
        ).toEqual(expected);
      }
    },
  );
});
