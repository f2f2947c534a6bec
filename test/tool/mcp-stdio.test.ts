import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { packageRoot } from "../../src/package-root.ts";
import { createProcesses } from "../../src/process/service.ts";
import { bubblewrapSandbox, findProgram, processGroupSandbox } from "../../src/process/sandbox/sandbox.ts";
import { connectTo } from "../../src/tool/mcp/connection.ts";
import { McpFailure } from "../../src/tool/mcp/server.ts";
import { temporary } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";

/**
 * Programs that bend the protocol: each call ends in time, with words about the server alone, and nothing of it stays.
 */

const path = process.env["PATH"] ?? "";
const hasTier1 = (await sandboxesHere()).some(({ tier }) => tier === 1);
const limitMs = 2000;

type Told = { words: string; next: string; listed: string; ms: number };

/** What two calls of it give, one after the other, or in which words they fail; and how long both took. */
const told = async (how: string): Promise<Told> => {
  using folder = temporary();
  const tree = join(folder.path, "tree");
  mkdirSync(tree);
  const options = { path, home: folder.path, paths: [packageRoot], dataDir: join(folder.path, "data") };
  const sandbox = hasTier1
    ? bubblewrapSandbox(options, false, findProgram("bwrap", path) ?? "bwrap")
    : processGroupSandbox;
  const processes = createProcesses({
    folder: join(folder.path, "data/processes"),
    runID: folder.path,
    keepEnv: { PATH: path },
    sandbox,
    log: silent,
  });
  const place = { tree, at: tree, under: () => [], over: () => [] };
  const life = new AbortController();
  const server = {
    kind: "stdio" as const,
    command: process.execPath,
    args: [join(packageRoot, "test/fixtures/mcp/stranger.mjs"), how],
    env: {},
    network: false as const,
  };
  const startInteractive: Parameters<typeof connectTo>[2]["startInteractive"] = (command) =>
    processes.startInteractive("task_1", tree, { ...command, home: folder.path }, place);
  const said = async (work: () => Promise<string>): Promise<string> => {
    try {
      return await work();
    } catch (error) {
      return error instanceof McpFailure ? `failed: ${error.message}` : `not caught: ${String(error)}`;
    }
  };
  const begun = performance.now();
  try {
    let connection: Awaited<ReturnType<typeof connectTo>> | undefined;
    const call = async () => {
      if (connection === undefined || connection.isOver()) throw new McpFailure("it is over");
      const { ok, text } = await connection.call("do-1", {}, limitMs, life.signal);
      return `${ok}: ${text}`;
    };
    const listed = await said(async () => {
      connection = await connectTo("x", server, { startInteractive }, limitMs, life.signal);
      const { tools, problem } = await connection.list(life.signal);
      return problem ?? tools.map(({ name }) => name).join(" ");
    });
    const words = await said(call);
    const next = await said(call);
    const ms = performance.now() - begun;
    await connection?.close();
    return { words, next, listed, ms };
  } finally {
    life.abort();
    await processes.killAll("task_1");
    await processes.stop();
    const left = execFileSync("bash", ["-c", `pgrep -fa 'stranger.mjs ${how}|^sleep 86399$' || true`]).toString();
    expect(left.split("\n").filter((one) => one !== "" && !one.includes("pgrep"))).toEqual([]);
  }
};

const late = "failed: it did not answer in time";
const over = "failed: it is over";

test.each<[string, string | RegExp, string | RegExp]>([
  ["control", "true: fine", "true: fine"],
  ["closes its output", late, over],
  ["closes its input", late, over],
  ["leaves a child", "failed: it exited", over],
  ["floods its errors", "true: fine", "true: fine"],
  ["answers others", late, over],
  ["answers twice", "true: first", "true: first"],
  ["answers ahead", "true: true", "true: true"],
  ["progress without end", late, over],
  ["cancels", late, over],
  ["a batch", "true: in a batch", "true: in a batch"],
  ["a line without end", late, over],
  ["asks back", "true: [-32601,-32601,-32601]", "true: [-32601,-32601,-32601,-32601,-32601,-32601]"],
  ["renames", /^failed: .*Unknown tool: x{100,}/, /^failed: .*Unknown tool/],
  ["no content", /^failed: Invalid result for tools\/call/, over],
])("%s", { timeout: 20_000 }, async (how, words, next) => {
  const given = await told(how);
  const like = (wanted: string | RegExp) =>
    typeof wanted === "string" ? wanted : (expect.stringMatching(wanted) as string);
  expect({ words: given.words, next: given.next, listed: given.listed }).toEqual({
    words: like(words),
    next: like(next),
    listed: "mcp__x__do-1",
  });
  // What a server says in an error is cut, too.
  expect(given.words.length).toBeLessThan(600);
  expect(given.ms).toBeLessThan(3 * limitMs + 4000);
});

test("content of every kind is words: what is no text is named with its size", async () => {
  expect((await told("every kind")).words.split("\n")).toEqual([
    "true: words",
    "[image, image/png, 750000 bytes, not shown]",
    "[audio, audio/wav, 750 bytes, not shown]",
    "[link to file:///etc/passwd, a link]",
    "<script>inner</script>",
    "[data:one, not shown]",
    ...Array(4).fill("[a part of an unknown kind, not shown]"),
  ]);
});

test("pages of tools without end are read to a bound, and a version that there is not is told in few words", async () => {
  const { listed, words } = await told("pages without end");
  expect([listed, words]).toEqual([expect.stringMatching(/^failed: .*Pages \(16\)/), over]);
  const other = await told("another version");
  expect(other.listed).toMatch(/^failed: .*version/);
  expect(other.listed.length).toBeLessThan(600);
});
