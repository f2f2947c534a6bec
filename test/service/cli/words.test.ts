import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { built, compileCache } from "../../harness/built.ts";
import { textsOf, writePackage } from "../../harness/double/squads.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { terminalHere, typeInto } from "../../harness/terminal.ts";
import { home } from "../document/manual.ts";

/**
 * What the command line says: flags instead of fields, the nearest word, no password; and what it shows on a terminal.
 */

const root = temporary("sortie-words-");
const bin = join(home, "bin/sortie.js");
const password = "correct-horse";
let service: TestService;
let project = "";

beforeAll(async () => {
  await built();
  project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  service = await startService(join(root.path, "data"), { SERVICE_SERVER_PASSWORD: password });
}, 120_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const env = { PATH: process.env["PATH"] ?? "", HOME: root.path, ...compileCache };
const inside = () => service.url.replace("http://", `http://service:${password}@`);

const sortie = (
  args: readonly string[],
  extra: Record<string, string> = { SERVICE_URL: inside() },
): Promise<{ code: number; out: string; err: string }> =>
  new Promise((resolve) => {
    const options = { cwd: project, env: { ...env, ...extra } };
    execFile(process.execPath, [bin, ...args], options, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    );
  });

test("a wrong value is told once, by its flag, with the nearest right one", async () => {
  const told = async (...args: string[]) => {
    const { code, err } = await sortie(["run", ...args]);
    return [code, err];
  };
  expect(await told("run the tests", "--squad", "bse")).toEqual([
    2,
    'sortie: Expected --squad to be an installed squad (advanced, base, docs, research), got "bse". Did you mean base?\n',
  ]);
  expect(await told("x", "--callback", "foo")).toEqual([
    2,
    'sortie: --callback: Expected an absolute URL, got "foo"\n',
  ]);
  expect(await told("x", "-C", "/nowhere")).toEqual([
    2,
    'sortie: Expected --directory to be an existing folder, got "/nowhere".\n',
  ]);
  expect(await told("run", "the", "tests")).toEqual([
    2,
    'sortie: Expected one request, got 3 words. Put it in quotes: sortie run "run the tests"\n',
  ]);
  expect((await told("x", "--chek", "true"))[1]).toContain("(Did you mean --check?)\nTry `sortie run --help`.");
});

test("credentials in the address are used and never printed; SERVICE_URL is the address without --url", async () => {
  const created = await sortie(["run", "dead links", "--detach"]);
  expect([created.code, created.err]).toEqual([0, ""]);
  expect((await sortie(["task", "ls", "--url", inside()], {})).out).toContain(created.out.trim());
  const refused = await sortie(["task", "ls", "--url", inside().replace(password, "another-secret")], {});
  expect([refused.code, refused.err]).toEqual([4, expect.stringContaining(service.url)]);
  const away = await sortie(["task", "ls", "--url", "http://service:another-secret@127.0.0.1:1023"], {});
  expect([away.code, away.err]).toEqual([3, expect.stringContaining("No service answers at http://127.0.0.1:1023 (")]);
  const form = await sortie(["task", "ls", "--url", "ftp://service:another-secret@host"], {});
  expect([form.code, form.err]).toEqual([2, expect.stringContaining('got "ftp://host"')]);
  for (const { out, err } of [refused, away, form]) expect(out + err).not.toContain("another-secret");
  // Control: without them the service refuses.
  expect((await sortie(["task", "ls", "--url", service.url], {})).code).toBe(4);
});

test.each([
  ["an unknown name", '{\n  "modle": "x/y"\n}\n', '2:3: Unknown setting "modle". Did you mean model?'],
  [
    "an unknown name further in",
    '{ "providers": { "a": { "kind": "openai",\n "baseUrl": "http://a" } } }',
    '2:2: providers.a: Unknown setting "baseUrl". Did you mean baseURL?',
  ],
  ["a form", '{\n  "model": x\n}\n', "2:12: Expected a value, such as a text in double quotes."],
  ["a value", '{\n  "limits": { "steps": "many" } }', "2:24: limits.steps:"],
])("config.jsonc: %s is told with line and column", async (_, text, said) => {
  const file = join(root.path, "wrong.jsonc");
  writeFileSync(file, text);
  const data = join(root.path, "other");
  const { code, err } = await sortie(["serve", "--port", "0", "--data-dir", data, "--config", file]);
  expect([code, err]).toEqual([78, expect.stringContaining(`${file}:${said}`)]);
});

test("what only a language model understands is told in two lines, and no form is left out of the manual", async () => {
  const { code, out } = await sortie(["run", "find out why"]);
  expect(code).toBe(6);
  const lines = out.trimEnd().split("\n");
  const from = lines.findIndex((line) => line.startsWith("NEEDS_MODEL"));
  expect(lines.slice(from)).toEqual([
    'NEEDS_MODEL: this Task needs a language model. The built-in rules do not understand "find out why". Nothing was done.',
    'Use a model: set ANTHROPIC_API_KEY (or the key of another provider), or name one in config.jsonc. Or use a form that the built-in rules know, such as `run the tests` or `replace "A" with "B" in docs/*.md`. All forms: ' +
      `${service.url}/ui/manual/rules`,
  ]);
});

test("an id by its end; one that fits none is told", async () => {
  const { out } = await sortie(["run", "dead links", "--detach", "--title", "By its end"]);
  const id = out.trim();
  expect((await sortie(["task", "show", id.slice(-6)])).out).toContain("By its end");
  expect(await sortie(["task", "show", "zzzzzz"])).toMatchObject({
    code: 2,
    err: expect.stringContaining('has an id that begins or ends with "zzzzzz"'),
  });
});

test("a Mission's page: its address; an unknown one has none", async () => {
  await sortie(["mission", "wake", "1. dead links", "--id", "links"]);
  const shown = await sortie(["mission", "open", "links", "--print"]);
  expect(shown).toMatchObject({
    code: 0,
    out: `${service.url}/ui/mission/links?project=${encodeURIComponent(project)}\n`,
  });
  expect((await sortie(["mission", "open", "nope", "--print"])).code).toBe(2);
});

test("a squad's package is checked where no service answers", async () => {
  const away = { SERVICE_URL: "http://127.0.0.1:1023" };
  const folder = join(root.path, "api");
  writePackage(folder, textsOf());
  expect(await sortie(["squad", "validate", folder], away)).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^api 1\.0\.0 is valid \([0-9a-f]{64}\)\.\n$/),
  });
  // Control: the same with a mistake, and nothing there.
  mkdirSync(join(folder, "lib"));
  writeFileSync(join(folder, "lib/x.js"), "");
  expect((await sortie(["squad", "validate", folder], away)).code).toBe(1);
  expect((await sortie(["squad", "validate", join(root.path, "none")], away)).code).toBe(2);
});

