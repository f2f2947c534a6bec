import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createBackground } from "../src/tool/command/background.ts";

/** Temporary folders, small real projects, and patience. */

/** The part of a tool's context that most tools do without. */
export const callContext = {
  callID: "call_1",
  kept: () => Promise.resolve(undefined),
  keep: (bytes: Uint8Array) => Promise.resolve({ sha256: "0".repeat(64), bytes: bytes.length }),
  background: createBackground(1),
  sessionID: "ses_1",
  state: (): never => {
    throw new Error("This test has no Task.");
  },
  record: () => Promise.resolve(),
  ask: () => Promise.reject(new Error("This test has nobody to ask.")),
  delegate: () => Promise.reject(new Error("This test has nobody to delegate to.")),
};

/** A folder that is gone when the scope ends. */
export const temporary = (name = "sortie-test-"): Disposable & { path: string } => {
  const path = realpathSync(mkdtempSync(join(tmpdir(), name)));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 5 }) };
};

export const git = (cwd: string, ...args: string[]): string =>
  execFileSync("git", ["-c", "user.name=Tester", "-c", "user.email=tester@localhost", ...args], {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  }).trimEnd();

/** What somebody's plain git needs to know of who they are, without any settings of this machine's. */
export const gitEnv = (home: string) => ({
  PATH: process.env["PATH"],
  HOME: home,
  GIT_TEMPLATE_DIR: process.env["GIT_TEMPLATE_DIR"],
  GIT_AUTHOR_NAME: "u",
  GIT_AUTHOR_EMAIL: "u@x",
  GIT_COMMITTER_NAME: "u",
  GIT_COMMITTER_EMAIL: "u@x",
});

export const writeFiles = (root: string, files: Record<string, string>): void => {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
};

/** A Git repository on `main` with one commit of these files. */
export const makeProject = (root: string, files: Record<string, string>): string => {
  mkdirSync(root, { recursive: true });
  writeFiles(root, files);
  git(root, "init", "-q", "-b", "main");
  git(root, "add", "-A");
  git(root, "commit", "-q", "-m", "first");
  return realpathSync(root);
};

export const readText = (...parts: string[]): string => readFileSync(join(...parts), "utf8");

/** Asks until the answer pleases; fails with the last answer. */
export const until = async <T>(ask: () => Promise<T>, pleases: (answer: T) => boolean, ms = 20_000): Promise<T> => {
  const end = performance.now() + ms;
  for (;;) {
    const answer = await ask();
    if (pleases(answer)) return answer;
    if (performance.now() > end) throw new Error(`Not within ${ms} ms; last: ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
};
