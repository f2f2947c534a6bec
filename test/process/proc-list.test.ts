import { spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readlinkSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { heldMarkOf } from "../../src/process/command/kill.ts";
import { closedInProc } from "../../src/process/sandbox/bubblewrap.ts";
import { temporary } from "../harness/project.ts";

/**
 * /proc is read while processes end and descriptors are closed: what is gone by then is passed over, and nothing else.
 */

/** Calls both until the naive way has failed once, which shows that what it is about has happened. */
const until = (naive: () => void, ours: () => void): boolean => {
  for (const begun = performance.now(); performance.now() - begun < 15_000; ) {
    ours();
    try {
      naive();
    } catch {
      return true;
    }
  }
  return false;
};

const bash = (script: string, stdio: ("ignore" | number)[] = []) => {
  const child = spawn("bash", ["-c", script], { stdio: ["ignore", "ignore", "ignore", ...stdio] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
};

describe.runIf(process.platform === "linux")("/proc", () => {
  test("a process that ends while it is listed keeps no service from starting; control: asked for kinds, it fails", () => {
    for (let count = 0; count < 2; count += 1) bash("while :; do (:) & (:) & (:) & wait; done");
    const closed = closedInProc();
    expect(closed).not.toContain("cpuinfo");
    expect(
      until(
        () => readdirSync("/proc", { withFileTypes: true }),
        () => expect(closedInProc()).toEqual(closed),
      ),
    ).toBe(true);
  });

  test("a descriptor that is closed while they are read hides no mark behind it; control: read all or none, it does", () => {
    using root = temporary("sortie-mark-");
    const file = join(root.path, "task_1%2F1");
    const held = openSync(file, "w");
    unlinkSync(file);
    const { pid = 0 } = bash("while :; do exec 3</dev/null; exec 3<&-; done", ["ignore", "ignore", "ignore", held]);
    closeSync(held);
    const fds = `/proc/${pid}/fd`;
    const files = { folder: root.path, runID: "run", since: 0 };
    expect(
      until(
        () => readdirSync(fds).map((fd) => readlinkSync(join(fds, fd))),
        () => expect(heldMarkOf(String(pid), files)).toBe("run/task_1/1"),
      ),
    ).toBe(true);
  });
});
