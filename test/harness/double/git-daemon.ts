import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { answers, freePort } from "../port.ts";
import { until } from "../project.ts";

/** git's own daemon for `git://` on loopback, over a folder of bare repositories. */

const program = join(execFileSync("git", ["--exec-path"], { encoding: "utf8" }).trim(), "git-daemon");

export const canServeDaemon = existsSync(program);

export const startGitDaemon = async (
  folder: string,
): Promise<AsyncDisposable & { port: number; said: () => string }> => {
  const port = await freePort();
  const args = [
    "--reuseaddr",
    "--verbose",
    "--export-all",
    "--listen=127.0.0.1",
    `--port=${port}`,
    `--base-path=${folder}`,
    folder,
  ];
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await until(
    () => answers(port),
    (is) => is,
    10_000,
  );
  return {
    port,
    said: () => said,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await gone;
    },
  };
};
