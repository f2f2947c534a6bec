import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { processesOf } from "../../crash/process.ts";
import { git, until } from "../../harness/project.ts";
import type { Random } from "../../harness/random.ts";
import { verified } from "../../harness/zip-reader.ts";
import { filesOf, hasLongText } from "./agent.ts";
import type { Cluster } from "./cluster.ts";
import { askAny, type Work } from "./work.ts";

/** What must hold once everything has ended, whatever happened to the nodes. Each function names what does not. */

type Row = { position: number; stream: string; version: number; type: string; data: Record<string, unknown> };

const query = async <T extends object>(url: string, text: string): Promise<T[]> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<T>(text)).rows;
  } finally {
    await client.end();
  }
};

const logOf = async (url: string): Promise<Row[]> => {
  const rows = await query<Record<"position" | "stream" | "version" | "type" | "data", string>>(
    url,
    "select position, stream, version, type, data from events order by position",
  );
  return rows.map((row) => ({
    ...row,
    position: Number(row.position),
    version: Number(row.version),
    data: JSON.parse(row.data) as Row["data"],
  }));
};

/** Of a stream there is one at most. */
const once = ["task.created", "task.settled", "landing.finished", "mission.created", "mission.finished"];
/** Of a stream there is one at most with the same value there. */
const onceBy: Record<string, string> = {
  "tool.started": "callID",
  "tool.finished": "callID",
  "message.received": "messageID",
  "task.dispatched": "taskID",
  "session.ended": "sessionID",
};

const logFaults = (log: readonly Row[], work: Work): string[] => {
  const faults: string[] = [];
  for (const [at, { position }] of log.entries())
    if (position !== at + 1) {
      faults.push(`position ${at + 1} is ${position}`);
      break;
    }
  const streams = Map.groupBy(log, ({ stream }) => stream);
  for (const [stream, events] of streams) {
    for (const [at, { version }] of events.entries())
      if (version !== at + 1) faults.push(`${stream}: version ${at + 1} is ${version}`);
    const seen = new Set<string>();
    for (const { type, data } of events) {
      const by = onceBy[type];
      if (by === undefined && !once.includes(type)) continue;
      const key = `${type} ${by === undefined ? "" : String(data[by])}`;
      if (seen.has(key)) faults.push(`${stream}: ${key}twice`);
      seen.add(key);
    }
  }
  for (const { name, ids, faults: own } of work.followers) {
    faults.push(...own.map((fault) => `a reader of all events at ${fault}`));
    const gap = ids.findIndex((id, at) => id !== at + 1);
    if (gap !== -1) faults.push(`a reader of all events at ${name} got ${ids[gap]} for ${gap + 1}`);
    if (ids.length !== log.length) faults.push(`a reader of all events at ${name} got ${ids.length} of ${log.length}`);
  }
  return faults;
};

type Made = { taskID: string; name: string; repository: string; target: string };

const landingFaults = (cluster: Cluster, made: readonly Made[]): string[] => {
  const faults: string[] = [];
  const byBranch = Map.groupBy(made, ({ repository, target }) => `${repository} ${target}`);
  for (const [place, tasks] of byBranch) {
    const [repository = "", branch = ""] = place.split(" ");
    if (cluster.host.git(repository, "for-each-ref", `refs/heads/${branch}`) === "") {
      faults.push(`${place} is not there, for ${tasks.map(({ taskID }) => taskID).join(", ")}`);
      continue;
    }
    const range = branch === "main" ? "main" : `main..${branch}`;
    const landed = cluster.host
      .git(repository, "log", "--format=%(trailers:key=Task,valueonly,separator=%x2C)", range)
      .split("\n")
      .filter((line) => line !== "")
      .toSorted();
    const wanted = tasks.map(({ taskID }) => taskID).toSorted();
    if (JSON.stringify(landed) !== JSON.stringify(wanted))
      faults.push(
        `${place} has commits of ${landed.filter((id, at) => !wanted.includes(id) || landed.indexOf(id) !== at)} too many, and none of ${wanted.filter((id) => !landed.includes(id))}`,
      );
    const files = new Set(cluster.host.git(repository, "ls-tree", "-r", "--name-only", branch).split("\n"));
    for (const { name } of tasks)
      for (const file of filesOf(name))
        if (!files.has(file)) faults.push(`${place} has no ${file}`);
        else if (cluster.host.git(repository, "show", `${branch}:${file}`) !== name)
          faults.push(`${place}: ${file} is not what was written`);
  }
  // Nothing landed of Tasks that nobody knows, on no branch.
  for (const repository of new Set(made.map((task) => task.repository))) {
    const all = cluster.host.git(repository, "log", "--all", "--format=%(trailers:key=Task,valueonly,separator=%x2C)");
    const known = new Set(made.map(({ taskID }) => taskID));
    for (const taskID of new Set(all.split("\n")))
      if (taskID !== "" && !known.has(taskID)) faults.push(`${repository} has a commit of ${taskID}`);
    git(join(cluster.root, "host", `${repository}.git`), "fsck", "--strict");
  }
  return faults;
};

