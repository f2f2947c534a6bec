import { spawn } from "node:child_process";
import type { Log } from "../log.ts";

/**
 * Reports the service's state to systemd (sd_notify(3)) when a unit with `Type=notify` runs it. Node cannot open Unix
 * datagram sockets, so each message is sent by systemd's own program `systemd-notify`.
 */

export interface ServiceManager {
  /**
   * Reports that the service listens. From then on a timer answers the watchdog, so a service with a blocked event loop
   * does not.
   */
  ready(status: string): void;
  stopping(): void;
}

export const createServiceManager = (env: Readonly<Record<string, string | undefined>>, log: Log): ServiceManager => {
  const { NOTIFY_SOCKET: socket, PATH: path = "/usr/bin:/bin" } = env;
  /** Whether a message is being sent: systemd confirms each one, and may be slow itself. */
  let sending = false;

  const send = (...state: string[]): void => {
    if (socket === undefined) return;
    sending = true;
    const child = spawn("systemd-notify", ["--", ...state], {
      env: { PATH: path, NOTIFY_SOCKET: socket },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said = (said + chunk.toString("utf8")).slice(0, 1000)));
    const failed = (why: string) =>
      log.warn(
        { state: state[0], why },
        "systemd was not notified: install systemd-notify, or remove Type=notify and WatchdogSec= from the unit",
      );
    child.once("error", ({ message }) => {
      sending = false;
      failed(message);
    });
    child.once("close", (code) => {
      sending = false;
      if (code !== 0 && code !== null) failed(said.trim() || `it ended with ${code}`);
    });
  };

  return {
    ready(status) {
      send("READY=1", `STATUS=${status}`);
      const interval = watchdogMs(env);
      if (socket === undefined || interval === undefined) return;
      setInterval(() => {
        if (!sending) send("WATCHDOG=1");
      }, interval / 2).unref();
    },
    stopping: () => send("STOPPING=1"),
  };
};

/** Milliseconds within which systemd expects a sign of life; undefined: it does not watch this process. */
const watchdogMs = ({ WATCHDOG_USEC: interval, WATCHDOG_PID: pid }: Record<string, string | undefined>) => {
  if (interval === undefined || !/^[1-9]\d{0,14}$/.test(interval)) return undefined;
  return pid === undefined || Number(pid) === process.pid ? Number(interval) / 1000 : undefined;
};
