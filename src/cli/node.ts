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
        ["NODE", "STATE", "RUNNING", "ROOM", "DISK FREE", "TIER", "VERSION", "HOST", "SEEN"],
        ...found.nodes.map(({ name, state, running, room, diskFree, tier, version, host, seenAt }) => [
          line(name === found.self ? `${name} *` : name),
          state,
          String(running),
          String(room),
          `${(diskFree / 1024 ** 3).toFixed(1)} GiB`,
          String(tier),
          line(version),
          line(host, 40),
          line(seenAt),
        ]),
      ]),
    );
  return found.nodes.some(({ state }) => state === "lost") ? exit.failed : exit.completed;
};
