import { readdirSync, readFileSync } from "node:fs";

/** Fourteen ways for a command to leave a process behind (T17), and who of them is alive, wherever it went. */

const forms: Record<string, string> = {
  "in the background": "SLEEP &",
  nohup: "nohup SLEEP >/dev/null 2>&1 &",
  "double fork": "( ( SLEEP & ) & )",
  setsid: "setsid SLEEP &",
  "setsid, output elsewhere": "setsid SLEEP </dev/null >/dev/null 2>&1 &",
  "setsid twice, deaf": "setsid bash -c \"trap '' TERM INT HUP; setsid SLEEP & wait\" &",
  "a job of its own, disowned": "set -m; SLEEP & disown; set +m",
  "every descriptor closed":
    "setsid bash -c 'for fd in 0 1 2 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done; exec SLEEP' &",
  "no environment": "env -i SLEEP &",
  "no environment, another session": "setsid env -i SLEEP &",
  "a daemon that keeps what it does not know":
    "setsid env -i bash -c 'cd /; exec </dev/null >/dev/null 2>&1 3>&-; exec SLEEP' &",
  "a daemon":
    "setsid env -i bash -c 'cd /; for fd in 0 1 2 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done; exec SLEEP' &",
  stopped: "SLEEP & until grep -q sleep /proc/$!/comm; do sleep 0.02; done; kill -STOP $!",
  "started again when it dies": "setsid bash -c 'while :; do SLEEP; done' &",
};

export const formNames = Object.keys(forms);

/** A number that no other process has among its arguments, so that they are found whatever else they shed. */
export const newToken = (): string => String(Math.floor(Math.random() * 9e11) + 1e11);

/** A command that leaves one process of each form. */
export const leaving = (token: string): string =>
  Object.values(forms)
    .map((form, at) => form.replaceAll("SLEEP", `sleep 86400.${token}${at + 10}`))
    .join("\n");

const found = (token: string): { pid: number; name: string }[] =>
  readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const [program, duration = ""] = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0");
      // What is being ended is a zombie for a moment.
      if (!program?.endsWith("sleep") || !duration.startsWith(`86400.${token}`)) return [];
      const name = formNames[Number(duration.slice(-2)) - 10] ?? duration;
      return [{ pid: Number(pid), name }];
    } catch {
      return [];
    }
  });

/** The forms that are alive, in their order. */
export const alive = (token: string): string[] => {
  const names = new Set(found(token).map(({ name }) => name));
  return formNames.filter((name) => names.has(name));
};

/** Ends what a test left on purpose. What starts another one is ended first. */
export const endAll = (token: string): void => {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name)))
    try {
      const text = readFileSync(`/proc/${pid}/cmdline`, "latin1");
      if (text.startsWith("bash\0-c\0") && text.includes(`86400.${token}`)) process.kill(Number(pid), "SIGKILL");
    } catch {}
  for (const { pid } of found(token)) process.kill(pid, "SIGKILL");
};
