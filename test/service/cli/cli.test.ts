import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entriesOf } from "../../harness/entries.ts";
import { clockAgainst } from "../../../src/cli/doctor/machine.ts";
import { built, compileCache } from "../../harness/built.ts";
import { makeEngine, reference } from "../../harness/image.ts";
import { canServe } from "../../harness/double/git-host.ts";
import { git, makeProject, temporary, until } from "../../harness/project.ts";
import { textsOf, writePackage } from "../../harness/double/squads.ts";
import { terminalHere, typeInto } from "../../harness/terminal.ts";

/**
 * The command as a user has it: `bin/sortie.js` over the built `dist`, in processes of its own, against a service that
 * `sortie serve` started.
 */

const root = resolve(import.meta.dirname, "../../..");
const bin = join(root, "bin/sortie.js");
const password = "correct horse";
/** One line of help or of an error; never a stack. */
const stack = /\n\s+at /;
const escape = "\u001b";

type Ended = { code: number | null; out: string; err: string };
type Running = { child: ChildProcess; said: () => string; ended: Promise<Ended> };

const scratch = temporary("sortie-cli-");
const env = {
  PATH: process.env["PATH"] ?? "",
  HOME: scratch.path,
  SERVICE_SERVER_PASSWORD: password,
  ...compileCache,
};

const launch = (
  args: string[],
  { extra = {}, node = [] }: { extra?: Record<string, string>; node?: string[] } = {},
): Running => {
  const child = spawn(process.execPath, [...node, bin, ...args], { env: { ...env, ...extra }, cwd: scratch.path });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  child.stdin.end();
  const ended = new Promise<Ended>((done) => child.once("close", (code) => done({ code, out, err })));
  return { child, said: () => out + err, ended };
};

let service: Running;
let url = "";
let project = "";
/** Nobody listens there: the port was free a moment ago, and is below the range that is given out. */
const closedURL = "http://127.0.0.1:1023";

/** A command against the running service, in the project. */
const sortie = (args: string[], extra: Record<string, string> = {}): Promise<Ended> =>
  launch([...args, "--url", url, "-C", project], { extra }).ended;

/** The first line of words that matters, out of what a command printed. */
const lineWith = (text: string, part: string): string => text.split("\n").find((line) => line.includes(part)) ?? "";

const greet = (from: string, to: string) => `\`\`\`diff
--- a/greet.txt
+++ b/greet.txt
@@ -1 +1 @@
-${from}
+${to}
\`\`\``;

beforeAll(async () => {
  await built();
  project = makeProject(join(scratch.path, "project"), { "greet.txt": "hello\n" });
  mkdirSync(join(scratch.path, "data"));
  writeFileSync(join(scratch.path, "data/config.jsonc"), '{ "permissions": { "ask": ["write(RELEASE)"] } }');
  service = launch(["serve", "--port", "0", "--data-dir", join(scratch.path, "data")]);
  await until(
    async () => service.said(),
    (text) => text.includes("\nData "),
  );
  url = /http:\/\/\S+/.exec(service.said())?.[0] ?? "";
}, 60_000);

afterAll(async () => {
  service.child.kill("SIGTERM");
  const { code } = await service.ended;
  scratch[Symbol.dispose]();
  expect(code).toBe(0);
});

describe("squads", () => {
  test("are checked, installed, listed, shown, recommended and removed", async () => {
    const folder = writePackage(join(scratch.path, "api"), textsOf());
    const checked = await sortie(["squad", "validate", folder]);
    expect([checked.code, checked.out]).toEqual([
      0,
      expect.stringMatching(/^api 1\.0\.0 is valid \([0-9a-f]{64}\)\.\n$/),
    ]);
    const installed = await sortie(["squad", "install", folder, "--json"]);
    const { squad } = JSON.parse(installed.out) as { squad: { digest: string } };
    expect(squad).toMatchObject({ id: "api", scope: "user" });
    const listed = await sortie(["squad", "ls"]);
    expect([listed.code, lineWith(listed.out, "api ")]).toEqual([0, expect.stringContaining("backend-api")]);
    expect((await sortie(["squad", "show", "api"])).out).toContain("qa: Does what qa does.");
    const owner = await sortie(["squad", "recommend", "backend api"]);
    expect([owner.code, owner.out]).toEqual([0, expect.stringMatching(/^owns +api +user/)]);
    expect((await sortie(["squad", "recommend", "cooking"])).code).toBe(1);

    writeFileSync(join(folder, "README.md"), "# Second\n");
    const blind = await sortie(["squad", "install", folder]);
    expect([blind.code, blind.err]).toEqual([1, expect.stringContaining(squad.digest)]);
    const upgraded = await sortie(["squad", "install", folder, "--expect", squad.digest]);
    expect([upgraded.code, upgraded.out]).toEqual([0, expect.stringContaining(`replaces ${squad.digest}`)]);
    expect((await sortie(["squad", "rm", "api"])).code).toBe(0);

    writeFileSync(join(folder, "squad.json"), "{");
    const broken = await sortie(["squad", "validate", folder]);
    expect([broken.code, broken.out]).toEqual([1, expect.stringContaining("squad.json:1:2: Expected valid JSON")]);
    const refused = await sortie(["squad", "install", folder]);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("squad.json:1:2")]);
    expect((await sortie(["squad", "show", "api"])).code).toBe(2);
  });
});

