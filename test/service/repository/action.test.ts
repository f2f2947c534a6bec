import { execFileSync, spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addForge, type ForgeDouble } from "../../harness/double/forge/double.ts";
import { canServe, type GitHost, startGitHost, token } from "../../harness/double/git-host.ts";
import { temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** `examples/github-action` against a service elsewhere, which takes the repository by its address. */

const hasJq = spawnSync("jq", ["--version"]).status === 0;
if (!hasJq) console.warn("SKIPPED: the test of the GitHub Action needs jq.");
const script = fileURLToPath(new URL("../../../examples/github-action/run.sh", import.meta.url));

describe.runIf(hasJq && canServe)("the GitHub Action with a repository", { timeout: 30_000 }, () => {
  const root = temporary("sortie-action-");
  let service: TestService;
  let host: GitHost;
  let forge: ForgeDouble;
  beforeAll(async () => {
    host = await startGitHost(root.path);
    forge = addForge(host, "github");
    const match = `http://127.0.0.1:${host.port}/*`;
    const repositories = { allow: [match], credentials: [{ match, token: "env:HOST_TOKEN", forge: "github" }] };
    const config = join(root.path, "config.jsonc");
    writeFileSync(config, JSON.stringify({ repositories }));
    service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, HOST_TOKEN: token });
    host.make("acme/app", { "a.txt": "one\n" });
  });
  afterAll(async () => {
    await service[Symbol.asyncDispose]();
    await host[Symbol.asyncDispose]();
    root[Symbol.dispose]();
  });

  const step = async (more: Record<string, string>) => {
    const output = join(root.path, `output-${Math.random()}`);
    writeFileSync(output, "");
    const env = { PATH: process.env["PATH"] ?? "", GITHUB_OUTPUT: output, GITHUB_RUN_ID: output, ...more };
    const child = spawn("bash", [script], { env: { ...env, SORTIE_URL: service.url }, cwd: root.path });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (part: Buffer) => void (said += part));
    const code = await new Promise((resolve) => child.once("close", resolve));
    const lines = readFileSync(output, "utf8").trim().split("\n");
    return {
      code,
      said,
      outputs: Object.fromEntries(lines.map((line) => /^([^=]+)=(.*)$/.exec(line)?.slice(1) ?? [])),
    };
  };

  test("the result is a pull request, whose address is an output; no directory of the runner's is named", async () => {
    const request = 'replace "one" with "two" in a.txt';
    const done = await step({ SORTIE_REQUEST: request, SORTIE_REPOSITORY: host.url("acme/app"), SORTIE_REF: "main" });
    expect(done.code, done.said).toBe(0);
    const { state, commit, branch, "pull-request": pull } = done.outputs as Record<string, string>;
    expect([state, pull]).toEqual(["completed", `http://127.0.0.1:${host.port}/acme/app/pulls/1`]);
    expect(host.git("acme/app", "rev-parse", branch ?? "")).toBe(commit);
    expect(forge.pulls).toMatchObject([{ branch, base: "main" }]);
    const branches = execFileSync("git", ["-C", join(root.path, "host/acme/app.git"), "show", `${branch}:a.txt`]);
    expect(branches.toString()).toBe("two\n");
  });

  test("one that the service does not allow fails the step with its words", async () => {
    const refused = await step({ SORTIE_REQUEST: "x", SORTIE_REPOSITORY: "https://elsewhere.example/x.git" });
    expect([refused.code, refused.said]).toEqual([2, expect.stringContaining("repositories.allow")]);
  });
});
