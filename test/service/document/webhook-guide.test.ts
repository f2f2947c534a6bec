import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { headersFor, newSecret } from "../../../src/webhook/signature.ts";
import { temporary, until } from "../../harness/project.ts";
import { blocksOf, home, page } from "./manual.ts";

/** The receivers of docs/webhooks.md run, and believe what they should. */

const blocks = blocksOf(page("docs/webhooks.md"));
const textOf = (name: string): string => {
  const found = blocks.find(({ info }) => info["run"] === name);
  if (found === undefined) throw new Error(`The guide has no receiver "${name}".`);
  return found.text;
};

const hasPython = spawnSync("python3", ["-c", ""]).status === 0;

const free = async (): Promise<number> => {
  const { createServer } = await import("node:net");
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
};

test.each([
  ["typescript", process.execPath, "receiver.ts"],
  ["python", "python3", "receiver.py"],
])("%s: takes what is signed, once, and nothing else", async (name, program, file) => {
  if (name === "python" && !hasPython) return;
  using root = temporary("sortie-guide-");
  writeFileSync(join(root.path, file), textOf(name));
  writeFileSync(join(root.path, "package.json"), '{ "type": "module" }');
  mkdirSync(join(root.path, "node_modules"));
  for (const each of ["standardwebhooks", "@stablelib", "fast-sha256"])
    symlinkSync(join(home, "node_modules", each), join(root.path, "node_modules", each));
  const secret = newSecret();
  const port = await free();
  const child: ChildProcess = spawn(program, [join(root.path, file)], {
    env: { PATH: process.env["PATH"] ?? "", NODE_NO_WARNINGS: "1", WEBHOOK_SECRET: secret, PORT: String(port) },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let out = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  try {
    await until(
      () => Promise.resolve(out),
      (text) => text.includes("ready"),
    );
    const body = JSON.stringify({
      type: "task.completed",
      timestamp: new Date().toISOString(),
      data: { taskID: "task_ü" },
    });
    const now = Date.now();
    const post = async (headers: Record<string, string>, sent = body) => {
      const { "content-length": _, ...rest } = headers;
      return (await fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers: rest, body: sent })).status;
    };
    const signed = (at: number, ...secrets: string[]) =>
      headersFor(
        "evt_1",
        body,
        secrets.map((each) => ({ secret: each, until: null })),
        at,
      );
    expect(await post(signed(now, secret))).toBe(204);
    expect(await post(signed(now + 1000, newSecret(), secret))).toBe(204);
    expect(await post(signed(now, secret), body.replace("completed", "failed"))).toBe(401);
    expect(await post(signed(now, newSecret()))).toBe(401);
    expect(await post(signed(now - 600_000, secret))).toBe(401);
    expect(await post({ "content-type": "application/json" })).toBe(401);
    expect(out).toBe("ready\ntask.completed task_ü\n");
  } finally {
    child.kill("SIGKILL");
  }
});