describe("what waits for an answer", () => {
  test("run says how, pending shows it, answer goes on; a second answer has nothing to answer", async () => {
    const request = "```txt file=RELEASE\n1.2.0\n```";
    const run = launch(["run", request, "--url", url, "-C", project]);
    await until(
      async () => run.said(),
      (text) => text.includes("Answer with"),
    );
    expect(lineWith(run.said(), "Waiting for you")).toMatch(
      /Allow the agent to write `RELEASE`\? ask_\w{26}; default "deny" at \d\d:\d\d UTC$/,
    );
    const pending = await sortie(["task", "pending", "--json"]);
    expect(JSON.parse(pending.out)).toMatchObject({ kind: "permission", options: ["allow", "deny"], default: "deny" });
    const { taskID } = JSON.parse(pending.out) as { taskID: string };
    expect((await sortie(["task", "pending", taskID])).out).toContain(
      "Allow the agent to write `RELEASE`? (allow, deny)",
    );
    const vague = await sortie(["task", "answer", taskID, "perhaps"]);
    expect([vague.code, vague.err]).toEqual([2, expect.stringContaining("Expected --allow or --deny")]);
    const answered = await sortie(["task", "answer", taskID, "--allow"]);
    expect([answered.code, answered.out]).toEqual([0, expect.stringContaining(`${taskID}: allow.`)]);
    const { code, out } = await run.ended;
    expect([code, lineWith(out, "answered")]).toEqual([0, expect.stringContaining("cli answered: allow")]);
    expect(git(project, "show", "HEAD:RELEASE")).toBe("1.2.0");
    const again = await sortie(["task", "answer", taskID, "--deny"]);
    expect([again.code, again.err]).toEqual([2, expect.stringContaining("is not waiting for an answer")]);
    expect((await sortie(["task", "pending"])).out).toBe("Nothing is waiting for an answer.\n");
  });
});

describe("serve", () => {
  test("says its address, the model and why, the sandbox, the data folder", () => {
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const said = service.said();
    expect(lineWith(said, "Model")).toContain("builtin/rules-1");
    expect(lineWith(said, "Sandbox")).toMatch(
      /(bubblewrap, tier 1|pid-namespace, tier 2|process-group, tier 3): .*with(out)? network/,
    );
    expect(lineWith(said, "Data")).toContain(join(scratch.path, "data"));
    // No other terminal would look for it on this port.
    expect(lineWith(said, "run the tests")).toContain(`run "run the tests" -C /path/to/a/git/project --url ${url}`);
    expect(said).not.toContain(password);
  });

  test.each<[string, number, () => { args: string[]; extra?: Record<string, string> }, string]>([
    [
      "a data folder in use",
      75,
      () => ({ args: ["--port", "0", "--data-dir", join(scratch.path, "data")] }),
      "data folder",
    ],
    [
      "a port in use",
      69,
      () => ({ args: ["--port", new URL(url).port, "--data-dir", join(scratch.path, "other")] }),
      "Use --port",
    ],
    [
      "an open address without a password",
      78,
      () => ({ args: ["--host", "0.0.0.0"], extra: { SERVICE_SERVER_PASSWORD: "short" } }),
      "SERVICE_SERVER_PASSWORD",
    ],
    ["an empty variable", 78, () => ({ args: [], extra: { SERVICE_DATA_DIR: " " } }), "SERVICE_DATA_DIR"],
    ["a port that is none", 2, () => ({ args: ["--port", "70000"] }), "whole number"],
  ])("refuses %s with one line and exit %i", async (_name, code, make, words) => {
    const { args, extra = {} } = make();
    const ended = await launch(["serve", ...args], { extra }).ended;
    expect(ended).toMatchObject({ code, out: "" });
    expect(ended.err).toContain(words);
    expect(ended.err).not.toMatch(stack);
  });

  test("an old Node gets a sentence, and exit 78", async () => {
    const old = `data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.19.0"}})`;
    const ended = await launch(["--version"], { node: ["--import", old] }).ended;
    expect(ended).toMatchObject({ code: 78, out: "" });
    expect(ended.err).toMatch(/^sortie: expected Node 22\.18 or newer, got 20\.19\.0\. .*\n$/);
    expect(await launch(["--version"]).ended).toMatchObject({ code: 0, err: "" });
  });
});

