import { openSync, writeSync } from "node:fs";
import { watchEffects } from "./effects.ts";

/**
 * The points at which a service can die: right after each commit, and after each effect that follows it, before the
 * next. `12+3`: the third effect after the event at place 12 of the log; `12+0`: the commit itself.
 *
 * `kill`: the process ends itself there (SIGKILL), or at the next commit where fewer effects come than there were when
 * the points were listed. `list`: a file that gets each point as it passes, and what it is.
 */
export const watchPoints = async (
  kill: string | undefined,
  list: string | undefined,
): Promise<(position: number) => void> => {
  if (kill === undefined && list === undefined) return () => {};
  // Opened before such things are watched; a write to a descriptor is none of them.
  const file = list === undefined ? undefined : openSync(list, "a");
  const [event = 0, effect = 0] = (kill ?? "").split("+").map(Number);
  let position = 0;
  let effects = 0;
  const pass = (what: string) => {
    if (file !== undefined) writeSync(file, `${position}+${effects} ${what}\n`);
    const there = position > event || (position === event && effects >= effect);
    if (kill !== undefined && there) process.kill(process.pid, "SIGKILL");
  };
  await watchEffects((what) => {
    // Before the first event the service starts; that is the same after every kill.
    if (position === 0) return;
    effects += 1;
    pass(what);
  });
  return (newest) => {
    position = newest;
    effects = 0;
    pass("commit");
  };
};
