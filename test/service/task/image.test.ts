import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { findBrowser } from "../../../src/check/browser/find.ts";
import { requestsOf, setGrant } from "../../../src/service/trust.ts";
import { createTask, logOf, makeLab, post, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { makeEngine, makeRoot, reference } from "../../harness/image.ts";
import { git, makeProject } from "../../harness/project.ts";
import { sandboxesHere } from "../../harness/sandboxes.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * Whole Tasks whose project's commands run in an image: by the configuration, and as a granted devcontainer.json asks
 * for it.
 */

const hasTier1 = (await sandboxesHere()).some(({ tier }) => tier === 1);
const path = process.env["PATH"] ?? "";
const file = ".devcontainer/devcontainer.json";

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let shop: string;
let lacking: string;
let engine: ReturnType<typeof makeEngine>;
beforeAll(async () => {
  lab = await makeLab({ checkRounds: 0, previewSeconds: 20 });
  const root = join(lab.root, "image");
  makeRoot(root);
  engine = makeEngine(lab.root, root);
  const files = { "a.txt": "a needle\n", ".gitignore": "made/\n" };
  [shop, lacking] = [makeProject(lab.folder(), files), makeProject(lab.folder(), files)];
  mkdirSync(join(lab.root, "data"));
  const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
  const setup = "mkdir made; cp /etc/os-release made/";
  writeFileSync(
    lab.config,
    JSON.stringify({
      ...config,
      sandbox: { containers: "experimental" },
      environments: { [shop]: { image: reference, setup }, [lacking]: { image: "localhost/other:1" } },
    }),
  );
  service = await startService(join(lab.root, "data"), {
    SERVICE_CONFIG: lab.config,
    PATH: `${engine.bin}:${path}`,
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const shell = (command: string) => call("shell", { command });
const play = async (directory: string, turns: MockTurn[], more: object = {}) => {
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), landing: "branch", ...more });
  const status = await settledTask(service.url, taskID, 60_000);
  const log = await logOf(service.url, taskID);
  const results = log.flatMap(({ type, data }) =>
    type === "tool.finished" && typeof data.output === "string" ? [data.output] : [],
  );
  return { taskID, status, log, results };
};

describe.runIf(hasTier1)("in tier 1", () => {
  test("setup, the agent's commands and checks run in it; search, Git and the landing are the service's own", {
    timeout: 90_000,
  }, async () => {
    const turns = [
      shell("cat /etc/os-release made/os-release; tool; echo $FLAVOUR; type git"),
      call("search", { pattern: "needle" }),
      shell("echo b > b.txt"),
    ];
    const checks = [
      {
        kind: "command",
        run: "grep -qx ID=small /etc/os-release && test -f b.txt && grep -qx ID=small made/os-release",
      },
    ];
    const { status, results, log } = await play(shop, turns, { checks });
    expect(results[0]).toMatch(/ID=small\nID=small\nthe tool of the image\nvanilla\n[^]*type: git: not found/);
    expect(results[1]).toContain("a.txt");
    expect([status.lifecycleStatus, status.checks?.[0]?.state]).toEqual(["completed", "passed"]);
    expect(git(shop, "show", `${status.landingBranch}:b.txt`)).toBe("b");
    expect(log).toContainEqual(
      expect.objectContaining({
        type: "environment.given",
        data: expect.objectContaining({ image: reference, granted: true }) as object,
      }),
    );
    expect(engine.asked().some((line) => /^(?:run|start|exec) /.test(line))).toBe(false);
  });

  test("an image that this machine does not have ends the Task at once, with the command that gets it", async () => {
    const { status } = await play(lacking, []);
    expect(status).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "environment_unavailable" },
      error: expect.stringMatching(
        /no image localhost\/other:1 on this machine: .*podman pull localhost\/other:1/,
      ) as string,
    });
  });

  test.runIf(findBrowser(undefined, path) !== undefined)(
    "a page is not looked at with this machine's browser, and that is said",
    { timeout: 60_000 },
    async () => {
      const check = { kind: "visual", id: "look", start: "true", url: "http://127.0.0.1:18399/", required: false };
      const { taskID, log } = await play(shop, [shell("echo c > c.txt")], { checks: [check] });
      const found = log.flatMap(({ type, data }) => (type === "check.finished" && data.on === "work" ? [data] : []));
      expect(found[0]).toMatchObject({ state: "error", reason: expect.stringContaining("run in an image") as string });
      const answer = await post(service.url, `/task/${taskID}/preview/capture`, shop, {});
      expect([answer.status, answer.body["message"]]).toEqual([422, expect.stringContaining("run in an image")]);
    },
  );

  test("devcontainer.json has an effect once it is granted, and none before, after a change, or where its words are not supported", {
    timeout: 120_000,
  }, async () => {
    const text = `{ // For editors, too.
      "name": "x", "image": "${reference}", "postCreateCommand": ["mkdir", "made"],
      "containerEnv": { "WORD": "blue" }, "customizations": {}, "forwardPorts": [3000] }`;
    const directory = makeProject(lab.folder(), { "a.txt": "a\n", ".gitignore": "made/\n", [file]: text });
    const seen = async () => {
      const { results, log } = await play(directory, [shell("grep ^ID= /etc/os-release; echo [$WORD]; ls -d made")], {
        checks: [],
      });
      const given = log.flatMap(({ type, data }) =>
        type === "environment.given" ? [[data.granted, data.problem]] : [],
      );
      return [given[0], results[0]?.includes("ID=small\n[blue]\nmade") ?? false];
    };
    expect(await seen()).toEqual([[false, null], false]);
    const config = loadConfig(
      { dataDir: service.dataDir },
      { PATH: path, HOME: service.dataDir, SERVICE_CONFIG: lab.config },
    );
    const [found] = await requestsOf(config, directory);
    expect(found).toMatchObject({ file, granted: false, asked: { image: reference, setup: "mkdir made" } });
    // Where images are off, it is nobody's request.
    expect(await requestsOf({ ...config, sandbox: { ...config.sandbox, containers: false } }, directory)).toEqual([]);
    setGrant(service.dataDir, found?.project ?? "", found?.digest ?? "", file);
    expect(await seen()).toEqual([[true, null], true]);
    writeFileSync(join(directory, file), `${text}\n`);
    expect(await seen()).toEqual([[false, null], false]);
    writeFileSync(join(directory, file), JSON.stringify({ build: { dockerfile: "Dockerfile" } }));
    expect(await seen()).toEqual([[false, expect.stringContaining("build: not supported")], false]);
  });
});
