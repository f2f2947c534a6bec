import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { expect } from "vitest";
import type { Recorded } from "../../../src/domain/event.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { at, expectWhole, post, send, statusOf } from "../../harness/double/hostile-text.ts";
import { invariants } from "../../harness/invariants.ts";
import { until } from "../../harness/project.ts";
import { nothingLeft, type ServiceProcess } from "../process.ts";

/** What people do right after the service has come back, and what must hold in the end whatever they did. */

export const followers = ["nothing", "queue", "interrupt", "cancel", "delete", "PostgreSQL"] as const;
export type Follower = (typeof followers)[number];

/** Looking has its price, and many scenes are looked at side by side. */
const seldomMs = 150;

/** So long nothing may come to pass; how long all of it takes is the machine's affair. */
const stillMs = 30_000;

/** Asks until the answer pleases. Fails when `fact` has stayed the same for half a minute. */
export const untilStill = async <T>(
  ask: () => Promise<T>,
  pleases: (answer: T) => boolean,
  fact: (answer: T) => string,
): Promise<T> => {
  for (let last = ""; ; ) {
    const answer = await until(ask, (now) => pleases(now) || fact(now) !== last, stillMs, seldomMs);
    if (pleases(answer)) return answer;
    last = fact(answer);
  }
};

/** Answers what is asked, until the Task has ended. */
export const ended = (url: string, directory: string, taskID: string): Promise<TaskStatus> =>
  untilStill(
    async () => {
      const status = await statusOf(url, taskID);
      for (const { id } of status.pending)
        await post(url, `/task/${taskID}/pending/${id}`, directory, { decision: "allow" });
      return status;
    },
    ({ status }) => status === "inactive",
    ({ lastEventID }) => String(lastEventID),
  );

/** The message's id, if one was sent. A refusal because the Task has ended is no fault. */
export const follow = async (
  url: string,
  directory: string,
  taskID: string,
  follower: Follower,
): Promise<string | undefined> => {
  if (follower === "queue" || follower === "interrupt") {
    const message = { source: "sweep", text: "And tidy up.", onBusy: follower };
    const sent = await post(url, `/task/${taskID}/message`, directory, message);
    expect(sent.status, JSON.stringify(sent.body)).toBe(202);
    return String(sent.body["messageID"]);
  }
  if (follower === "cancel") await cancel(url, directory, taskID);
  if (follower === "delete") {
    const remove = () => send(url, at(`/task/${taskID}`, directory), { method: "DELETE" });
    const first = await remove();
    expect([200, 409], JSON.stringify(first.body)).toContain(first.status);
    if (first.status === 200) return undefined;
    await cancel(url, directory, taskID);
    await ended(url, directory, taskID);
    const second = await remove();
    expect(second.status, JSON.stringify(second.body)).toBe(200);
  }
  return undefined;
};

const cancel = async (url: string, directory: string, taskID: string): Promise<void> => {
  const sent = await post(url, `/task/${taskID}/cancel`, directory, { surface: "sweep", reason: "sweep" });
  expect([200, 202, 409], JSON.stringify(sent.body)).toContain(sent.status);
};

/** Hundredths of a second of the processor, and megabytes in memory. */
const usedBy = (pid: number): { ticks: number; rss: number } => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return { ticks: Number(stat[11]) + Number(stat[12]), rss: (Number(stat[21]) * 4096) / 1e6 };
};

/** A service with nothing to do does nothing, and keeps nothing more. What follows a Task's end may take a moment. */
export const expectIdle = async ({ child }: Pick<ServiceProcess, "child">, tries = 3): Promise<void> => {
  const pid = child.pid ?? 0;
  const before = usedBy(pid);
  await wait(1000);
  const after = usedBy(pid);
  const busy = after.ticks - before.ticks >= 5;
  if (busy && tries > 1) return expectIdle({ child }, tries - 1);
  expect(after.ticks - before.ticks, "per cent of a processor").toBeLessThan(5);
  expect(after.rss - before.rss, "megabytes more").toBeLessThan(8);
};

/** Settled or gone, nothing open, nothing left over in the project or running. */
export const judge = async (
  service: ServiceProcess,
  { dataDir, project }: { dataDir: string; project: string },
  tasks: readonly string[],
  { messages = new Map(), status = "" }: { messages?: ReadonlyMap<string, string>; status?: string } = {},
): Promise<void> => {
  await invariants({ url: service.url, dataDir, tasks: new Map(tasks.map((taskID) => [taskID, project])), messages });
  expectWhole(project, status);
  await nothingLeft(dataDir);
};

export const writeConfig = (path: string, baseURL: string, more: object): string => {
  const providers = { mock: { kind: "openai-compatible", baseURL, apiKey: "none" } };
  writeFileSync(path, JSON.stringify({ model: "mock/large", providers, ...more }));
  return path;
};

/** The events of a stream as its log has them. */
export const recorded = (frames: readonly Frame[], stream: string): Recorded[] =>
  frames.map(({ id, taskID: _taskID, missionID: _missionID, sessionID: _sessionID, ...frame }, index) => ({
    ...frame,
    position: id,
    stream,
    version: index + 1,
  })) as Recorded[];
