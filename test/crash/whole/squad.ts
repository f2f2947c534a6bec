import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Recorded } from "../../../src/domain/event.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  partsOf,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { at, createTask, logOf, send } from "../../harness/double/hostile-text.ts";
import { git, makeProject, readText, writeFiles } from "../../harness/project.ts";
import { ended, follow, judge, recorded, writeConfig } from "./place.ts";
import type { Scenario } from "./sweep.ts";

/**
 * A Task that takes nearly every road: a setup, a baseline, two agents, an ask, a change that a rule forbids, a red
 * check, a refused review, and a user who commits and edits while the work is reviewed, so that it is merged before it
 * lands.
 */

const team = teamOf("team", {
  orchestrator: ["read, delegate, note, shell", "delegates: [builder]"],
  builder: ["read, write"],
  reviewer: ["verdict"],
});

const settings = {
  squad: "team",
  workspace: { setup: "mkdir -p cache && echo set > cache/up" },
  permissions: { ask: ["shell(cp a.txt copy.txt)"], deny: ["write(secret.txt)"] },
};

const files = { "a.txt": "one\ntwo\nthree\nfour\nfive\nsix\n", "other.txt": "other\n", ".gitignore": "cache\n" };

const requestIn = (project: string) => ({
  request: `Make one.txt. project=${project}`,
  title: "Make one.txt",
  checks: [{ id: "right", kind: "test", run: "grep -q right one.txt", baseline: true }],
});

type Call = { tool: string; input: Record<string, string> };
const shell = (command: string): Call => ({ tool: "shell", input: { command } });

/** What the Orchestrator does, each once its reason is in the conversation. All of it may be done twice. */
const orders: { when: string; call: Call }[] = [
  { when: "", call: { tool: "note", input: { text: "1. build 2. copy" } } },
  { when: "", call: { tool: "delegate", input: { agent: "builder", brief: "Build one.txt" } } },
  { when: "", call: shell("cp a.txt copy.txt") },
  { when: "", call: shell("echo s > secret.txt; sed -i s/six/6/ a.txt") },
  { when: "a rule forbids to change", call: shell("rm -f secret.txt") },
  { when: "ran the acceptance checks", call: shell("echo right > one.txt") },
  { when: "reviewed your work against", call: shell("echo more > more.txt") },
];

const script = ({ body, first, turn }: MockRequest): MockTurn => {
  const system = textOf(body.messages.find(({ role }) => role === "system")?.content);
  const newest = textOf(body.messages.at(-1)?.content);
  if (system.includes("You are the reviewer.")) return review(first);
  if (system.includes("You are the builder."))
    return turn === 0 || newest.includes("Interrupted:")
      ? { calls: [{ tool: "write", input: { path: "one.txt", content: "wrong\n" } }] }
      : { text: "Built." };
  editAsUser(/project=(\S+)/.exec(first)?.[1] ?? "", body.messages);
  const asked = new Map<string, string>();
  const done = new Set<string>();
  for (const message of body.messages) {
    for (const { id, function: called } of message.tool_calls ?? []) asked.set(id, called.arguments);
    const result = textOf(message.content);
    const isUndone = result.includes("Interrupted:") || result.includes("before anybody had decided");
    if (message.tool_call_id !== undefined && !isUndone)
      done.add(JSON.stringify(JSON.parse(asked.get(message.tool_call_id) ?? "{}")));
  }
  const said = body.messages.filter(({ role }) => role === "user").map(({ content }) => textOf(content));
  const next = orders.find(
    ({ when, call }) => !done.has(JSON.stringify(call.input)) && said.some((text) => text.includes(when)),
  );
  return next === undefined ? { text: "It is there.\n\nCommit: Make one.txt" } : { calls: [next.call] };
};

const review = (brief: string): MockTurn => {
  const verdict = brief.includes("+more") ? "accepted" : "rejected";
  return {
    calls: [{ tool: "verdict", input: { parts: partsOf(brief).map((part) => ({ part, verdict, notes: "Read." })) } }],
  };
};

/** Once the review has come back: a commit that the work has to be merged with, and an edit that it lands beside. */
const editAsUser = (project: string, messages: MockRequest["body"]["messages"]): void => {
  const reviewed = messages.some(
    ({ role, content }) => role === "user" && textOf(content).includes("reviewed your work"),
  );
  if (!reviewed || existsSync(join(project, "theirs.txt"))) return;
  writeFileSync(join(project, "theirs.txt"), "theirs\n");
  git(project, "add", "theirs.txt");
  git(project, "commit", "-q", "-m", "theirs");
  writeFileSync(join(project, "a.txt"), files["a.txt"].replace("one", "1"));
};

export const squadProvider = (): Promise<MockProvider> => startMockProvider(script, { reviews: "script" });

/** `lose`: takes something away before the end is looked at, for the control. */
export const squadScenario = (baseURL: string, lose?: (project: string) => void): Scenario<Recorded[]> => ({
  name: "squad",
  open(root) {
    const dataDir = join(root, "data");
    writeFiles(join(dataDir, "squads"), team);
    const project = makeProject(join(root, "project"), files);
    writeFileSync(join(project, "mine.txt"), "mine\n");
    const config = writeConfig(join(root, "config.jsonc"), baseURL, settings);
    const tasks = async (url: string) =>
      ((await send(url, at("/tasks", project))).body as unknown as { taskID: string }[]).map(({ taskID }) => taskID);
    return {
      env: { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root },
      restart() {},
      async play({ url }) {
        const taskID = await createTask(url, project, requestIn(project));
        await send(url, at(`/task/${taskID}`, project), { method: "PATCH", body: { priority: "high" } });
        await ended(url, project, taskID);
      },
      async finish(service, follower) {
        const { url } = service;
        const [taskID, ...more] = await tasks(url);
        expect(more).toEqual([]);
        if (taskID === undefined) throw new Error("Expected the Task that was begun, got none");
        const messageID = await follow(url, project, taskID, follower);
        const messages = new Map(messageID === undefined ? [] : [[messageID, taskID]]);
        const deleted = follower === "delete";
        if (deleted) expect(await tasks(url)).toEqual([]);
        const status = deleted ? undefined : await ended(url, project, taskID);
        lose?.(project);
        if (status?.lifecycleStatus === "completed") expectLanded(project);
        else expect(["cancel", "delete"], JSON.stringify(status)).toContain(follower);
        const edited = existsSync(join(project, "theirs.txt"));
        await judge(service, { dataDir, project }, deleted ? [] : [taskID], {
          messages,
          status: edited ? " M a.txt\n?? mine.txt" : "?? mine.txt",
        });
        return deleted ? [] : recorded(await logOf(url, taskID), taskID);
      },
    };
  },
});

const expectLanded = (project: string): void => {
  expect(git(project, "log", "--format=%s")).toBe("Make one.txt\ntheirs\nfirst");
  expect(readText(project, "one.txt")).toBe("right\n");
  expect(readText(project, "more.txt")).toBe("more\n");
  expect(readText(project, "copy.txt")).toBe(files["a.txt"]);
  expect(existsSync(join(project, "secret.txt"))).toBe(false);
  expect(readText(project, "a.txt")).toBe(files["a.txt"].replace("six", "6").replace("one", "1"));
};
