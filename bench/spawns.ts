import child from "node:child_process";
import { appendFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/** Loaded into a service before its own code: notes every program it starts, one line each. */

const file = process.env["BENCH_SPAWNS"];
const spawn = child.spawn.bind(child);

// The last of several signatures is the one that all calls of the service have.
child.spawn = ((command: string, args: readonly string[], options: child.SpawnOptions) => {
  if (file !== undefined) appendFileSync(file, `${command} ${args.join(" ").replaceAll("\n", " ")}\n`);
  return spawn(command, args, options);
}) as typeof child.spawn;
syncBuiltinESMExports();
