import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { built, compileCache } from "../../harness/built.ts";
import { temporary } from "../../harness/project.ts";

/** The service under a unit with `Type=notify`: what arrives at a socket like systemd's. */

const there = spawnSync("systemd-notify", ["--version"]).status === 0;
if (!there) console.warn("SKIPPED: what the service tells systemd goes through systemd-notify, which is not here.");

const bin = fileURLToPath(new URL("../../../bin/sortie.js", import.meta.url));

/** Prints each message with the milliseconds since it began, and lets go of the barriers that are sent with them. */
const receiver = `
import array, os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1]); began = time.monotonic(); print("bound", flush=True)
while True:
    data, more, _, _ = s.recvmsg(4096, 1024)
    for level, kind, fds in more:
        if kind == socket.SCM_RIGHTS:
            for fd in array.array("i", fds): os.close(fd)
    for line in data.decode().splitlines(): print(round((time.monotonic() - began) * 1000), line, flush=True)`;

type Message = { at: number; text: string };

/** A socket like systemd's, and what has arrived there but barriers. */
const listen = async (folder: string) => {
  const socket = join(folder, "notify");
  const child = spawn("python3", ["-c", receiver, socket], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill());
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  await expect.poll(() => text, { timeout: 10_000 }).toContain("bound\n");
  const messages = (): Message[] =>
    text.split("\n").flatMap((line) => {
      const [, at, said] = /^(\d+) (.*)$/.exec(line) ?? [];
      return at === undefined || said === undefined || said === "BARRIER=1" ? [] : [{ at: Number(at), text: said }];
    });
  return { socket, messages, texts: () => messages().map((message) => message.text) };
};

const start = (args: string[], env: Record<string, string | undefined>, folder: string) => {
  const child: ChildProcess = spawn(process.execPath, args, {
    env: { PATH: process.env["PATH"], HOME: folder, SERVICE_MODEL: "builtin/rules-1", ...compileCache, ...env },
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const ended = new Promise<number | null>((done) => child.once("close", (code) => done(code)));
  return { child, ended, said: () => said };
};

test.runIf(there)("serve says when it listens and when it stops, and answers the watchdog in between", async () => {
  using folder = temporary("sortie-systemd-");
  await built();
  const { socket, texts } = await listen(folder.path);
  const args = [bin, "serve", "--port", "0", "--data-dir", join(folder.path, "data")];
  const service = start(args, { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "400000" }, folder.path);
  await expect
    .poll(() => texts().filter((text) => text === "WATCHDOG=1").length, { timeout: 30_000 })
    .toBeGreaterThan(2);
  const [, url = ""] = /listening on (http:\S+)/.exec(service.said()) ?? [];
  expect(texts().slice(0, 2)).toEqual(["READY=1", `STATUS=listening on ${url}`]);
  expect((await fetch(`${url}/health`)).status).toBe(200);
  expect(texts()).not.toContain("STOPPING=1");
  service.child.kill("SIGTERM");
  expect(await service.ended).toBe(0);
  await expect.poll(() => texts().filter((text) => text !== "WATCHDOG=1"), { timeout: 5000 }).toContain("STOPPING=1");
  expect(texts().filter((text) => text.startsWith("READY="))).toHaveLength(1);
});

test.runIf(there)("without a unit nothing is started; without systemd-notify the log names the remedy", async () => {
  using folder = temporary("sortie-systemd-");
  await built();
  const tools = join(folder.path, "tools");
  mkdirSync(tools);
  writeFileSync(join(tools, "systemd-notify"), `#!/bin/bash\necho "$@" >> ${folder.path}/called\nexit 1\n`, {
    mode: 0o755,
  });
  const env = { PATH: `${tools}:${process.env["PATH"]}` };
  const listening = async (more: Record<string, string>) => {
    const args = [bin, "serve", "--port", "0", "--data-dir", join(folder.path, "data")];
    const service = start(args, { ...env, ...more }, folder.path);
    await expect.poll(service.said, { timeout: 30_000 }).toContain("listening on");
    if ("NOTIFY_SOCKET" in more)
      await expect.poll(service.said, { timeout: 10_000 }).toContain("systemd was not notified");
    service.child.kill("SIGTERM");
    await service.ended;
    return service.said();
  };
  expect(await listening({ WATCHDOG_USEC: "400000" })).not.toContain("systemd was");
  expect(spawnSync("cat", [join(folder.path, "called")]).status).toBe(1);
  expect(await listening({ NOTIFY_SOCKET: "/nowhere" })).toMatch(/systemd was not notified: install systemd-notify/);
  expect(spawnSync("cat", [join(folder.path, "called")]).stdout.toString()).toMatch(/^-- READY=1 STATUS=listening on /);
});

test.runIf(there)(
  "a loop that is stuck does not answer, however it came to be; another process's watchdog is not answered",
  async () => {
    using folder = temporary("sortie-systemd-");
    const { socket, messages, texts } = await listen(folder.path);
    const script = `
    import { createServiceManager } from "${new URL("../../../src/cli/systemd.ts", import.meta.url).href}";
    createServiceManager(process.env, { warn: console.error }).ready("here");
    setTimeout(() => { const until = Date.now() + 1500; while (Date.now() < until); console.log("stuck no more"); }, 2000);
    setTimeout(() => {}, 60_000);`;
    const node = ["--input-type=module", "-e", script];
    const env = { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "200000" };
    const { said } = start(node, env, folder.path);
    await expect.poll(said, { timeout: 20_000 }).toContain("stuck no more");
    const seen = () => messages().filter(({ text }) => text === "WATCHDOG=1");
    const before = seen().length;
    await expect.poll(() => seen().length, { timeout: 10_000 }).toBeGreaterThan(before + 2);
    const gaps = seen().map(({ at }, index, all) => at - (all[index - 1]?.at ?? at));
    expect(Math.max(...gaps)).toBeGreaterThan(1300);

    const others = texts().filter((text) => text === "READY=1").length;
    start(node, { ...env, WATCHDOG_PID: "1" }, folder.path);
    await expect.poll(() => texts().filter((text) => text === "READY=1").length, { timeout: 20_000 }).toBe(others + 1);
  },
);
