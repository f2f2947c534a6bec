import { setTimeout as pause } from "node:timers/promises";
import { connect, dataOf, type Target } from "./connection.ts";
import { Exit, exit } from "./terminal/exit.ts";
import type { Screen } from "./terminal/screen.ts";
import { line, table } from "./terminal/format.ts";

/** Commands about the nodes that share a database. */

type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined };

/** `sortie nodes`: lists the nodes and their states. Exit code 1 while a node is lost. */
export const nodes = async ({ target, screen, emit }: Context): Promise<number> => {
  const found = dataOf(await connect(target).service.nodes(), target.url);
  if (emit !== undefined) emit(found);
  else if (found.self === null) throw new Exit(exit.failed, "This service has its database alone.");
  else
    screen.say(
      table([
        ["NODE", "ROLE", "STATE", "RUNNING", "ROOM", "DISK FREE", "TIER", "DIFFERS", "VERSION", "HOST", "SEEN"],
        ...found.nodes.map(({ name, role, state, running, room, diskFree, tier, differs, version, host, seenAt }) => [
          line(name === found.self ? `${name} *` : name),
          role,
          state,
          String(running),
          String(room),
          `${(diskFree / 1024 ** 3).toFixed(1)} GiB`,
          String(tier),
          differs.join(", ") || "-",
          line(version),
          line(host, 40),
          line(seenAt),
        ]),
      ]),
    );
  if (emit === undefined)
    for (const { taskID, reason } of found.untaken) screen.say(`${line(taskID)} ${line(reason, 400)}`);
  return found.nodes.some(({ state }) => state === "lost") ? exit.failed : exit.completed;
};

const lookMs = 500;

/** `sortie drain`: makes a node drain, and waits until it has no runs left. */
export const drain = async (name: string, { target, screen, emit }: Context): Promise<number> => {
  const { service } = connect(target);
  let node = dataOf(await service.drainNode({ path: { name } }), target.url);
  while (node.running > 0 || node.state === "up") {
    screen.say(
      `${line(name)} is finishing the current ${node.running === 1 ? "step of 1 run" : `steps of ${node.running} runs`}`,
    );
    await pause(lookMs);
    const { nodes: found } = dataOf(await service.nodes(), target.url);
    const next = found.find((one) => one.name === name);
    if (next === undefined || next.state === "stopped" || next.state === "lost") break;
    node = next;
  }
  if (emit !== undefined) emit(node);
  else
    screen.say(
      `${line(name)} is drained and can be stopped. Other nodes take over its Tasks in repositories; the others continue when it is started again.`,
    );
  return exit.completed;
};

const moveLookMs = 1_000;

/** `sortie blobs move`: makes the service move the blobs of its data folder, and waits until none is left there. */
export const moveBlobs = async ({ target, screen, emit }: Context): Promise<number> => {
  const { service } = connect(target);
  const ask = async () => dataOf(await service.moveBlobs(), target.url);
  let found = await ask();
  for (let shown = -1; found.state === "moving"; found = await ask()) {
    if (emit === undefined && found.moved !== shown) screen.say(`${found.moved} moved`);
    shown = found.moved;
    await pause(moveLookMs);
  }
  if (emit !== undefined) emit(found);
  if (found.state === "kept") {
    if (emit !== undefined) return exit.failed;
    throw new Exit(
      exit.failed,
      "With SQLite, blobs stay in the data folder. Start the service with SERVICE_BLOBS=s3://bucket/prefix to move them there.",
    );
  }
  if (emit === undefined)
    screen.say(
      `No blobs are left in the data folder: they are in ${found.place === "s3" ? "the bucket" : "the database, which other nodes can use from now on"}.`,
    );
  return exit.completed;
};
