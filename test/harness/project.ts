import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createBackground } from "../../src/tool/command/background.ts";

/** Temporary folders, small real projects, and patience. */

/** The part of a tool's context that most tools do without. */
export const callContext = {
  callID: "call_1",
  has: () => true,
  kept: () => Promise.resolve(undefined),
  keep: (bytes: Uint8Array) => Promise.resolve({ sha256: "0".repeat(64), bytes: bytes.length }),
  background: createBackground(1),
  sessionID: "ses_1",
  isNamed: () => false,
  secretsFor: () => undefined,
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

/** Who commits; without the process that every commit else starts to see whether there is something to tidy up. */
const tester = ["user.name=Tester", "user.email=tester@localhost", "maintenance.auto=false"].flatMap((setting) => [
  "-c",
  setting,
]);

export const git = (cwd: string, ...args: string[]): string =>
  execFileSync("git", [...tester, ...args], {
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

/** A Git repository on `main` with one commit of these files, and of what the folder already holds. */
export const makeProject = (root: string, files: Record<string, string>): string => {
  mkdirSync(root, { recursive: true });
  const runFolder = process.env["TEST_PROJECTS"];
  if (runFolder === undefined || readdirSync(root).length > 0) return commitFirst(root, files);
  const key = createHash("sha256").update(JSON.stringify(files)).digest("hex");
  const template = join(runFolder, key);
  if (!existsSync(template)) {
    const own = mkdtempSync(join(runFolder, "making-"));
    commitFirst(own, files);
    try {
      renameSync(own, template);
    } catch {
      // Another worker was first.
      rmSync(own, { recursive: true });
    }
  }
  cpSync(template, root, { recursive: true, verbatimSymlinks: true });
  refreshIndex(root);
  return realpathSync(root);
};

const commitFirst = (root: string, files: Record<string, string>): string => {
  writeFiles(root, files);
  git(root, "init", "-q", "-b", "main");
  git(root, "add", "-A");
  git(root, "commit", "-q", "-m", "first");
  return realpathSync(root);
};

/**
 * What `git update-index --refresh` does after a copy, without a process: the index has the files' new times and
 * inodes.
 */
const refreshIndex = (root: string): void => {
  const path = join(root, ".git", "index");
  const index = readFileSync(path);
  if (index.readUInt32BE(4) !== 2) throw new Error(`Expected an index of version 2, got ${index.readUInt32BE(4)}.`);
  let at = 12;
  for (let left = index.readUInt32BE(8); left > 0; left -= 1) {
    const end = index.indexOf(0, at + 62);
    const stat = lstatSync(join(root, index.toString("utf8", at + 62, end)), { bigint: true });
    const fields = [stat.ctimeNs, stat.mtimeNs].flatMap((time) => [time / 1_000_000_000n, time % 1_000_000_000n]);
    for (const [place, field] of [...fields, stat.dev, stat.ino].entries())
      index.writeUInt32BE(Number(field & 0xffffffffn), at + place * 4);
    at += Math.ceil((end + 1 - at) / 8) * 8;
  }
  createHash("sha1")
    .update(index.subarray(0, -20))
    .digest()
    .copy(index, index.length - 20);
  writeFileSync(path, index);
};

export const readText = (...parts: string[]): string => readFileSync(join(...parts), "utf8");

/**
 * Asks until the answer pleases, with `pauseMs` in between; fails with the last answer. By default the pauses grow with
 * the wait: most questions are requests to a service that has the same two cores, and took a sixth of the time of what
 * they waited for.
 */
export const until = async <T>(
  ask: () => Promise<T>,
  pleases: (answer: T) => boolean,
  ms = 20_000,
  pauseMs?: number,
): Promise<T> => {
  const begun = performance.now();
  for (;;) {
    const answer = await ask();
    if (pleases(answer)) return answer;
    const waited = performance.now() - begun;
    if (waited > ms) throw new Error(`Not within ${ms} ms; last: ${JSON.stringify(answer)}`);
    const growing = Math.min(25 + waited / 10, 150);
    await new Promise((resolve) => setTimeout(resolve, pauseMs ?? growing));
  }
};