const blobFaults = async (url: string, log: readonly Row[]): Promise<string[]> => {
  const rows = await query<{ sha256: string; bytes: string; data: Buffer | null }>(
    url,
    `select b.sha256, b.bytes, string_agg(p.data, ''::bytea order by p.part) as data
       from blobs b left join blob_parts p using (sha256) group by 1, 2`,
  );
  const there = new Set(rows.map(({ sha256 }) => sha256));
  const named = new Set(
    log.flatMap(({ data }) => [...JSON.stringify(data).matchAll(/"sha256":"([0-9a-f]{64})"/g)].map(([, name]) => name)),
  );
  return [
    ...[...named].flatMap((name) =>
      there.has(name ?? "") ? [] : [`the log names the blob ${name}, which is not there`],
    ),
    ...rows.flatMap(({ sha256, bytes, data }) => {
      const whole = data ?? Buffer.alloc(0);
      return whole.length === Number(bytes) && createHash("sha256").update(whole).digest("hex") === sha256
        ? []
        : [`the blob ${sha256} has ${whole.length} bytes of ${bytes}, or others`];
    }),
  ];
};

/** Each end once, under one id, however often it was sent. */
const webhookFaults = async ({ receiver }: Cluster, log: readonly Row[]): Promise<string[]> => {
  const told = (): Map<string, Set<string>> => {
    const ids = new Map<string, Set<string>>();
    for (const { headers, message } of receiver.received) {
      const { eventID } = message.data as { eventID: number };
      const key = `${message.type} ${eventID}`;
      ids.set(key, (ids.get(key) ?? new Set()).add(headers["webhook-id"] ?? ""));
    }
    return ids;
  };
  const ends = log.filter(({ type }) => type === "task.settled" || type === "mission.finished");
  const missing = () => {
    const events = new Set([...told().keys()].map((key) => Number(key.split(" ")[1])));
    return ends.filter(({ position }) => !events.has(position));
  };
  await until(
    () => Promise.resolve(missing().length),
    (left) => left === 0,
    60_000,
    200,
  ).catch(() => {});
  const byID = new Map<string, string>();
  const faults = missing().map(({ position, stream }) => `no webhook told of event ${position}, the end of ${stream}`);
  for (const [key, ids] of told()) {
    if (ids.size !== 1) faults.push(`webhooks told of ${key} under ${ids.size} ids`);
    for (const id of ids) {
      if (byID.has(id)) faults.push(`the webhook ${id} told of ${key} and of ${byID.get(id)}`);
      byID.set(id, key);
    }
  }
  return faults;
};

/** Writes the log down for whoever looks for the reason, one event a line; resolves to the file. */
export const keepLog = async ({ url }: Cluster): Promise<string> => {
  const rows = await query<Record<"position" | "stream" | "version" | "type" | "at" | "data", string>>(
    url,
    "select position, stream, version, type, at, data from events order by position",
  );
  const file = join(mkdtempSync(join(tmpdir(), "sortie-fault-")), "events.txt");
  writeFileSync(
    file,
    rows.map((row) => `${row.position} ${row.at} ${row.stream} ${row.version} ${row.type} ${row.data}\n`).join(""),
  );
  return file;
};

/** A Task's files are on one node: another one that had them has removed them. */
const leftFaults = async ({ nodes }: Cluster, made: readonly Made[]): Promise<string[]> => {
  const twice = () =>
    made.flatMap(({ taskID }) => {
      const at = nodes.filter(({ dataDir }) => existsSync(join(dataDir, "worktrees", `${taskID}.json`)));
      return at.length > 1 ? [`the files of ${taskID} are on ${at.map(({ name }) => name).join(" and ")}`] : [];
    });
  return until(
    () => Promise.resolve(twice()),
    (left) => left.length === 0,
    30_000,
    300,
  ).catch(twice);
};

/** After all nodes were stopped in good order. */
export const endFaults = async ({ nodes }: Cluster): Promise<string[]> => {
  await Promise.all(nodes.map((node) => node.end("SIGTERM")));
  return nodes.flatMap(({ name, dataDir }) => {
    const left = processesOf(dataDir);
    return left.length === 0 ? [] : [`${name} has ended, and left the processes ${left.join(", ")}`];
  });
};

