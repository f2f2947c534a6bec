import { setTimeout as pause } from "node:timers/promises";
import type { Random } from "../../harness/random.ts";
import { until } from "../../harness/project.ts";
import { filesOf, longText, requestOf } from "./agent.ts";
import type { Cluster } from "./cluster.ts";
import type { FaultNode } from "./node.ts";

/**
 * Callers of the cluster: they create Tasks and wake Missions at whichever node answers, send again with the same key
 * what had no answer, and follow the log at each node.
 */

export type MadeTask = { taskID: string; name: string; repository: string; branch: boolean; request: string };
export type MadeMission = { missionID: string; name: string; repository: string };

export type Work = Awaited<ReturnType<typeof beginWork>>;

type Answer = { status: number; body: Record<string, unknown> };

/** Asks whichever node is there until one answers with what is no refusal of the moment. */
export const askAny = async (
  { nodes }: Pick<Cluster, "nodes">,
  random: Random,
  path: string,
  options: { body?: object; key?: string; ms?: number } = {},
): Promise<Answer> => {
  const { body, key, ms = 60_000 } = options;
  const tried: string[] = [];
  const end = performance.now() + ms;
  for (;;) {
    const url = random.pick(nodes).url();
    if (url !== undefined)
      try {
        const response = await fetch(`${url}${path}`, {
          method: body === undefined ? "GET" : "POST",
          headers: {
            ...(body === undefined ? {} : { "content-type": "application/json" }),
            ...(key === undefined ? {} : { "idempotency-key": key }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
          signal: AbortSignal.timeout(15_000),
        });
        const text = await response.text();
        if (response.status < 500 && response.status !== 409 && response.status !== 429)
          return { status: response.status, body: JSON.parse(text) as Answer["body"] };
        tried.push(`${response.status} ${text.slice(0, 300)}`);
      } catch (error) {
        tried.push(String(error));
      }
    if (performance.now() > end)
      throw new Error(`${path}: no answer within ${ms} ms; last ${tried.slice(-3).join("; ")}`);
    await pause(100);
  }
};

/** Reads the whole log at one node as it grows, and goes on where it was cut. */
const follow = (node: FaultNode, over: AbortSignal, seen: (type: string, stream: string) => void) => {
  const ids: number[] = [];
  const faults: string[] = [];
  const read = async (): Promise<void> => {
    while (!over.aborted) {
      const url = node.url();
      try {
        if (url === undefined) throw new Error("away");
        const response = await fetch(`${url}/events?after=${ids.at(-1) ?? 0}`, { signal: over });
        let text = "";
        for await (const bytes of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          text += bytes;
          const frames = text.split("\n\n");
          text = frames.pop() ?? "";
          for (const frame of frames) {
            const [, id, data] = /^id: (\d+)\ndata: (.*)$/m.exec(frame) ?? [];
            if (id === undefined || data === undefined) continue;
            if (Number(id) <= (ids.at(-1) ?? 0)) faults.push(`${node.name}: ${id} after ${ids.at(-1)}`);
            ids.push(Number(id));
            const event = JSON.parse(data) as { type: string; taskID?: string; missionID?: string };
            seen(event.type, event.taskID ?? event.missionID ?? "");
          }
        }
      } catch {}
      await pause(100, undefined, { signal: over }).catch(() => {});
    }
  };
  const reading = read();
  return { name: node.name, ids, faults, reading };
};

/** `name`: distinguishes what is made from that of other faults. */
export const beginWork = async (cluster: Cluster, random: Random, repositories: number) => {
  const tasks: MadeTask[] = [];
  const missions: MadeMission[] = [];
  const ended = new Set<string>();
  const over = new AbortController();
  const hosts = Array.from({ length: repositories }, (_, at) => `r${at}`);
  for (const repository of hosts) cluster.host.make(repository, { "a.txt": "one\n", "b/c.txt": "two\n" });
  const hook = await askAny(cluster, random, "/webhook", { body: { url: cluster.receiver.url } });
  if (hook.status >= 300) throw new Error(`Expected a webhook, got ${JSON.stringify(hook.body)}`);
  const followers = cluster.nodes.map((node) =>
    follow(node, over.signal, (type, stream) => {
      if (type === "task.settled" || type === "mission.finished") ended.add(stream);
    }),
  );
  let serial = 0;

  const create = async (): Promise<void> => {
    serial += 1;
    const name = `t${serial}${serial % 5 === 0 ? "-long" : ""}`;
    const repository = random.pick(hosts);
    const branch = random.below(4) === 0;
    const request = `${requestOf(name)}${serial % 5 === 1 ? `\n\n${longText(name)}` : ""}`;
    // Content, too: of a write without room on the disk an empty file is left.
    const check = `${filesOf(name)
      .map((file) => `grep -qx ${name} ${file}`)
      .join(" && ")} && sleep 0.2`;
    const { status, body } = await askAny(cluster, random, "/task", {
      key: name,
      body: {
        request,
        productPillar: "code",
        repository: { url: cluster.host.url(repository), ref: "main" },
        landing: branch ? "branch" : "commit",
        checks: [check],
      },
    });
    if (status !== 202) throw new Error(`POST /task: ${status} ${JSON.stringify(body)}`);
    tasks.push({ taskID: String(body["taskID"]), name, repository, branch, request });
  };
  const wake = async (): Promise<void> => {
    const name = `m${missions.length + 1}`;
    const repository = random.pick(hosts);
    const { status, body } = await askAny(cluster, random, "/mission/wake", {
      key: name,
      body: {
        missionID: name,
        text: `Lead: ${name}.`,
        checks: [],
        repository: { url: cluster.host.url(repository) },
      },
    });
    if (status >= 300) throw new Error(`POST /mission/wake: ${status} ${JSON.stringify(body)}`);
    missions.push({ missionID: name, name, repository });
  };
  const active = (): number => tasks.filter(({ taskID }) => !ended.has(taskID)).length;

  return {
    tasks,
    missions,
    hosts,
    followers,
    active,
    /** Makes Tasks and Missions until there are so many, and `enough` is. */
    async feed(least: { tasks: number; missions: number; paceMs: number }, enough: () => boolean): Promise<void> {
      while (!enough() || tasks.length < least.tasks || missions.length < least.missions) {
        const since = performance.now();
        if (active() < 8) {
          await create();
          if (missions.length < least.missions && tasks.length * least.missions >= missions.length * least.tasks)
            await wake();
        }
        await pause(Math.max(50, least.paceMs - (performance.now() - since)));
      }
    },
    /** Until all have ended, as the log says. */
    async settle(ms: number): Promise<void> {
      const wanted = [...tasks.map(({ taskID }) => taskID), ...missions.map(({ missionID }) => missionID)];
      await until(
        () => Promise.resolve(wanted.filter((stream) => !ended.has(stream))),
        (left) => left.length === 0,
        ms,
        200,
      );
    },
    async [Symbol.asyncDispose]() {
      over.abort();
      await Promise.all(followers.map(({ reading }) => reading));
    },
  };
};