describe("run", () => {
  test("follows a Task to its landing in plain lines, and exits 0", async () => {
    const { code, out, err } = await sortie(["run", greet("hello", "good day"), "--check", "grep -q good greet.txt"]);
    expect({ code, err }, out).toEqual({ code: 0, err: "" });
    expect(out).not.toContain(escape);
    const head = git(project, "rev-parse", "HEAD");
    expect(lineWith(out, "Landed commit")).toContain(head);
    expect(lineWith(out, "Check grep -q good greet.txt after the work")).toContain("passed");
    expect(out).toMatch(new RegExp(`\nCOMPLETED in .*: checks 1/1, cost \\$0, commit ${head.slice(0, 10)}, task_`));
    expect(readFileSync(join(project, "greet.txt"), "utf8")).toBe("good day\n");
  });

  test("--json: the event stream's objects on stdout, words on stderr", async () => {
    const { code, out, err } = await sortie(["run", greet("good day", "hello"), "--json"]);
    expect(code, err).toBe(0);
    const frames = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { id?: number; type: string; taskID: string });
    const durable = frames.flatMap(({ id }) => (id === undefined ? [] : [id]));
    expect(durable).toEqual(durable.toSorted((one, other) => one - other));
    expect(frames.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["task.snapshot", "task.created", "tool.finished", "landing.finished", "task.settled"]),
    );
    expect(frames.at(-1)?.type).toBe("stream.end");
    expect(err).toContain("COMPLETED");
  });

  test("without a terminal a question waits ten minutes; control: or as long as is said", async () => {
    const limitsOf = async (...more: string[]) => {
      expect((await sortie(["run", "Run the checks", "--check", "true", ...more])).code).toBe(0);
      return (JSON.parse((await sortie(["task", "show", "@last", "--json"])).out) as { limits?: object }).limits;
    };
    expect(await limitsOf()).toMatchObject({ askSeconds: 600 });
    expect(await limitsOf("--ask-seconds", "5")).toMatchObject({ askSeconds: 5 });
  });

  test("--effort is the Task's, and shown with what its models were told; control: without it there is none", async () => {
    const asked = ["run", "Run the checks", "--check", "true"];
    const ran = await sortie([...asked, "--effort", "high"]);
    expect(ran.code, ran.out + ran.err).toBe(0);
    expect(JSON.parse((await sortie(["task", "show", "@last", "--json"])).out)).toMatchObject({ effort: "high" });
    // The built-in rules do not reason.
    expect(lineWith((await sortie(["task", "show", "@last"])).out, "Effort")).toContain("high; its models: not told");
    expect((await sortie(asked)).code).toBe(0);
    expect((await sortie(["task", "show", "@last"])).out).not.toContain("Effort");
  });

  test("/name is a saved request of the project, with its arguments; an unknown one is usage", async () => {
    const folder = makeProject(join(scratch.path, "saved"), {
      "greet.txt": "hello\n",
      ".claude/commands/swap.md": 'Replace "$1" with "$2" in greet.txt.\n',
    });
    const run = (...words: string[]) => launch(["run", ...words, "--url", url, "-C", folder]).ended;
    const swapped = await run("/swap", "hello", "good day");
    expect(swapped.code, swapped.out + swapped.err).toBe(0);
    expect(readFileSync(join(folder, "greet.txt"), "utf8")).toBe("good day\n");
    const back = await run('/swap "good day" hello');
    expect(back.code, back.out + back.err).toBe(0);
    expect(readFileSync(join(folder, "greet.txt"), "utf8")).toBe("hello\n");
    const list = async () => (await launch(["task", "ls", "--json", "--url", url, "-C", folder]).ended).out;
    const before = await list();
    for (const [words, why] of [
      [["/other"], '.claude/commands: /swap), got "/other"'],
      [["/"], '.claude/commands: /swap), got "/"'],
      [["/ hello"], '.claude/commands: /swap), got "/"'],
      [["/swap", "a", "b", "--repo", "https://example.com/app.git"], 'with --repo, got "/swap"'],
      [["/", "--repo", "https://example.com/app.git"], 'with --repo, got "/"'],
    ] as const) {
      const { code, err } = await run(...words);
      expect([code, err], words.join(" ")).toEqual([2, expect.stringContaining(why) as string]);
    }
    expect([await list(), new Set(before.match(/task_[0-9a-z]{26}/g)).size]).toEqual([before, 2]);
  });

  test("--output-schema: a file with one, the output last; the built-in rules give none", async () => {
    const file = join(scratch.path, "schema.json");
    writeFileSync(file, '{ "type": "object" }');
    const { code, out } = await sortie(["run", "Run the checks", "--check", "true", "--output-schema", file, "--json"]);
    expect(code, out).toBe(1);
    expect(JSON.parse(out.trim().split("\n").at(-1) ?? "")).toMatchObject({ lifecycleStatus: "failed", output: null });
    writeFileSync(file, "{");
    for (const path of [file, join(scratch.path, "nowhere.json")]) {
      const wrong = await sortie(["run", "x", "--output-schema", path]);
      expect([wrong.code, wrong.err]).toEqual([
        2,
        expect.stringContaining("--output-schema: expected a file") as string,
      ]);
    }
    writeFileSync(file, '{ "$ref": "https://example.com/s" }');
    const refused = await sortie(["run", "x", "--output-schema", file]);
    expect(refused.err).toContain("--output-schema");
  });

  test("a check that fails: exit 5, the project untouched", async () => {
    const before = git(project, "rev-parse", "HEAD");
    const { code, out } = await sortie(["run", greet("hello", "bye"), "--check", "echo no good; exit 3"]);
    expect(code, out).toBe(5);
    expect(out).toContain("FAILED");
    expect(lineWith(out, "checks failed")).toContain("echo no good; exit 3");
    expect(git(project, "rev-parse", "HEAD")).toBe(before);
  });

  test("what only a language model understands: exit 6, and the words say so", async () => {
    const { code, out } = await sortie(["run", "Make everything better"]);
    expect(code, out).toBe(6);
    expect(out).toContain("NEEDS_MODEL");
  });

  test.each<[string, number, string[], Record<string, string>, string]>([
    ["no service there", 3, ["run", "run the tests", "--url", closedURL], {}, "sortie serve"],
    ["a wrong password", 4, ["run", "run the tests"], { SERVICE_SERVER_PASSWORD: "wrong" }, "SERVICE_SERVER_PASSWORD"],
    ["an unknown model", 6, ["run", "run the tests", "--model", "nobody/nothing"], {}, "nobody"],
    ["a model without a provider", 2, ["run", "run the tests", "--model", "large"], {}, "provider/model"],
    ["an unknown priority", 2, ["run", "run the tests", "--priority", "asap"], {}, "critical"],
    ["an unknown effort", 2, ["run", "run the tests", "--effort", "extreme"], {}, "medium"],
    ["an attachment that is not there", 2, ["run", "x", "--attach", "gone.txt"], {}, "gone.txt"],
    ["a project that is not there", 2, ["run", "x", "-C", "/nowhere/at/all"], {}, "directory"],
    ["an unknown squad", 2, ["run", "x", "--squad", "nobody"], {}, "nobody"],
    ["no request", 2, ["run"], {}, "request"],
    ["an unknown command", 2, ["fly"], {}, "unknown command"],
    ["an unknown option", 2, ["task", "ls", "--wings"], {}, "--wings"],
    ["an unknown Task", 2, ["task", "show", "task_00000000000000000000000000"], {}, "No Task has this id"],
    ["an unknown beginning of an id", 2, ["task", "show", "zzz"], {}, "zzz"],
  ])("%s: exit %i", async (_name, code, args, extra, words) => {
    const full = [...args];
    if (!args.includes("--url")) full.push("--url", url);
    if (!args.includes("-C")) full.push("-C", project);
    const ended = await launch(args[0] === "fly" ? args : full, { extra }).ended;
    expect(ended.code, ended.err).toBe(code);
    expect(ended.err).toContain(words);
    expect(ended.err).not.toMatch(stack);
  });

  test("Ctrl-C without a terminal cancels: exit 130, its command is gone", async () => {
    const running = launch(["run", "run the checks", "--check", "sleep 61.5", "--url", url, "-C", project]);
    await until(
      async () => execFileSync("ps", ["-eo", "args"], { encoding: "utf8" }),
      (processes) => /^sleep 61\.5$/m.test(processes),
    );
    running.child.kill("SIGINT");
    const { code, out } = await running.ended;
    expect(code, out).toBe(130);
    expect(out).toContain("CANCELLED");
    expect(execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })).not.toMatch(/^sleep 61\.5$/m);
  });
});

const type = (args: string[], keys: [after: string, key: string][], extra: Record<string, string> = {}) =>
  typeInto([process.execPath, bin, ...args], keys, { env: { ...env, ...extra }, cwd: scratch.path });

