import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tableOf } from "../../../src/cli/completion/completion.ts";
import { createProgram } from "../../../src/cli/main.ts";
import { configFile } from "../../../src/config/file.ts";
import { createMetrics } from "../../../src/http/metrics.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { built } from "../../harness/built.ts";
import { entriesOf } from "../../harness/entries.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { blocksOf, home, localAddress, page } from "./manual.ts";

/** The guide's programs run as they stand there; what it, README and the operator's page name, exists. */

const root = temporary("sortie-guide-");
let service: TestService;
let directory: string;

beforeAll(async () => {
  await built();
  const config = join(root.path, "config.jsonc");
  writeFileSync(config, '{ "sandbox": { "tier": 3 } }');
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
  directory = makeProject(join(root.path, "sum"), {
    "package.json": '{ "type": "module", "scripts": { "test": "true" } }\n',
    ".gitignore": "node_modules\ntask.zip\nprogram.*\n",
  });
  mkdirSync(join(directory, "node_modules"));
  symlinkSync(home, join(directory, "node_modules/sortie"));
}, 60_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

describe("the guide's programs", () => {
  const programs = blocksOf(page("docs/guide.md")).filter(({ info }) => info["run"] === "program");

  test.each([
    ["ts", process.execPath],
    ["bash", "bash"],
    ["python", "python3"],
  ])("%s: create, events, message, archive", async (lang, command) => {
    const text = programs.find((block) => block.lang === lang)?.text ?? "";
    expect(text).toContain(localAddress);
    const file = join(directory, `program.${lang === "ts" ? "ts" : "txt"}`);
    writeFileSync(file, text.replace(localAddress, service.url));
    writeFileSync(join(directory, "task.zip"), "");
    const { PATH = "" } = process.env;
    const said = await new Promise<string>((resolve) => {
      execFile(command, [file], { cwd: directory, env: { PATH, HOME: root.path } }, (error, out, err) =>
        resolve(`${out}${error === null ? "" : `${error.message}\n${err}`}`),
      );
    });
    expect(said).toContain("task.settled");
    if (lang === "bash") expect(said).toMatch(/"lifecycleStatus":"completed".*"attempt":2/);
    else expect(said).toMatch(/\ntask\.settled\nstream\.end\ncompleted 2\n$/);
    const names = entriesOf(readFileSync(join(directory, "task.zip"))).map((entry) => entry.path);
    expect(names).toEqual(expect.arrayContaining(["project/package.json", "execution-flow/manifest.json"]));
  });
});

describe("what the pages name", () => {
  const pages = ["docs/guide.md", "docs/operations.md", "README.md"].map((path) => [path, page(path)] as const);
  const { commands, options } = tableOf(createProgram(() => {}));
  const groups = new Set(commands.filter((at) => commands.some((other) => other.startsWith(`${at} `))));

  /** What is wrong with a command line of `sortie`; undefined: nothing. */
  const faultOf = (line: string): string | undefined => {
    const words = line.match(/"[^"]*"|'[^']*'|\S+/g) ?? [];
    let at = "";
    for (const word of words.slice(1)) {
      const next = at === "" ? word : `${at} ${word}`;
      if (!commands.includes(next)) break;
      at = next;
    }
    if (at === "" || groups.has(at)) return `no command: ${line}`;
    const known = new Set(options.find((entry) => entry.at === at)?.words.map(([name]) => name));
    const unknown = words.filter((word) => /^--?[a-zA-Z]/.test(word) && !known.has(word));
    return unknown.length === 0 ? undefined : `no such option: ${unknown.join(" ")} in ${line}`;
  };
  const linesOf = (text: string): string[] =>
    [
      ...blocksOf(text)
        .filter(({ lang }) => lang === "sh")
        .flatMap((block) => block.text.split("\n")),
      ...[...text.matchAll(/`(sortie [^`\n]+)`/g)].map(([, line]) => line ?? ""),
    ]
      .filter((line) => line.startsWith("sortie ") && !line.includes("…"))
      .map((line) => line.replace(/\s+#.*$/, ""));

  test("commands with their options", () => {
    const lines = pages.flatMap(([, text]) => linesOf(text));
    expect(lines.length).toBeGreaterThan(20);
    expect(lines.flatMap((line) => faultOf(line.split(/[,)]/)[0] ?? "") ?? [])).toEqual([]);
    expect(faultOf("sortie task fly")).toBe("no command: sortie task fly");
    expect(faultOf("sortie run x --wings")).toContain("--wings");
  });

  test("variables, keys, limits, figures, files and links", async () => {
    const known = page("docs/configuration.md");
    const metrics = createMetrics({
      tasksRunning: () => 0,
      missionsRunning: () => 0,
      waiting: () => Promise.resolve(0),
      slotsFree: () => 0,
      diskFree: () => 0,
      diskPause: () => 0,
      breakers: () => [],
      nodes: () => Promise.resolve([]),
      webhooks: () => Promise.resolve({ pending: 0, dead: 0, enabled: 0, paused: 0, disabled: 0 }),
      connections: () => ({}),
    });
    const figures = await metrics.text();
    const wrong = pages.flatMap(([path, text]) => [
      ...[...text.matchAll(/SERVICE_[A-Z_]+/g)].filter(([name]) => !known.includes(`\`${name}\``)).map(String),
      ...[...text.matchAll(/\blimits\.(\w+)/g)].filter(([, name]) => !((name ?? "") in defaultLimits)).map(String),
      ...[...text.matchAll(/`workspace\.(\w+)`/g)]
        .filter(([, name]) => !((name ?? "") in (configFile.shape.workspace.unwrap().shape as object)))
        .map(String),
      ...[...text.matchAll(/`((?:sortie|nodejs|process)_\w+)`/g)]
        .filter(([, name]) => !figures.includes(`# TYPE ${name} `))
        .map(String),
      ...[...text.matchAll(/\]\((?!https?:)([^)#]+)/g)]
        .filter(([, link]) => !existsSync(join(home, path, "..", link ?? "")))
        .map(String),
    ]);
    expect(wrong).toEqual([]);
    expect(figures).toContain("# TYPE sortie_tasks_running ");
    expect(existsSync(join(home, "docs/none.md"))).toBe(false);
  });
});

test("README has at most 900 words, and its moving picture at most 2 MB; control: more of either is found", () => {
  const faultsOf = (text: string, sizeOf: (path: string) => number): string[] => [
    ...(text.split(/\s+/).filter(Boolean).length > 900 ? ["too long"] : []),
    ...[...text.matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].flatMap(([, path = ""]) =>
      sizeOf(path) > 2_000_000 ? [path] : [],
    ),
  ];
  const readme = page("README.md");
  expect(readme).toContain("](docs/images/run.webp)");
  expect(faultsOf(readme, (path) => statSync(join(home, path)).size)).toEqual([]);
  expect(faultsOf(readme + " word".repeat(900), () => 2_000_001)).toEqual(["too long", "docs/images/run.webp"]);
});
