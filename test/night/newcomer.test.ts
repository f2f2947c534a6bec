import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { afterAll, expect, test } from "vitest";
import { browserHere } from "../harness/browser.ts";
import { git, makeProject, readText, temporary, until } from "../harness/project.ts";
import { registryAnswers, type Shell, shellIn } from "./packed.ts";

/**
 * Somebody's first minutes, with a clock: from `git clone` to a change that landed, on the page in a real browser, with
 * the command line, and with curl alone; with what npm has in its cache here, and with nothing. Prints the seconds of
 * each stage.
 */

const home = join(import.meta.dirname, "../..");
const root = temporary("sortie-newcomer-");
afterAll(() => root[Symbol.dispose]());

/** The Node that the machine has, as a newcomer's terminal finds it, without the tools of this repository. */
const path = (process.env["PATH"] ?? "").split(":").filter((folder) => !folder.includes("node_modules"));

const request = 'replace "hello" with "good day" in greet.txt';
const files = { "greet.txt": "hello\n", "package.json": '{ "scripts": { "test": "grep -q good greet.txt" } }\n' };

type Land = (url: string, project: string, stage: (name: string) => void, clone: Shell) => Promise<void>;

/** Clone, `npm start`, and what `land` does on the service; every stage with its seconds. */
const walk = async (name: string, cold: boolean, land: Land): Promise<void> => {
  const folder = join(root.path, name);
  mkdirSync(join(folder, "home"), { recursive: true });
  const project = makeProject(join(folder, "project"), files);
  const { env } = shellIn(folder, path[0] ?? "");
  const own = {
    ...env,
    PATH: path.join(":"),
    SERVICE_PORT: "0",
    SERVICE_DATA_DIR: join(folder, "data"),
    XDG_CACHE_HOME: join(folder, "home"),
    ...(cold ? { npm_config_cache: join(folder, "cache") } : {}),
  };
  const stages: [string, number][] = [];
  const began = performance.now();
  let last = began;
  const stage = (what: string) => {
    const now = performance.now();
    stages.push([what, (now - last) / 1000]);
    last = now;
  };
  git(folder, "clone", "-q", home, "sortie");
  stage("clone");
  const service: ChildProcess = spawn("npm", ["start"], { cwd: join(folder, "sortie"), env: own, detached: true });
  const ended = new Promise((done) => service.once("close", done));
  const said: { text: string; at: number }[] = [];
  for (const stream of [service.stdout, service.stderr])
    stream?.on("data", (chunk) => said.push({ text: String(chunk), at: performance.now() }));
  const all = () => said.map(({ text }) => text).join("");
  const told = (what: string) =>
    until(
      async () => all(),
      (text) => text.includes(what),
      800_000,
    );
  try {
    await told("building: done");
    stage("install and build");
    await told("\nData ");
    stage("start");
    // Whoever waits is told something at least every eleven seconds.
    const silence = Math.max(...said.map(({ at }, index) => at - (said[index - 1]?.at ?? at)));
    expect(silence, all()).toBeLessThan(15_000);
    expect(all()).not.toContain("EBADENGINE");
    const url = /listening on (\S+)/.exec(all())?.[1] ?? "";
    // The line says how to go on, and that way exists in a clone.
    expect(all()).toMatch(/in a browser, or: npm run -s sortie -- run .* --url http:\S+/);
    await land(url, project, stage, shellIn(join(folder, "sortie"), path[0] ?? "", own));
    expect(readText(project, "greet.txt")).toBe("good day\n");
    expect(git(project, "log", "--format=%an", "-1")).not.toBe("Tester");
  } finally {
    if (service.pid !== undefined) process.kill(-service.pid, "SIGTERM");
    await ended;
  }
  const total = (last - began) / 1000;
  const line = stages.map(([what, seconds]) => `${what} ${seconds.toFixed(1)}`).join(", ");
  console.log(`${name}, ${cold ? "cold" : "warm"} npm cache: ${total.toFixed(1)} s (${line})`);
};

const byPage: Land = async (url, project, stage) => {
  const browser = await chromium.launch({
    executablePath: browserHere ?? "chromium",
    chromiumSandbox: process.getuid?.() !== 0,
  });
  try {
    const page = await browser.newPage();
    await page.goto(url);
    await page.getByLabel("Project directory").fill(project);
    await page.getByLabel("Project directory").press("Enter");
    await page.getByLabel("What should be done").fill(request);
    stage("open the page, type");
    await page.getByRole("button", { name: "Start Task" }).click();
    await page.getByRole("region", { name: "The Task" }).waitFor();
    stage("first answer");
    await page.getByRole("heading", { name: /^Committed [0-9a-f]{10} to main$/ }).waitFor({ timeout: 60_000 });
    stage("landed");
  } finally {
    await browser.close();
  }
};

const byCurl: Land = async (url, project, stage) => {
  const { run } = shellIn(project, path[0] ?? "");
  const headers = ["-H", `x-service-directory: ${project}`, "-H", "content-type: application/json"];
  const body = JSON.stringify({ request, productPillar: "code" });
  const { out } = await run("curl", ["-s", `${url}/task`, ...headers, "-d", body]);
  const { task_id: taskID } = JSON.parse(out) as { task_id: string };
  stage("first answer");
  const events = await run("curl", ["-sN", `${url}/task/${taskID}/events?after=0`]);
  expect(events.out).toContain('"type":"landing.finished"');
  stage("landed");
};

/** The second terminal of somebody who follows the line that the service prints. */
const byCommand: Land = async (url, project, stage, own) => {
  const { run } = own;
  const help = await run("npm", ["run", "-s", "sortie", "--", "--help"]);
  expect(help.code, help.out).toBe(0);
  stage("help");
  const { code, out } = await run("npm", ["run", "-s", "sortie", "--", "run", request, "-C", project, "--url", url]);
  expect(code, out).toBe(0);
  expect(out).toMatch(/Landed commit [0-9a-f]{40} on main/);
  stage("landed");
};

test.skipIf(!registryAnswers || browserHere === undefined)("by the page, with a warm cache", () =>
  walk("page", false, byPage),
);
test.skipIf(!registryAnswers)("by the command line, with a warm cache", () => walk("command", false, byCommand));
test.skipIf(!registryAnswers)("by curl, with an empty cache", () => walk("curl", true, byCurl));
