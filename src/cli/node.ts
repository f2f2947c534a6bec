import { setTimeout as pause } from "node:timers/promises";
import { connect, expectData, type Target } from "./connection.ts";
import { Exit, exit } from "./terminal/exit.ts";
import type { Screen } from "./terminal/screen.ts";
import { line, table } from "./terminal/format.ts";

/** `sortie nodes`: the services that share a database, and how they are. Exit code 1 while one is lost. */

type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined };

export const nodes = async ({ target, screen, emit }: Context): Promise<number> => {
  const found = expectData(await connect(target).service.nodes(), target.url);
  if (emit !== undefined) emit(found);
  else if (found.self === null)
    throw new Exit(exit.failed, "This service does not share its database: SERVICE_NODE is not set.");
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

/** `sortie drain`: has a node take up nothing more, and waits until no run of it is left. */
export const drain = async (name: string, { target, screen, emit }: Context): Promise<number> => {
  const { service } = connect(target);
  let node = expectData(await service.drainNode({ path: { name } }), target.url);
  while (node.running > 0 || node.state === "up") {
    screen.say(
      `${line(name)} is finishing the current ${node.running === 1 ? "step of 1 run" : `steps of ${node.running} runs`}`,
    );
    await pause(lookMs);
    const { nodes: found } = expectData(await service.nodes(), target.url);
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
