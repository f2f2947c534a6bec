import { spawnSync } from "node:child_process";
import { afterAll, describe, expect, test } from "vitest";
import { createBackground } from "../../src/tool/command/background.ts";
import { makeToolLab } from "./fixture.ts";

/** Commands in the background: started by `shell`, read, waited for and killed by `process`. */

const lab = makeToolLab();
afterAll(() => lab[Symbol.asyncDispose]());

/** A killed process may still stand in the table until somebody reaps it. */
const alive = (pid: number): boolean => {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.trim() !== "" && !stdout.trim().startsWith("Z");
};
const seconds = /\d+\.\d s/g;
const plain = (text: string) => text.replaceAll(seconds, "T");

describe("background commands", () => {
  test("one is started, read, waited for; what was read is not told again", async () => {
    const { call, put } = await lab.open();
    const begun = performance.now();
    const started = await call("shell", {
      command: "echo up; until [ -e go ]; do sleep 0.05; done; echo end; exit 3",
      background: true,
    });
    expect(started).toEqual({ outcome: "ok", output: "Runs in the background as p1-1.\nup" });
    expect(performance.now() - begun).toBeLessThan(4000);
    expect(plain((await call("process", { action: "read", id: "p1-1" })).output)).toBe(
      "p1-1 has been running for T.\n(no new output)",
    );
    expect(plain((await call("process", { action: "list" })).output)).toMatch(
      /^p1-1 has been running for T\. echo up;/,
    );
    put("go", "");
    const ended = await call("process", { action: "wait", id: "p1-1" });
    expect({ ...ended, output: plain(ended.output) }).toEqual({
      outcome: "ok",
      output: "p1-1 ended with exit code 3 after T.\nend",
      exitCode: 3,
    });
  });

  test("a read waits for output as long as it is told, and no longer", async () => {
    const { call } = await lab.open();
    await call("shell", { command: "echo a; sleep 0.6; echo b; sleep 30", background: true });
    expect(plain((await call("process", { action: "read", id: "p1-1", seconds: 20 })).output)).toBe(
      "p1-1 has been running for T.\nb",
    );
    const begun = performance.now();
    expect((await call("process", { action: "read", id: "p1-1", seconds: 0.3 })).output).toContain("(no new output)");
    expect((await call("process", { action: "wait", id: "p1-1", seconds: 0.3 })).output).toContain(
      "p1-1 has been running for",
    );
    expect(performance.now() - begun).toBeGreaterThan(550);
    await call("process", { action: "kill", id: "p1-1" });
  });

  test("one that fails at once says so at once, with its output", async () => {
    const { call } = await lab.open();
    const input = { command: "echo no such thing >&2; exit 127", background: true };
    const results: string[] = [];
    // On a busy machine the end may come long after the output: one in time is enough.
    while (results.length < 5 && !results.some((result) => result.startsWith("127:"))) {
      const { output, exitCode } = await call("shell", input);
      results.push(`${exitCode}: ${plain(output).replace(/p1-\d/, "p1-1")}`);
    }
    expect(results).toContain("127: p1-1 ended with exit code 127 after T.\nno such thing");
  });

  test("kill ends it and all it started; without it they live", async () => {
    const { call } = await lab.open();
    const started = await call("shell", { command: "(setsid sleep 60) & echo $!; sleep 60", background: true });
    const pid = Number(started.output.split("\n")[1]);
    expect(alive(pid)).toBe(true);
    const killed = await call("process", { action: "kill", id: "p1-1" });
    expect(plain(killed.output)).toBe("p1-1 was killed after T.\n(no new output)");
    expect(alive(pid)).toBe(false);
    expect((await lab.processes.killAll("task_none")).length).toBe(0);
  });

  test("at most four at a time; a place that is free again is used", async () => {
    const { call } = await lab.open();
    const start = () => call("shell", { command: "sleep 60", background: true });
    const begun = await Promise.all([start(), start(), start(), start()]);
    expect(begun.map(({ outcome }) => outcome)).toEqual(["ok", "ok", "ok", "ok"]);
    expect(await start()).toEqual({
      outcome: "error",
      output: "Expected at most 4 background commands at a time; `process` lists and kills them.",
    });
    await call("process", { action: "kill", id: "p1-2" });
    expect((await start()).output).toBe("Runs in the background as p1-5.\n(no new output)");
    for (const id of ["p1-1", "p1-3", "p1-4", "p1-5"]) await call("process", { action: "kill", id });
  });

  test("what the service ended is said as such; an earlier run's, an unknown one and a missing id, too", async () => {
    const { call, context } = await lab.open({}, { epoch: 7 });
    const { output } = await call("shell", { command: "echo $$; sleep 60", background: true });
    const pid = Number(output.split("\n")[1]);
    expect(alive(pid)).toBe(true);
    await context.background.end();
    expect(alive(pid)).toBe(false);
    const of = async (id?: string) =>
      plain((await call("process", { action: "read", ...(id === undefined ? {} : { id }) })).output);
    expect(await of("p7-1")).toBe(
      "p7-1 was stopped after T: the service stops background commands when you finish.\n(no new output)",
    );
    expect(await of("p6-1")).toMatch(/^p6-1 ended when the service restarted/);
    expect(await of("p8-1")).toBe('There is no background command "p8-1"; there is p7-1.');
    expect(await of("p7-2")).toContain("There is no background command");
    expect(await of("nonsense")).toContain("There is no background command");
    expect(await of()).toBe("Expected `id` for read.");
  });

  test("much output: what is new is cut to head and tail, all of it is kept within the limit", async () => {
    const { call } = await lab.open();
    await call("shell", { command: "sleep 1.2; seq 1 60000", background: true });
    const { output } = await call("process", { action: "wait", id: "p1-1", seconds: 30 });
    expect(output.length).toBeLessThan(25_000);
    expect(output).toContain("\n60000\n");
    const path = /path (output:call_\d+)/.exec(output)?.[1] ?? "";
    expect((await call("read", { path, offset: 30_000, limit: 1 })).output).toMatch(/^30000\t30000\n/);
    expect((await call("search", { path, pattern: "^4999\\d$", mode: "count" })).output).toBe(`10\t${path}`);
  });

  test("an abort ends the waiting, not only the command", async () => {
    const { call, context } = await lab.open();
    await call("shell", { command: "sleep 60", background: true });
    const stop = new AbortController();
    const waiting = call("process", { action: "wait", id: "p1-1", seconds: 60 }, { signal: stop.signal });
    stop.abort(new Error("cancelled"));
    await expect(waiting).rejects.toThrow("cancelled");
    await context.background.end();
  });

  test("its own time limit and a folder outside", async () => {
    const { call } = await lab.open();
    await call("shell", { command: "sleep 60", background: true, timeoutSeconds: 1 });
    expect(plain((await call("process", { action: "wait", id: "p1-1", seconds: 20 })).output)).toContain(
      "at its time limit",
    );
    expect((await call("shell", { command: "touch ran", background: true, cwd: ".." })).outcome).toBe("error");
  });

  test("ended ones are forgotten after twenty, running ones never", async () => {
    const { context } = await lab.open();
    const background = createBackground(2);
    const start = (run: string) =>
      background.start(
        context.workspace,
        { run, written: run, cwd: context.workspace.root, timeoutMs: 60_000, keepBytes: 1000 },
        4,
      );
    const first = start("sleep 60");
    for (let count = 0; count < 22; count += 1) await start("true")?.wait("end", 10_000, context.signal);
    expect(background.list().length).toBe(20);
    expect(background.find("p2-1")).toBe(first);
    expect(background.find("p2-2")).toBe("p2-2 ended a while ago and is forgotten.");
    await background.end();
  });
});

describe("results that are cut", () => {
  test("a long output is kept whole and read in pages; another call's id is refused", async () => {
    const { call } = await lab.open();
    const { output, full } = await call("shell", { command: "seq 1 20000" });
    expect(output).toContain("all of it: `read` or `search` path output:call_1");
    expect(String(full).split("\n").length).toBe(20_000);
    expect((await call("read", { path: "output:call_1", offset: 10_000, limit: 2 })).output).toBe(
      "10000\t10000\n10001\t10001\n… lines 10000 to 10001 of 20000; more: offset 10002 …",
    );
    expect((await call("search", { path: "output:call_1", pattern: "^777$", context: 1 })).output).toBe(
      "output:call_1\n  776- 776\n  777: 777\n  778- 778",
    );
    expect((await call("search", { path: "output:call_1", pattern: "(" })).outcome).toBe("error");
    for (const path of ["output:call_2", "output:", "output:../x"]) {
      expect((await call("read", { path })).output).toContain("Expected output: and the id");
      expect((await call("search", { path, pattern: "x" })).output).toContain("Expected output: and the id");
    }
    expect((await call("shell", { command: "seq 1 20" })).full).toBeUndefined();
  });
});
