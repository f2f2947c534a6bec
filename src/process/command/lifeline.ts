import { execFile } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { shellQuote } from "../../shell-quote.ts";
import { closeOthers } from "../runner/init-script.ts";
import { withoutProxies } from "../sandbox/container.ts";

/**
 * A lifeline for a program in a container. The process that started it there is not its parent, and its standard input
 * belongs to the program, which may ignore its end. So process 1 also waits for the end of a named pipe that only the
 * service holds open, and that closes with the service however the service ends.
 */

export type Lifeline = { cut(): void };

const nameOf = "line";

/** Creates the named pipe in the folder of one sandbox. */
export const createLifeline = async (folder: string): Promise<Lifeline> => {
  const path = join(folder, nameOf);
  await promisify(execFile)("mkfifo", ["-m", "600", "--", path]);
  // Opened also for reading, because opening for writing alone would wait for the other side.
  let held: number | undefined = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  return {
    cut() {
      if (held !== undefined) closeSync(held);
      held = undefined;
    },
  };
};

const plain = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * The program's environment as a shell file: an engine would store variables passed to it where others can read them.
 */
export const exportsOf = (env: Readonly<Record<string, string>>): string =>
  Object.entries(env)
    .filter(([name]) => plain.test(name))
    .map(([name, value]) => `export ${name}=${shellQuote(value)}\n`)
    .join("");

/**
 * Process 1: ends when the program does, or at once when the line is cut or the process that waits for that is gone.
 */
export const lineScript = (io: string): string => `${closeOthers}
unset LC_ALL
${withoutProxies}
. '${io}/env'
exec 8<'${io}/${nameOf}'
read -r _ <&8 >/dev/null 2>&1 &
"$0" -c "$1" <&0 8<&- &
wait -n
exit $?`;