if (!terminalHere) console.warn("SKIPPED: 4 tests of the command line at a terminal need script(1) of util-linux.");

describe.runIf(terminalHere)("at a terminal", () => {
  const ctrlC = "\u0003";
  const question = "Detach (d) or cancel (c)?";

  test("Ctrl-C asks; d leaves the Task alone", async () => {
    const args = ["run", "run the checks", "--check", "sleep 63.5", "--url", url, "-C", project];
    const { code, out } = await type(args, [
      ["Working on a copy", ctrlC],
      [question, "d"],
    ]);
    expect(code, out).toBe(0);
    expect(out).toContain("Detached");
    expect(out, "colours, which plain output must not have").toContain(`${escape}[1m`);
    const show = async () => JSON.parse((await sortie(["task", "show", "@last", "--json"])).out) as { status: string };
    expect(await show()).toMatchObject({ status: "running" });
    expect(await sortie(["task", "cancel", "@last"])).toMatchObject({ code: 0 });
    expect(await show()).toMatchObject({ status: "inactive" });
  });

  test.each(["NO_COLOR", "CI"])("%s asks for plain lines", async (name) => {
    const args = ["task", "show", "@last", "--url", url, "-C", project];
    expect((await type(args, [])).out).toContain(escape);
    expect((await type(args, [], { [name]: "1" })).out).not.toContain(escape);
  });

  test("another key goes on, Ctrl-C twice cancels", async () => {
    const args = ["run", "run the checks", "--check", "sleep 64.5", "--url", url, "-C", project];
    const { code, out } = await type(args, [
      ["Working on a copy", ctrlC],
      [question, "x"],
      ["Going on.", ctrlC],
      [question, ctrlC],
    ]);
    expect(code, out).toBe(130);
    expect(out).toContain("CANCELLED");
  });
});

describe("task", () => {
  test("a detached Task is listed, shown, cancelled, continued, and downloaded", async () => {
    const detached = await sortie([
      "run",
      greet("hello", "hey"),
      "--check",
      "sleep 62.5",
      "--title",
      "Say hey",
      "--detach",
    ]);
    expect(detached).toMatchObject({ code: 0, err: "" });
    const id = detached.out.trim();
    expect(id).toMatch(/^task_[0-9a-z]{26}$/);

    const onlooker = launch(["task", "logs", "-f", id, "--url", url, "-C", project]);
    await until(
      async () => onlooker.said(),
      (text) => text.includes("Working on a copy"),
    );
    onlooker.child.kill("SIGINT");
    await onlooker.ended;
    const status = JSON.parse((await sortie(["task", "show", id, "--json"])).out) as { status: string };
    expect(status, "who only looks on cancels nothing").toMatchObject({ status: "running" });

    const listed = await sortie(["task", "ls"]);
    expect(lineWith(listed.out, id)).toContain("Say hey");
    const cancelled = await sortie(["task", "cancel", "@last", "--reason", "not today"]);
    expect(cancelled, cancelled.err).toMatchObject({ code: 0, out: `${id}: cancelled\n` });

    const shown = await sortie(["task", "show", id]);
    expect(shown.code, shown.err).toBe(0);
    expect(shown.out).toContain("not today");
    expect(shown.out).toContain("sleep 62.5");
    const object = JSON.parse((await sortie(["task", "show", id.slice(5, 30), "--json"])).out) as { taskID: string };
    expect(object.taskID).toBe(id);

    const logs = await sortie(["task", "logs", id]);
    expect(logs.code, logs.err).toBe(0);
    expect(lineWith(logs.out, "Cancel requested")).toContain("cli");

    const done = await sortie(["run", greet("hello", "hey"), "--title", "Say hey again"]);
    expect(done.code, done.out).toBe(0);
    const diff = await sortie(["task", "diff", "@last"]);
    expect(diff.out).toContain("+hey\n");
    const message = await sortie(["task", "message", "@last", greet("hey", "hello"), "--follow"]);
    expect(message.code, message.out + message.err).toBe(0);
    expect(readFileSync(join(project, "greet.txt"), "utf8")).toBe("hello\n");

    const archived = await sortie(["task", "archive", "@last", "--output", join(scratch.path, "out.zip")]);
    expect(archived.code, archived.err).toBe(0);
    const [head = ""] = /(?<=head )[0-9a-f]{64}/.exec(archived.out) ?? [];
    const entries = entriesOf(readFileSync(join(scratch.path, "out.zip")));
    expect(
      entries
        .find(({ path }) => path === "project/greet.txt")
        ?.read()
        .toString(),
    ).toBe("hello\n");
    expect(entries.map(({ path }) => path)).toContain("execution-flow/manifest.json");

    // Without a service, in the folder where it lies.
    const verify = (...args: string[]) => launch(["task", "verify", ...args]).ended;
    const proven = await verify("out.zip", "--head", head);
    expect([proven.code, proven.out.match(/^\w+ +\w+/gm)]).toEqual([
      0,
      ["files", "chain", "head", "events", "logs", "tree"].map((name) => `ok    ${name}`),
    ]);
    const other = await verify("out.zip", "--head", "0".repeat(64), "--json");
    const findings = other.out
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text) as { name: string; state: string });
    expect([other.code, findings.filter(({ state }) => state === "bad").map(({ name }) => name)]).toEqual([
      1,
      ["head"],
    ]);
    const none = await verify("none.zip");
    expect([none.code, none.err]).toEqual([2, expect.stringMatching(/^sortie: Cannot read none\.zip: ENOENT.*\n$/)]);

    const lost = await sortie(["task", "archive", "@last", "-o", join(scratch.path, "no/such/folder.zip")]);
    expect(lost.code).toBe(1);
    expect(existsSync(join(scratch.path, "no"))).toBe(false);
  });

  test("what landed is taken back, an attempt begun anew, a Task renamed and deleted", async () => {
    expect((await sortie(["run", greet("hello", "hey"), "--title", "Say hey once more"])).code).toBe(0);
    const idOf = async () =>
      (JSON.parse((await sortie(["task", "show", "@last", "--json"])).out) as { taskID: string }).taskID;
    const id = await idOf();
    const reverted = await sortie(["task", "revert", id, "--check", "grep -q hello greet.txt", "--follow"]);
    expect(reverted.code, reverted.out + reverted.err).toBe(0);
    expect(readFileSync(join(project, "greet.txt"), "utf8")).toBe("hello\n");
    const revertID = await idOf();
    expect((await sortie(["task", "show", revertID])).out).toMatch(new RegExp(`Reverts +${id}`));
    const none = await sortie(["task", "revert", id]);
    expect([none.code, none.err]).toEqual([expect.any(Number), expect.stringContaining("cannot be reverted")]);
    expect(none.code).not.toBe(0);

    const again = await sortie(["task", "retry", id, "--follow"]);
    expect(again.code, again.out + again.err).toBe(0);
    expect(readFileSync(join(project, "greet.txt"), "utf8")).toBe("hey\n");
    expect((await sortie(["task", "revert", id])).out).toContain(`reverts ${id}. Follow it`);
    expect((await sortie(["task", "logs", "@last", "--follow"])).code).toBe(0);
    expect(readFileSync(join(project, "greet.txt"), "utf8")).toBe("hello\n");

    expect((await sortie(["task", "rename", revertID, "Back to hello"])).out).toBe(`${revertID}: Back to hello\n`);
    expect((await sortie(["task", "rm", revertID])).code).toBe(0);
    expect((await sortie(["task", "show", revertID])).code).not.toBe(0);
  });

  test("text that steers terminals does not reach one", async () => {
    const hostile = `quiet${escape}]0;owned\u0007${escape}[2J\u009b31m\u202eevil`;
    const { code } = await sortie(["run", greet("hello", "hello there"), "--title", hostile]);
    expect(code).toBe(0);
    for (const args of [
      ["task", "ls"],
      ["task", "show", "@last"],
      ["task", "logs", "@last"],
    ]) {
      const { out } = await sortie(args);
      expect(out).toContain("quietevil");
      expect(out).not.toMatch(/(?!\n)\p{Cc}|\u202e/u);
    }
    // Control: the service keeps the title as it was sent.
    const object = JSON.parse((await sortie(["task", "show", "@last", "--json"])).out) as { title: string };
    expect(object.title).toBe(hostile);
  });
});