/** Everything, in words; empty: all of it holds. `archives`: of how many Tasks the archive is looked into. */
export const judge = async (cluster: Cluster, work: Work, random: Random, archives: number): Promise<string[]> => {
  const faults: string[] = cluster.nodes.flatMap(({ deaths }) => deaths);
  const made: Made[] = [];
  for (const { taskID, name, repository, branch, request } of work.tasks) {
    const { body } = await askAny(cluster, random, `/task/${taskID}/status`);
    if (body["lifecycleStatus"] !== "completed")
      faults.push(`${taskID} (${name}) is ${String(body["lifecycleStatus"])}: ${JSON.stringify(body["error"])}`);
    made.push({ taskID, name, repository, target: branch ? `sortie/${taskID}` : "main" });
    if (!/-long$|\n/.test(request)) continue;
    const { body: messages } = await askAny(cluster, random, `/task/${taskID}/messages?limit=200`);
    if (!hasLongText(JSON.stringify(messages), name)) faults.push(`${taskID}: the long text of ${name} is not whole`);
  }
  for (const { missionID, name, repository } of work.missions) {
    const at = `repository=${encodeURIComponent(cluster.host.url(repository))}`;
    const { body } = await askAny(cluster, random, `/mission/${missionID}/status?${at}`);
    const tasks = body["tasks"] as { taskID: string; title: string; phase?: string; lifecycleStatus: string }[];
    const branch = String(body["landingBranch"]);
    if ((body["finished"] as { outcome?: string } | null)?.outcome !== "done")
      faults.push(`the Mission ${missionID}: ${JSON.stringify({ ...body, tasks: undefined }).slice(0, 1500)}`);
    if (tasks.length !== 2) faults.push(`the Mission ${missionID} has ${tasks.length} Tasks`);
    for (const { taskID, lifecycleStatus } of tasks) {
      if (lifecycleStatus !== "completed") faults.push(`${taskID} of ${missionID} is ${lifecycleStatus}`);
      const { body: task } = await askAny(cluster, random, `/task/${taskID}`);
      const phase = /Write: ([\w-]+)\./.exec(JSON.stringify(task))?.[1] ?? `${name}-?`;
      made.push({ taskID, name: phase, repository, target: branch });
    }
  }
  // Nothing goes on.
  await Promise.all(
    cluster.nodes.map(({ name, dataDir }) =>
      until(
        () => Promise.resolve(processesOf(dataDir)),
        (left) => left.length === 0,
        10_000,
        100,
      ).catch((error: unknown) => faults.push(`processes of ${name} are left: ${String(error)}`)),
    ),
  );
  faults.push(...(await leftFaults(cluster, made)));
  let log = await logOf(cluster.url);
  // Readers have what there is, once it has come to rest.
  await until(
    async () => {
      log = await logOf(cluster.url);
      return work.followers.every(({ ids }) => ids.length >= log.length);
    },
    (all) => all,
    20_000,
    300,
  ).catch(() => {});
  const streams = new Set(log.flatMap(({ stream, type }) => (type === "task.created" ? [stream] : [])));
  if (streams.size !== made.length)
    faults.push(`there are ${streams.size} Tasks for ${made.length} that were asked for`);
  faults.push(...logFaults(log, work), ...landingFaults(cluster, made), ...(await blobFaults(cluster.url, log)));
  faults.push(...(await webhookFaults(cluster, log)));
  for (let left = Math.min(archives, made.length); left > 0; left -= 1)
    faults.push(...(await archiveFaults(cluster, random, random.pick(made).taskID)));
  return faults;
};

/** Of any node, wherever the Task's files are. */
const archiveFaults = async (cluster: Cluster, random: Random, taskID: string): Promise<string[]> => {
  const node = random.pick(cluster.nodes);
  const response = await fetch(`${node.url()}/task/${taskID}/project-archive`);
  const bytes = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200) return [`the archive of ${taskID} at ${node.name}: ${response.status} ${String(bytes)}`];
  const file = join(cluster.root, `${taskID}.zip`);
  writeFileSync(file, bytes);
  try {
    const { code, findings } = await verified(file);
    const bad = findings.filter(({ state }) => state === "bad");
    return code === 0 ? [] : [`the archive of ${taskID} at ${node.name}: ${JSON.stringify(bad)}`];
  } finally {
    rmSync(file, { force: true });
  }
};