describe.runIf(terminalHere)("on a terminal", () => {
  const onTerminal = (args: string[], columns: number) =>
    typeInto([process.execPath, bin, ...args], [], { env: { ...env, SERVICE_URL: inside() }, cwd: project, columns });
  const bare = (text: string): string[] =>
    text
      // oxlint-disable-next-line no-control-regex -- colours
      .replaceAll(/\u001b\[[0-9;]*[a-zA-Z]/g, "")
      .split(/[\r\n]+/);

  test("run shows a tree of stages, and what is done now", async () => {
    const { code, out } = await onTerminal(
      ["run", 'replace "one" with "two" in a.txt', "--check", "sleep 1.5; grep -q two a.txt"],
      100,
    );
    expect(code, out).toBe(0);
    const lines = bare(out);
    expect(lines.filter((line) => line.startsWith("● "))).toEqual([
      "● Queue",
      "● Work",
      "● Checks",
      "● Review",
      "● Land",
    ]);
    const at = (text: string) => lines.findIndex((line) => line.includes(text));
    expect(at("● Work")).toBeLessThan(at("Working on a copy"));
    expect(at("● Checks")).toBeLessThan(at("after the work: passed"));
    expect(at("after the work: passed")).toBeLessThan(at("● Land"));
    expect(out).toMatch(/Running sleep 1\.5; grep -q two a\.txt · \d/);
  });

  test("task ls fits: short ids, ages, colours; in a pipe whole ids and times", async () => {
    const long = "A title that is far too long for a narrow terminal and has to be cut off somewhere";
    const id = (await sortie(["run", "dead links", "--detach", "--title", long])).out.trim();
    for (const columns of [60, 100]) {
      const { out } = await onTerminal(["task", "ls"], columns);
      const lines = bare(out);
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
      const row = lines.find((line) => line.startsWith(id.slice(-6))) ?? "";
      expect(row).toMatch(/ \d+ (?:s|min) .*A title/);
      expect(row).not.toContain(id);
      expect(out).toContain("\u001b[32mcompleted");
    }
    const piped = (await sortie(["task", "ls"])).out;
    expect(piped).toMatch(new RegExp(`^${id} .* \\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\dZ `, "m"));
    expect(piped).not.toContain("\u001b");
  });
});