describe("mission", () => {
  test("a whole id, its unique beginning, or @last", async () => {
    const none = await sortie(["mission", "show", "@last"]);
    expect([none.code, none.err]).toEqual([2, expect.stringContaining("There are no Missions")]);
    for (const id of ["pay", "pay-later"])
      expect(await sortie(["mission", "wake", "hello", "--id", id])).toMatchObject({ code: 0 });
    const shown = async (given: string) => {
      const { code, out, err } = await sortie(["mission", "show", given, "--json"]);
      return code === 0 ? (JSON.parse(out) as { missionID: string }).missionID : err;
    };
    expect(await Promise.all(["pay", "pay-", "@last"].map(shown))).toEqual(["pay", "pay-later", "pay-later"]);
    expect(await shown("pa")).toContain('"pa" matches 2 Missions');
    expect((await sortie(["mission", "rm", "pay-l"])).out).toBe("pay-later: deleted; its Tasks are kept.\n");
    expect(await shown("pay-later")).toContain("No Mission has this id");
  });
});

test("trust: shows what a project asks for, and grants exactly that file", async () => {
  const dataDir = join(scratch.path, "trusting");
  const asks = (args: string[]) => JSON.stringify({ mcpServers: { docs: { command: "docs-mcp", args } } });
  const folder = makeProject(join(scratch.path, "asking"), { ".mcp.json": asks(["--all"]) });
  const trust = (...more: string[]) => launch(["trust", "-C", folder, "--data-dir", dataDir, ...more]).ended;
  const shown = await trust();
  expect([shown.code, shown.out]).toEqual([1, expect.stringContaining('docs: runs "docs-mcp --all"') as string]);
  const digest = /--digest ([0-9a-f]{64})/.exec(shown.out)?.[1] ?? "";
  const wrong = await trust("--digest", "0".repeat(64));
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("Nothing was granted") as string]);
  const granted = await trust("--digest", digest, "--json");
  expect([granted.code, JSON.parse(granted.out)]).toMatchObject([0, { granted: true, digest }]);
  expect((await trust()).code).toBe(0);
  writeFileSync(join(folder, ".mcp.json"), asks(["--some"]));
  expect((await trust()).code).toBe(1);
  writeFileSync(join(folder, ".mcp.json"), asks(["--all"]));
  expect((await trust("--revoke")).code).toBe(0);
  expect((await trust()).code).toBe(1);
  expect((await launch(["trust", "-C", project, "--data-dir", dataDir]).ended).out).toContain("nothing to grant");
});

describe("completion", () => {
  /** What bash would offer at the end of each line, by the script that the command prints. */
  const offers = async (lines: string[]): Promise<string[][]> => {
    const script = await launch(["completion", "bash"]).ended;
    expect([script.code, script.err]).toEqual([0, ""]);
    const driver = `
      sortie() { '${process.execPath}' '${bin}' "$@"; }
      while IFS= read -r COMP_LINE; do
        read -ra COMP_WORDS <<< "$COMP_LINE"
        [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)) COMPREPLY=()
        _sortie && printf '%s ' "\${COMPREPLY[@]}"
        echo
      done`;
    const input = lines.map((line) => `${line}\n`).join("");
    const out = execFileSync("bash", ["-c", `${script.out}\n${driver}`], { env, cwd: scratch.path, input });
    return out
      .toString()
      .split("\n")
      .slice(0, -1)
      .map((line) => line.split(" ").filter((word) => word !== ""));
  };

  test("commands, options, their values, and ids of the service that is named", async () => {
    const id = (await sortie(["task", "ls", "--json"])).out.match(/task_[0-9a-z]{26}/)?.[0] ?? "none";
    const at = `--url ${url} -C ${project}`;
    expect(
      await offers([
        "sortie ta",
        "sortie task sh",
        "sortie task show --j",
        "sortie run text --landing ",
        "sortie mission wake --landing ",
        "sortie run text --title ",
        `sortie task show ${at} ${id}`,
        `sortie task answer ${at} ${id} `,
        `sortie run text ${at} --squad adv`,
        "sortie task show --url http://127.0.0.1:1023 ",
      ]),
    ).toEqual([
      ["task"],
      ["show"],
      ["--json"],
      ["commit", "branch", "pull-request"],
      ["commit", "branch"],
      [],
      [id],
      [],
      ["advanced"],
      [],
    ]);
  });

  test("zsh and fish have every command; another shell is refused", async () => {
    const help = (await launch(["--help"]).ended).out;
    const commands = [...help.matchAll(/^ {2}([a-z]+) /gm)].flatMap(([, name]) => (name === "help" ? [] : [name]));
    expect(commands).toContain("completion");
    for (const shell of ["zsh", "fish"]) {
      const { out } = await launch(["completion", shell]).ended;
      for (const name of commands) expect(out).toContain(`' ${name}'`);
    }
    expect((await launch(["completion", "tcsh"]).ended).code).toBe(2);
  });
});

