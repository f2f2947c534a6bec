import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { at, logOf, post, send, settledTask } from "../../harness/double/hostile-text.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { makeProject, temporary, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * Conversations of a language model that was played by hand, on a real project: its answers are given again, turn by
 * turn, to what the service shows today. What landed then lands now, and each request is no longer than it was by much.
 */

type Play = {
  /** Begins a Task; `message` goes on with the one before. */
  request?: string;
  message?: string;
  /** Sent while the Task is at work, after its first file. */
  steering?: string;
  lead: MockTurn[];
  reviewer: MockTurn[];
  /** The files that it changed, as they landed; none where nothing did. */
  landed: Record<string, string>;
};
type Played = { files: Record<string, string>; plays: Play[] };

const load = (name: string): Played =>
  JSON.parse(readFileSync(new URL(`../../fixtures/cassettes/played/${name}.json`, import.meta.url), "utf8")) as Played;

/** The project's programs are not part of the recording: what was run with them is told as failed. */
const programs = ["bun", "esbuild", "eslint", "tsc", "vitest"];

/** Its formatter knows by heart what the real one made of these files, and leaves all else alone. */
const prettier = `#!${process.execPath}
const fs = require("fs");
const bare = (text) => text.replaceAll(/[\\s,()]/g, "");
for (const [path, text] of Object.entries(JSON.parse(fs.readFileSync(__dirname + "/formatted.json", "utf8"))))
  if (fs.existsSync(path) && bare(fs.readFileSync(path, "utf8")) === bare(text)) fs.writeFileSync(path, text);
`;

const projectOf = (folder: string, { files }: Played): string => {
  const directory = makeProject(folder, { ...files, ".gitignore": "node_modules\n" });
  const bin = join(directory, "node_modules/.bin");
  mkdirSync(bin, { recursive: true });
  for (const name of programs) {
    writeFileSync(join(bin, name), "#!/bin/sh\necho not installed here\nexit 1\n");
    chmodSync(join(bin, name), 0o755);
  }
  writeFileSync(join(bin, "prettier"), prettier, { mode: 0o755 });
  return directory;
};

/** Without what a formatter makes of it. */
const bare = (files: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).map(([path, text]) => [path, text.replaceAll(/[\s,()]/g, "")]));

const landedIn = (directory: string, before: string): Record<string, string> => {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: directory, encoding: "utf8" });
  const paths = git("diff", "--name-only", before, "HEAD")
    .split("\n")
    .filter((path) => path !== "");
  return Object.fromEntries(paths.map((path) => [path, git("show", `HEAD:${path}`)]));
};

describe("played by hand", { timeout: 120_000 }, () => {
  const folder = temporary("sortie-played-");
  let provider: MockProvider;
  let service: TestService;
  /** The answers that are due: of the agent by the turns of its whole conversation, of reviewers in their order. */
  let lead: MockTurn[] = [];
  let reviewer: MockTurn[] = [];
  let bytes: number[] = [];
  const left: string[] = [];
  beforeAll(async () => {
    provider = await startMockProvider(
      ({ body, turn }) => {
        bytes.push(JSON.stringify(body).length);
        const judges = body.tools?.some(({ function: { name } }) => name === "verdict") === true;
        const next = judges ? reviewer.shift() : lead[turn];
        if (next === undefined) left.push(`${judges ? "reviewer" : "lead"} ${turn}`);
        return next ?? { text: "Nothing more." };
      },
      { reviews: "script" },
    );
    const config = join(folder.path, "config.jsonc");
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
    service = await startService(join(folder.path, "data"), { SERVICE_CONFIG: config });
  });
  afterAll(async () => {
    await service.close();
    await provider.close();
    folder[Symbol.dispose]();
  });

  const play = async (directory: string, plays: readonly Play[], more: object = {}) => {
    let taskID = "";
    lead = [];
    for (const { request, message, steering, landed, ...turns } of plays) {
      const before = execFileSync("git", ["rev-parse", "HEAD"], { cwd: directory, encoding: "utf8" }).trim();
      writeFileSync(join(directory, "node_modules/.bin/formatted.json"), JSON.stringify(landed));
      lead = request === undefined ? [...lead, ...turns.lead] : turns.lead;
      reviewer = [...turns.reviewer];
      bytes = [];
      if (request !== undefined) {
        const body = { request, productPillar: "code", checks: ["test -s LICENSE"], ...more };
        const created = await send(service.url, at("/task", directory), { method: "POST", body });
        expect(created.status, JSON.stringify(created.body)).toBe(202);
        taskID = String(created.body["taskID"]);
      } else {
        const sent = await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: message });
        expect(sent.status).toBe(202);
      }
      if (steering !== undefined) {
        await until(
          () => logOf(service.url, taskID),
          (frames) =>
            frames.some(({ type, data }) => type === "tool.started" && (data as { tool: string }).tool === "write"),
          20_000,
        );
        const sent = await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: steering });
        expect(sent.status).toBe(202);
      }
      const settled = await settledTask(service.url, taskID, 60_000);
      expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
      expect(bare(landedIn(directory, before))).toEqual(bare(landed));
      expect(left).toEqual([]);
    }
    return bytes;
  };

  test("a defect, a follow-up that contradicts it, an investigation without changes", async () => {
    const played = load("defect");
    const sizes = await play(projectOf(join(folder.path, "defect"), played), played.plays);
    expect(sizes.length).toBe(played.plays.at(-1)?.lead.length);
  });

  test("the defect once more, in three requests and a review", async () => {
    const played = load("defect-again");
    const sizes = await play(projectOf(join(folder.path, "again"), played), played.plays);
    expect(sizes.length).toBe(4);
  });

  test("a feature, with a steering message in the middle", async () => {
    const played = load("feature");
    const directory = projectOf(join(folder.path, "feature"), played);
    await play(directory, played.plays, { promptProfile: "advanced" });
  });

  test("control: an answer that is not the recorded one lands something else", async () => {
    const played = load("defect");
    const [first] = played.plays;
    if (first === undefined) throw new Error("Expected a play.");
    const other = JSON.parse(JSON.stringify(first).replaceAll("defaultMatch", "anotherMatch")) as Play;
    const directory = projectOf(join(folder.path, "control"), played);
    await expect(play(directory, [{ ...other, landed: first.landed }])).rejects.toThrow();
    left.length = 0;
  });
});
