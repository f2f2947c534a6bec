import { spawn, spawnSync } from "node:child_process";
import { until } from "./project.ts";

/** Commands that believe they run in a terminal, by script(1) of util-linux. */

export const terminalHere = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

/** Types keys into a command; each key when what it waits for has been printed. */
export const typeInto = async (
  words: readonly string[],
  keys: readonly [after: string, key: string][],
  { env, cwd, columns }: { env: Record<string, string>; cwd: string; columns?: number },
): Promise<{ code: number | null; out: string }> => {
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  // Without exec the shell in between would make every Ctrl-C its own exit code.
  const command = `${columns === undefined ? "" : `stty cols ${columns}; `}exec ${quoted}`;
  const child = spawn("script", ["-qec", command, "/dev/null"], { env: { ...env, TERM: "xterm" }, cwd });
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  const ended = new Promise<number | null>((done) => child.once("close", done));
  let read = 0;
  for (const [after, key] of keys) {
    await until(
      async () => out.slice(read),
      (text) => text.includes(after),
      5000,
    );
    read = out.indexOf(after, read) + after.length;
    child.stdin.write(key);
  }
  return { code: await ended, out };
};
