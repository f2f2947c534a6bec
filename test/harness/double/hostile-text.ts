import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { evolve } from "../../../src/domain/task/evolve.ts";
import type { TaskState } from "../../../src/domain/state/task.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { git, temporary, until } from "../project.ts";
import { type MockTurn, startMockProvider } from "./mock-provider.ts";

/** Tasks sent over bare HTTP, with agents that do what a test tells them, and a look at whether a project is whole. */

export type Ask = { method?: string; body?: unknown; key?: string; headers?: Record<string, string> };
export type Answer = { status: number; body: Record<string, unknown>; headers: Headers };

/** Never rejects for a status: the status is what is tested. */
export const send = async (url: string, path: string, { method = "GET", body, key, headers }: Ask = {}) => {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(key === undefined ? {} : { "idempotency-key": key }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  let parsed: unknown = text;
  try {
    parsed = JSON.parse(text);
  } catch {}
  const answer: Answer = { status: response.status, body: parsed as Answer["body"], headers: response.headers };
  return answer;
};

export const at = (path: string, directory: string): string =>
  `${path}${path.includes("?") ? "&" : "?"}directory=${encodeURIComponent(directory)}`;

export const post = (url: string, path: string, directory: string, body: unknown, more: Ask = {}): Promise<Answer> =>
  send(url, at(path, directory), { method: "POST", body, ...more });

export const createTask = async (url: string, directory: string, body: Record<string, unknown>): Promise<string> => {
  const answer = await post(url, "/task", directory, { productPillar: "code", ...body });
  if (answer.status !== 202) throw new Error(`POST /task: ${answer.status} ${JSON.stringify(answer.body)}`);
  return String(answer.body["taskID"]);
};

export const statusOf = async (url: string, taskID: string): Promise<TaskStatus> => {
  const { status, body } = await send(url, `/task/${taskID}/status`);
  if (status !== 200) throw new Error(`status of ${taskID}: ${status} ${JSON.stringify(body)}`);
  return body as unknown as TaskStatus;
};

/** Also: what landed, if anything did, is what was checked. */
export const settledTask = async (url: string, taskID: string, ms = 20_000): Promise<TaskStatus> => {
  const settled = await until(
    () => statusOf(url, taskID),
    ({ status }) => status === "inactive",
    ms,
  );
  expectLandedChecked(await logOf(url, taskID));
  return settled;
};

/** R6, from the facts alone: whatever enters the project, its required checks passed on exactly that tree before. */
export const expectLandedChecked = (frames: readonly Frame[]): void => {
  let state: TaskState | undefined;
  for (const [index, { id, taskID, ...frame }] of frames.entries()) {
    if (state !== undefined && (frame.type === "landing.started" || frame.type === "landing.finished")) {
      const { commit, tree } = frame.data;
      const results = state.results;
      const required = state.checks.filter((check) => check.required).map((check) => check.id);
      const got = required.map((checkID) => ({
        checkID,
        state: results[checkID]?.state,
        tree: results[checkID]?.tree,
      }));
      expect(got, `R6 ${taskID}, ${frame.type}`).toEqual(
        required.map((checkID) => ({ checkID, state: "passed", tree })),
      );
      // A merge is sealed when it lands: a commit more, with the tree that was checked.
      const checked = state.mergeOf === null ? state.tree?.commit : commit;
      expect({ commit: checked, tree: state.tree?.tree }, `R6 ${taskID}`).toEqual({ commit, tree });
      const { landingStarted } = state;
      if (landingStarted !== null)
        expect({ commit, tree }, `R6 ${taskID}`).toEqual({ commit: landingStarted.commit, tree: landingStarted.tree });
    }
    state = evolve(state, { ...frame, position: id, stream: taskID ?? "", version: index + 1 });
  }
};

/** The whole log of a Task, page by page. */
export const logOf = async (url: string, taskID: string): Promise<Frame[]> => {
  const frames: Frame[] = [];
  for (;;) {
    const after = frames.at(-1)?.id ?? 0;
    const { status, body } = await send(url, `/task/${taskID}/events?format=json&after=${after}&limit=1000`);
    if (status !== 200) throw new Error(`events of ${taskID}: ${status} ${JSON.stringify(body)}`);
    const page = body["events"] as Frame[];
    if (page.length === 0) return frames;
    frames.push(...page);
  }
};

export const shell = (command: string, more: object = {}): MockTurn => ({
  calls: [{ tool: "shell", input: { command, ...more } }],
});

export type Lab = Awaited<ReturnType<typeof makeLab>>;

/**
 * A mock provider whose conversations are named by a `[marker]` in the request, and a folder for everything. `tier` 3:
 * where a command can do its worst to the worktree and to Git.
 */
export const makeLab = async (limits: Record<string, number> = {}, tier?: 3) => {
  const root = temporary("sortie-hostile-");
  const scripts = new Map<string, MockTurn[]>();
  const provider = await startMockProvider(({ first, turn }) => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    return scripts.get(marker)?.[turn] ?? { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ providers, limits, ...(tier === undefined ? {} : { sandbox: { tier } }) }));
  let count = 0;
  return {
    root: root.path,
    config,
    provider,
    /** A request whose agent takes these turns. */
    request(turns: MockTurn[]): { request: string; model: string } {
      const marker = `m${(count += 1)}`;
      scripts.set(marker, turns);
      return { request: `do it [${marker}]`, model: "mock/large" };
    },
    folder: (name = "p") => join(root.path, `${name}-${(count += 1)}`),
    async [Symbol.asyncDispose]() {
      await provider.close();
      root[Symbol.dispose]();
    },
  };
};

/** Every ref but those of Tasks. */
export const refsOf = (directory: string): string =>
  git(directory, "for-each-ref", "--format=%(refname) %(objectname)")
    .split("\n")
    .filter((line) => !/^refs\/(heads\/)?sortie\//.test(line))
    .join("\n");

/** Throws unless the repository is sound and nothing is half done in it. `status` is what git may say is changed. */
export const expectWhole = (directory: string, status = ""): void => {
  git(directory, "fsck", "--strict", "--no-dangling");
  const said = git(directory, "status", "--porcelain");
  if (said !== status) throw new Error(`Expected git status "${status}" in ${directory}, got "${said}"`);
  const locks = execFileSync("find", [git(directory, "rev-parse", "--absolute-git-dir"), "-name", "*.lock"]).toString();
  if (locks !== "") throw new Error(`Expected no locks in ${directory}, got ${locks}`);
};