describe("open", () => {
  test("says where the page is; pictures that there are not end with 1", async () => {
    const shown = await sortie(["task", "open", "@last"]);
    expect([shown.code, shown.out]).toEqual([
      0,
      expect.stringMatching(new RegExp(`^${url}/ui/task/task_[0-9a-z]{26}\n$`)),
    ]);
    const page = await fetch(shown.out.trim(), {
      headers: { authorization: `Basic ${Buffer.from(`service:${password}`).toString("base64")}` },
    });
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const none = await sortie(["task", "open", "@last", "--pictures"]);
    expect([none.code, none.err]).toEqual([1, expect.stringContaining("Expected screenshots")]);
  });
});

describe("demo", () => {
  test("shows the road of a Task, and leaves nothing behind", async () => {
    const folder = join(scratch.path, "demo");
    mkdirSync(folder);
    // What the user has set up must not change it.
    const extra = { TMPDIR: folder, SERVICE_MODEL: "nobody/nothing", SERVICE_PORT: "1", GIT_DIR: "/nowhere" };
    const { code, out, err } = await launch(["demo"], { extra }).ended;
    expect({ code, err }, out).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/npm test before the work: failed[\s\S]*npm test after the work: passed/);
    expect(out).toMatch(/\nLanded commit [0-9a-f]{40}\n/);
    expect(out).toMatch(/ project\/sum\.js\n[\s\S]* execution-flow\/manifest\.json\n/);
    expect(readdirSync(folder)).toEqual([]);
  });

  test("--mission: a list of three, one with a squad made for it, one after the others", {
    timeout: 60_000,
  }, async () => {
    const folder = join(scratch.path, "demo-mission");
    mkdirSync(folder);
    const extra = { TMPDIR: folder, SERVICE_MODEL: "nobody/nothing", SERVICE_ALLOW_SQUAD_PRODUCTION: "0" };
    const { code, out, err } = await launch(["demo", "--mission"], { extra }).ended;
    expect({ code, err }, out).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/Creating a squad: amounts-docs[\s\S]*is in the catalog, exactly as created[\s\S]*Done: /);
    expect(out).toMatch(/done {2}Run the tests \(after item-1, item-2\): squad base/);
    expect(out).toContain("with the flow of 4 Tasks");
    // The locks that squads are installed under stay: a lock's file that is removed could be held twice.
    expect(readdirSync(folder).filter((name) => name.startsWith("sortie-demo"))).toEqual([]);
  });

  test.runIf(canServe)(
    "--team: from an issue to a merged pull request, by a Git host of its own",
    {
      timeout: 60_000,
    },
    async () => {
      const folder = join(scratch.path, "demo-team");
      mkdirSync(folder);
      const extra = { TMPDIR: folder, SERVICE_MODEL: "nobody/nothing", SERVICE_FORGE_PORT: "1", GIT_DIR: "/nowhere" };
      const { code, out, err } = await launch(["demo", "--team"], { extra }).ended;
      expect({ code, err }, out).toEqual({ code: 0, err: "" });
      expect(out).toContain("Signed with another secret: 401. From mallory, who is not listed: mallory is not among");
      // Both run at the same time, and may end in any order.
      expect(out).toContain("npm test before the work: failed");
      expect(out).toContain("npm test after the work: passed");
      expect(out).toMatch(/\n#2 Cents drift: sortie\/task_\w{26} into main\n/);
      expect(out).toMatch(/and the follow-up, live[\s\S]*Replaced 1 match/);
      // Found before the follow-up, and called by its name all the same.
      expect(out).not.toContain("Check project-test");
      expect(out).toMatch(/Merged, and the branch is removed\. On main:\n {2}[0-9a-f]{7,} Cents drift\n/);
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  test("control: where the check does not fail before the work, it says so and exits 1", async () => {
    const folder = join(scratch.path, "fake");
    mkdirSync(folder);
    writeFileSync(join(folder, "npm"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    const { code, err } = await launch(["demo"], { extra: { PATH: `${folder}:${env.PATH}` } }).ended;
    expect(code).toBe(1);
    expect(err).toContain("The demo failed: expected the check to fail before the work, got passed.");
  });
});

test("trust: an environment is shown whole, and granted apart from the servers", async () => {
  const dataDir = join(scratch.path, "trusting");
  const asked = {
    setup: "npm ci",
    setupNetwork: ["registry.npmjs.org"],
    variables: { NODE_ENV: "test" },
    secrets: ["DB_PASSWORD"],
    limits: { setupSeconds: 60 },
  };
  const folder = makeProject(join(scratch.path, "asking-more"), {
    ".mcp.json": JSON.stringify({ mcpServers: { docs: { command: "docs-mcp" } } }),
    ".sortie/environment.jsonc": `// ours\n${JSON.stringify(asked)}`,
  });
  const trust = (...more: string[]) => launch(["trust", "-C", folder, "--data-dir", dataDir, ...more]).ended;
  const { code, out } = await trust();
  expect(code).toBe(1);
  for (const words of [
    'runs "npm ci"',
    "registry.npmjs.org",
    "NODE_ENV=test",
    "DB_PASSWORD",
    "setupSeconds 60",
    "docs-mcp",
  ])
    expect(out).toContain(words);
  const [, second = ""] = [...out.matchAll(/--digest ([0-9a-f]{64})/g)].map(([, digest]) => digest);
  const granted = await trust("--digest", second, "--json");
  expect(granted.code).toBe(0);
  const lines = granted.out.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { file: ".mcp.json", granted: false },
    { file: ".sortie/environment.jsonc", granted: true, ...asked },
  ]);
  expect((await trust()).out).toContain("Granted. It applies to Tasks");
  mkdirSync(dataDir, { recursive: true });
  writeFileSync(join(dataDir, "config.jsonc"), JSON.stringify({ environments: { [folder]: { network: "none" } } }));
  expect((await trust()).out).toContain("Granted. It has no effect while `environments` in config.jsonc");
  rmSync(join(dataDir, "config.jsonc"));
  writeFileSync(join(folder, ".sortie/environment.jsonc"), JSON.stringify({ network: "everything" }));
  const wrong = await trust();
  expect([wrong.code, wrong.out]).toEqual([1, expect.stringContaining("cannot be used: network") as string]);
});

describe("doctor", () => {
  test("environments: what they name and this machine does not have", async () => {
    const folder = join(scratch.path, "environments");
    mkdirSync(folder, { recursive: true });
    let written = {};
    const write = (secretStore: object, environments: object) => (written = { secretStore, environments });
    const doctor = (tier = 1) => {
      writeFileSync(join(folder, "config.jsonc"), JSON.stringify({ ...written, sandbox: { tier } }));
      return launch(["doctor", "--port", "0", "--data-dir", folder]).ended;
    };
    write(
      { A: "env:NOT_SET_HERE", B: "file:/nowhere/b", C: { command: ["no-such-pass", "show"] } },
      { "/nowhere/shop": { secrets: ["A"] } },
    );
    const missing = await doctor();
    expect(missing.code).toBe(1);
    for (const words of [
      "A: NOT_SET_HERE is not set",
      "B: /nowhere/b cannot be read",
      "C: no-such-pass is not installed",
      "/nowhere/shop: there is no such folder",
    ])
      expect(missing.out).toContain(words);
    const network = ["registry.npmjs.org"];
    write({ C: { command: ["cat", "/dev/null"] } }, { [folder]: { secrets: ["C"], network } });
    const weaker = await doctor(3);
    expect([weaker.code, weaker.out]).toEqual([1, expect.stringContaining("it needs bubblewrap (tier 1)") as string]);
    const there = await doctor();
    expect([there.code, lineWith(there.out, "Environments")]).toEqual([
      0,
      expect.stringContaining("of 1 project, 1 secret") as string,
    ]);
  });

  test("images: which engine has them, and which are missing", async () => {
    const folder = join(scratch.path, "images");
    mkdirSync(join(folder, "engine"), { recursive: true });
    mkdirSync(join(folder, "root"));
    const { bin } = makeEngine(join(folder, "engine"), join(folder, "root"));
    const doctor = (image: string, PATH: string) => {
      const settings = { sandbox: { containers: "experimental" }, environments: { [folder]: { image } } };
      writeFileSync(join(folder, "config.jsonc"), JSON.stringify(settings));
      return launch(["doctor", "--port", "0", "--data-dir", folder], { extra: { PATH } }).ended;
    };
    const path = `${bin}:${process.env["PATH"] ?? ""}`;
    const there = await doctor(reference, path);
    expect([there.code, lineWith(there.out, "Images")]).toEqual([
      0,
      expect.stringContaining(`of podman (${bin}/podman); an experiment`) as string,
    ]);
    const missing = await doctor("localhost/other:1", path);
    expect([missing.code, lineWith(missing.out, "Images")]).toEqual([
      1,
      expect.stringContaining("no image localhost/other:1 on this machine") as string,
    ]);
  });

  test("a machine in order: exit 0; the running service is recognised", async () => {
    const args = ["doctor", "--port", "0", "--data-dir", join(scratch.path, "new")];
    const free = await launch(args).ended;
    expect(free.code, free.out).toBe(0);
    expect(lineWith(free.out, "Model")).toContain("builtin/rules-1");
    const keyless = await launch(args, { extra: { SERVICE_MODEL: "anthropic/large" } }).ended;
    expect(keyless.code).toBe(1);
    expect(lineWith(keyless.out, "bad   Model")).toContain("ANTHROPIC_API_KEY");
    const there = await launch([
      "doctor",
      "--port",
      new URL(url).port,
      "--data-dir",
      join(scratch.path, "data"),
      "--json",
    ]).ended;
    expect(there.code, there.out).toBe(0);
    const findings = there.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { name: string; state: string });
    expect(findings.map(({ name }) => name)).toEqual([
      "Node",
      "Git",
      "ripgrep",
      "Settings",
      "Data folder",
      "Disk",
      "Service",
      "Model",
      "Local models",
      "Squads",
      "Store",
      "Clock",
      "Webhooks",
      "Repositories",
      "Sandbox",
      "Browser",
      "Worktrees",
      "Processes",
    ]);
    expect(existsSync(join(scratch.path, "new"))).toBe(false);
  });

  test("repositories: what opens them, what is wrong with a credential, and which mirrors nobody used for long", async () => {
    const folder = join(scratch.path, "repositories");
    const home = join(folder, "repositories/app-0123456789ab");
    mkdirSync(join(home, "mirror.git"), { recursive: true });
    writeFileSync(join(home, "mirror.git/HEAD"), "ref: refs/heads/main\n");
    writeFileSync(join(home, "head.json"), '{ "url": "https://git.example/acme/app.git", "ref": null }');
    writeFileSync(join(home, "used"), "");
    const look = async (repositories: object) => {
      writeFileSync(join(folder, "config.jsonc"), JSON.stringify({ repositories }));
      const { out } = await launch(["doctor", "--port", "0", "--data-dir", folder]).ended;
      return [lineWith(out, "Repositories"), lineWith(out, "Mirrors")];
    };
    expect(await look({})).toEqual([expect.stringContaining('"allow": ["https://*"]'), ""]);
    const match = "https://git.example/*";
    const wrong = await look({ allow: [match], credentials: [{ match, token: "env:NOT_SET_HERE" }] });
    expect(wrong[0]).toMatch(/^bad .*credentials\.0\.token: the variable NOT_SET_HERE is not set/);
    expect(await look({ allow: [match] })).toEqual([expect.stringMatching(/^ok .*1 allowed address, no cred/), ""]);
    const longAgo = new Date(Date.now() - 100 * 24 * 3_600_000);
    utimesSync(join(home, "used"), longAgo, longAgo);
    expect((await look({ allow: [match] }))[1]).toContain("https://git.example/acme/app.git not used for 90 days");
    expect((await look({ allow: [match], mirrorDays: 0 }))[1]).toBe("");
  });

  test("MCP servers: a program that is missing is bad, an address that does not answer is noted", async () => {
    const folder = join(scratch.path, "servers");
    mkdirSync(folder);
    const hidden = join(folder, "docs-mcp");
    writeFileSync(hidden, "#!/bin/sh\n", { mode: 0o755 });
    const mcpServers = {
      here: { command: process.execPath },
      hidden: { command: hidden },
      project: { command: "./tools/docs-mcp" },
      fetched: { command: "npx", args: ["-y", "docs-mcp"] },
      online: { command: "npx", args: ["-y", "docs-mcp"], network: "all" },
      listed: { command: process.execPath, network: ["docs.example.org"] },
      gone: { command: "no-such-program-anywhere" },
      far: { url: `${closedURL}/mcp` },
    };
    writeFileSync(join(folder, "config.jsonc"), JSON.stringify({ mcpServers }));
    const { code, out } = await launch(["doctor", "--port", "0", "--data-dir", folder]).ended;
    expect(code).toBe(1);
    expect(lineWith(out, "MCP here")).toMatch(/^ok .*installed/);
    expect(lineWith(out, "MCP gone")).toMatch(/^bad .*no-such-program-anywhere is not installed/);
    expect(lineWith(out, "MCP far")).toContain(closedURL);
    if (lineWith(out, "Sandbox").includes("bubblewrap"))
      expect(lineWith(out, "MCP hidden")).toMatch(/^note .*docs-mcp is installed, and commands cannot read it/);
    expect(lineWith(out, "MCP project")).toMatch(/^ok /);
    expect(lineWith(out, "MCP fetched")).toMatch(/^note .*npx fetches packages, and has no network here/);
    expect(lineWith(out, "MCP online")).toMatch(/^ok /);
    expect(lineWith(out, "MCP listed")).toMatch(lineWith(out, "Sandbox").includes("bubblewrap") ? /^ok / : /^bad /);
    // A sandbox that has no lists; a form that no list has.
    mkdirSync(join(folder, "bin"));
    writeFileSync(join(folder, "bin/bwrap"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
    const weaker = { PATH: `${join(folder, "bin")}:${env.PATH}` };
    const off = await launch(["doctor", "--port", "0", "--data-dir", folder], { extra: weaker }).ended;
    expect(lineWith(off.out, "MCP listed")).toMatch(
      /^bad .* cannot be kept to a list of hosts here: it needs bubblewrap/,
    );
    expect(lineWith(off.out, "MCP online")).toMatch(/^ok /);
    const wrong = { listed: { command: process.execPath, network: ["https://docs.example.org/"] } };
    writeFileSync(join(folder, "config.jsonc"), JSON.stringify({ mcpServers: wrong }));
    const { code: refused, out: said, err } = await launch(["doctor", "--port", "0", "--data-dir", folder]).ended;
    expect([refused, said + err]).toEqual([1, expect.stringContaining("expected a host such as") as string]);
  });

  test("a kernel that takes no filter of system calls is said; with one it says that they are filtered", async () => {
    const args = ["doctor", "--port", "0", "--data-dir", join(scratch.path, "new")];
    const here = await launch(args).ended;
    if (!lineWith(here.out, "Sandbox").includes("tier 1")) return;
    expect(lineWith(here.out, "Sandbox")).toMatch(
      /ok +Sandbox +bubblewrap, tier 1, network off, system calls filtered$/,
    );
    const folder = join(scratch.path, "unfiltered");
    mkdirSync(folder);
    const refuse =
      'for each; do if [ "$each" = --seccomp ]; then echo "bwrap: prctl(PR_SET_SECCOMP): no" >&2; exit 1; fi; done';
    const real = (env.PATH ?? "")
      .split(":")
      .map((each) => join(each, "bwrap"))
      .find((file) => existsSync(file));
    writeFileSync(join(folder, "bwrap"), `#!/bin/bash\n${refuse}\nexec ${real} "$@"\n`, { mode: 0o755 });
    const { code, out } = await launch(args, { extra: { PATH: `${folder}:${env.PATH}` } }).ended;
    expect(code, out).toBe(0);
    expect(out).toMatch(
      /note +Sandbox +bubblewrap, tier 1, network off\n +System calls are not filtered: bwrap: prctl\(PR_SET_SECCOMP\): no\. Use a kernel/,
    );
  });

  test("a clock behind what is on record, or beside the database's, is bad", () => {
    const now = new Date("2026-01-01T00:00:00Z");
    const state = (ahead: number, both: boolean) =>
      clockAgainst(new Date(now.getTime() + ahead * 1000), "it", both, now).state;
    expect([state(4, false), state(60, false), state(-60, false), state(60, true), state(-60, true)]).toEqual([
      "ok",
      "bad",
      "ok",
      "bad",
      "bad",
    ]);
    expect(clockAgainst(new Date("2026-01-01T00:01:00Z"), "the newest event on record", false, now).text).toBe(
      "2026-01-01 00:00:00 UTC, 60 s behind the newest event on record",
    );
  });

  test("a port of another program and a file as data folder: exit 1, each with its remedy", async () => {
    const other = createServer((socket) => socket.destroy());
    await new Promise<void>((done) => other.listen(0, "127.0.0.1", done));
    const address = other.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { code, out } = await launch(["doctor", "--port", String(port), "--data-dir", join(project, "greet.txt")])
      .ended;
    other.close();
    expect(code, out).toBe(1);
    expect(out).toContain(`Port ${port} is used by another program.`);
    expect(lineWith(out, "bad   Data folder")).toContain("greet.txt");
  });
});
