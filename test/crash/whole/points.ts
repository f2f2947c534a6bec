import { createHash } from "node:crypto";
import { openSync, writeSync } from "node:fs";
import net from "node:net";
import { createDisk } from "./disk.ts";
import { watchEffects } from "./effects.ts";

/**
 * The points at which a service can die: right after each commit, and after each effect that follows it, before the
 * next. `12+3`: the third effect after the event at place 12 of the log; `12+0`: the commit itself.
 *
 * `kill`: the process ends itself there (SIGKILL), or at the next commit where fewer effects come than there were when
 * the points were listed. `quiet`: a file that says so if no program runs then that may still write. `list`: a file
 * that gets each point as it passes, what it is, and where `root` is given, in what state it leaves the machine.
 */
export type Watch = Record<"kill" | "quiet" | "list" | "root", string | undefined>;

export const watchPoints = async ({ kill, quiet, list, root }: Watch): Promise<(position: number) => void> => {
  if (kill === undefined && list === undefined) return () => {};
  // Opened before such things are watched; a write to a descriptor is none of them.
  const file = list === undefined ? undefined : openSync(list, "a");
  const said = quiet === undefined ? undefined : openSync(quiet, "a");
  const [event = 0, effect = 0] = (kill ?? "").split("+").map(Number);
  let position = 0;
  let effects = 0;
  let serial = 0;
  const sent = countSent();
  const disk = createDisk();
  /**
   * A death leaves the disk, what runs on, and what others were sent. Equal at two points, it is the same death, but
   * where a program runs that may write: how far that comes nobody knows.
   */
  const state = (): string => {
    if (root === undefined) return "";
    const alone = writers() === 0 ? "" : String((serial += 1));
    return createHash("sha256")
      .update(`${disk(root)} ${sent()} ${alone}`)
      .digest("base64url");
  };
  const pass = (what: string) => {
    if (file !== undefined) writeSync(file, `${position}+${effects} ${what}\t${state()}\n`);
    const there = position > event || (position === event && effects >= effect);
    if (kill === undefined || !there) return;
    if (said !== undefined && writers() === 0) writeSync(said, "quiet");
    process.kill(process.pid, "SIGKILL");
  };
  const writers = await watchEffects((what) => {
    // Before the first event the service starts; that is the same after every kill.
    if (position === 0) return;
    effects += 1;
    pass(what);
  });
  return (newest) => {
    // One without an event changes the rows beside the log alone.
    effects = newest > position ? 0 : effects + 1;
    position = Math.max(position, newest);
    if (position > 0) pass("commit");
  };
};

/**
 * How often something was sent to a provider, a receiver or a database; what callers are answered is forgotten with
 * them.
 */
const countSent = (): (() => number) => {
  let count = 0;
  const prototype = net.Socket.prototype as unknown as { write: (...args: unknown[]) => boolean };
  const { write } = prototype;
  prototype.write = function (this: net.Socket & { server?: unknown }, ...args: unknown[]) {
    if (this.remotePort !== undefined && this.server == null) count += 1;
    return write.apply(this, args);
  };
  return () => count;
};
