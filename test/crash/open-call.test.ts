import { fileURLToPath } from "node:url";
import { writeFiles, readText, temporary } from "../harness/project.ts";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Frame } from "../../src/protocol/event/frame.ts";
import { createTask, expectWhole, logOf, post, settledTask } from "../harness/double/hostile-text.ts";
import {
  acceptance,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../harness/double/mock-provider.ts";
import { newestOf } from "../harness/double/missions.ts";
import { teamOf } from "../harness/double/squads.ts";
import { startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";
import { expectIdle } from "./whole/place.ts";

/** Killed while a call of somebody other than the lead is open, and interrupted right after the start. */

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const isReviewer = ({ first }: MockRequest) => first.startsWith("# What was asked for");

/** Whoever leads does as it is told: `b.txt` first, and `c.txt` when the message has come. */
const lead = ({ body }: MockRequest, first: MockTurn): MockTurn => {
  const results = body.messages.flatMap(({ role, content }) => (role === "tool" ? [textOf(content)] : []));
  const done = results.filter((text) => !text.includes("Interrupted:")).length;
  if (JSON.stringify(body.messages).includes("c.txt, too") && !JSON.stringify(body.messages).includes("three"))
    return call("write", { path: "c.txt", content: "three\n" });
  return done > 0 ? { text: "It is there." } : first;
};

const write = call("write", { path: "b.txt", content: "two\n" });
const repository = fileURLToPath(new URL("../..", import.meta.url));
const program = fileURLToPath(new URL("../fixtures/acp/agent.ts", import.meta.url));

type Scene = { kill: string; squad: string; config?: object; say: (request: MockRequest) => MockTurn };

const scenes: Record<string, Scene> = {
  reviewer: {
    kill: "tool.started:2",
    squad: "team",
    say: (request) => {
      if (!isReviewer(request)) return lead(request, write);
      return request.turn === 0 ? call("read", { path: "b.txt" }) : acceptance(request);
    },
  },
  builder: {
    kill: "tool.started:2",
    squad: "team",
    say: (request) => {
      if (isReviewer(request)) return acceptance(request);
      if (!request.first.includes("Build b.txt"))
        return lead(request, call("delegate", { agent: "builder", brief: "Build b.txt" }));
      return newestOf(request).includes("Created b.txt") ? { text: "It is written." } : write;
    },
  },
  program: {
    kill: "tool.started:1",
    squad: "acp-small",
    config: {
      sandbox: { paths: [repository] },
      agents: { small: { command: `exec ${process.execPath} ${program}`, env: ["MODEL_URL"] } },
    },
    say: (request) => (isReviewer(request) ? acceptance(request) : lead(request, write)),
  },
};

/** Calls of a session that has ended, without an end of their own before. */
const leftOpen = (log: readonly Frame[]): string[] => {
  const open = new Map<string, string>();
  const left: string[] = [];
  for (const { type, data, sessionID = "" } of log)
    if (type === "tool.started") open.set(data.callID, sessionID);
    else if (type === "tool.finished") open.delete(data.callID);
    else if (type === "session.ended")
      left.push(...[...open].flatMap(([callID, of]) => (of === data.sessionID ? [callID] : [])));
  return [...left, ...open.keys()];
};

describe.each(Object.entries(scenes))("killed while a call of the %s is open", (name, { kill, squad, config, say }) => {
  test("and interrupted: the call ends with its session, and the Task comes to its end", {
    timeout: 60_000,
  }, async () => {
    using root = temporary("sortie-open-call-");
    const provider = await startMockProvider(say, { reviews: "script" });
    const { dataDir, project, env } = settingIn(root.path, provider.baseURL, undefined, () => ({ ...config }));
    writeFiles(
      join(dataDir, "squads"),
      teamOf("team", {
        orchestrator: ["read, write, delegate", "delegates: [builder]"],
        builder: ["read, write"],
        reviewer: ["read, verdict"],
      }),
    );
    let taskID = "";
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: kill });
      taskID = await createTask(service.url, project, { request: "Write b.txt.", promptProfile: squad });
      await service.gone;
    }
    await using service = await startProcess(env);
    const message = { source: "user", text: "Write c.txt, too", onBusy: "interrupt" };
    expect((await post(service.url, `/task/${taskID}/message`, project, message)).status).toBe(202);
    const status = await settledTask(service.url, taskID, 30_000);
    expect(status, status.error).toMatchObject({ lifecycleStatus: "completed" });
    const log = await logOf(service.url, taskID);
    expect(leftOpen(log)).toEqual([]);
    expect(log.filter(({ type }) => type === "run.stuck")).toEqual([]);
    // The control: such a call was open when the service died.
    const [, second] = log.flatMap(({ type }, at) => (type === "run.started" ? [at] : []));
    const came = new Set<string>(["message.received", "session.interrupted"]);
    const last = log.slice(0, second).findLast(({ type }) => !came.has(type));
    expect(last?.type).toBe("tool.started");
    const own = log.find(({ sessionID }) => sessionID !== undefined)?.sessionID;
    expect(last?.sessionID === own).toBe(name === "program");
    expect(readText(project, "c.txt")).toBe("three\n");
    expectWhole(project);
    await expectIdle(service);
    await provider.close();
  });
});
