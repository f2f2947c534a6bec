import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { silent } from "../src/log.ts";
import { createProcesses } from "../src/process/service.ts";
import { startGitHost, token } from "../test/harness/double/git-host.ts";
import { ofHost, openRepositories } from "../test/harness/open-repositories.ts";
import { createCaller } from "./client.ts";
import { type Bench, type Figure, inTurns } from "./figure.ts";
import { type Row, rowOf } from "./table.ts";

/**
 * A repository by its address beside git alone, over the same port of git's own http-backend: the first fetch with the
 * files of a ref, ten fetches at once of what is there, a push as a compare-and-swap, and ten Tasks at once.
 */
export const repository: Figure = async (bench) => {
  const sizes: Size[] = bench.quick
    ? [{ count: 200, megabytes: 0 }]
    : [
        { count: 2_000, megabytes: 0 },
        { count: 50_000, megabytes: 0 },
        { count: 100, megabytes: 1000 },
      ];
  await using host = await startGitHost(join(bench.root, "git-host"));
  const rows: Row[] = [];
  for (const size of sizes) rows.push(...(await figuresFor(bench, host, size)));
  return rows;
};

/** Files of a repository; `megabytes`: what ten further ones hold together, which nothing compresses. */
type Size = { count: number; megabytes: number };

const run = promisify(execFile);

/**
 * As a host has them: packed, and no deltas between large files. Otherwise git looks for deltas of a gigabyte of noise at the
 * push and at every clone, for minutes each.
 */
const addLarge = async (bare: string, work: string, megabytes: number): Promise<void> => {
  await run("git", ["clone", "-q", bare, work]);
  for (let at = 0; at < 10; at += 1) writeFileSync(join(work, `large-${at}.bin`), randomBytes(megabytes * 100_000));
  const large = ["core.compression=0", "core.bigFileThreshold=1m"].flatMap((setting) => ["-c", setting]);
  const person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", ...large];
  await run("git", ["-C", bare, "config", "core.bigFileThreshold", "1m"]);
  await run("git", ["-C", bare, "config", "receive.unpackLimit", "1"]);
  await run("git", [...person, "-C", work, "add", "-A"]);
  await run("git", [...person, "-C", work, "commit", "-q", "-m", "Large files"]);
  await run("git", [...large, "-C", work, "push", "-q", "origin", "main"]);
  await rm(work, { recursive: true, force: true });
};

const figuresFor = async (
  bench: Bench,
  host: Awaited<ReturnType<typeof startGitHost>>,
  { count, megabytes }: Size,
): Promise<Row[]> => {
  const name = `files-${count}-${megabytes}`;
  const files = Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`d${at % 100}/f${at}.txt`, `File ${at}.\n`.repeat(20)]),
  );
  const bare = host.make(name, files);
  const url = host.url(name);
  const folder = join(bench.root, name);
  if (megabytes > 0) await addLarge(bare, join(folder, "large"), megabytes);
  const processes = createProcesses({ folder: join(folder, "processes"), keepEnv: process.env, log: silent });
  const signal = new AbortController().signal;
  const open = (data: string) =>
    openRepositories(join(folder, data), processes, { ...ofHost(host), fetchSeconds: 600, mirrorBytes: 1e10 });
  const header = `http.extraHeader=Authorization: Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  const git = (...args: string[]) => run("git", ["-c", header, ...args], { maxBuffer: 1e9 });
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const begun = performance.now();
    await work();
    return performance.now() - begun;
  };
  let turn = 0;
  // Each round of the largest writes its files twice.
  const rounds = bench.quick || megabytes > 0 ? 1 : 3;

  const clone = join(folder, "clone.git");
  const first = await inTurns(
    rounds,
    async () => {
      await Promise.all([clone, join(folder, "tree")].map((path) => rm(path, { recursive: true, force: true })));
      return timed(async () => {
        await git("clone", "-q", "--bare", url, clone);
        await git("-C", clone, "worktree", "add", "-q", join(folder, "tree"), "main");
      });
    },
    async () => {
      const fresh = open(`first-${(turn += 1)}`);
      return timed(() => fresh.fetch(fresh.place(url, "main"), signal));
    },
  );

  const repositories = open("kept");
  const place = repositories.place(url, "main");
  const { commit } = await repositories.fetch(place, signal);
  const again = await inTurns(
    rounds,
    () => timed(() => git("-C", clone, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")),
    () => timed(() => Promise.all(Array.from({ length: 10 }, () => repositories.fetch(place, signal)))),
  );

  const push = await inTurns(
    rounds,
    () => timed(() => git("-C", clone, "push", "-q", url, `${commit}:refs/heads/bare-${(turn += 1)}`)),
    () =>
      timed(async () => {
        const ref = `refs/heads/kept-${(turn += 1)}`;
        const pushed = await repositories.push(place, { commit, ref, from: null }, signal);
        if (!pushed.ok) throw new Error(`Expected ${ref} of ${bare} to be pushed, got ${pushed.reason}.`);
      }),
  );
  await processes.stop();
  const of = `repository of ${count} files${megabytes === 0 ? "" : ` and ${megabytes / 1000} GB`}`;
  const rows = [
    rowOf(`${of}, first fetch and files`, "ms", first, {
      goal: { kind: "timesFloor", value: 2 },
      note: "floor: git clone --bare, worktree add",
    }),
    rowOf(`${of}, ten Tasks fetch at once`, "ms", again, { note: "floor: one git fetch" }),
    rowOf(`${of}, push`, "ms", push, { note: "floor: git push" }),
  ];
  // Twenty worktrees of more than that would measure the disk.
  if (count > 2_000 || megabytes > 0) return rows;

  const tasks = 10;
  await using service = await bench.service(name, {
    env: { HOST_TOKEN: token },
    config: { repositories: { ...ofHost(host), fetchSeconds: 600, mirrorBytes: 1e10, landing: ["branch"] } },
  });
  using caller = await createCaller(service.url);
  const whole = async () => {
    const request = `bench shell 2 ${bench.id("repository")}`;
    await caller.settled(await caller.create("", request, { repository: { url, ref: "main" } }));
  };
  // With the mirror.
  await whole();
  const atOnce = await inTurns(
    rounds,
    () =>
      timed(async () => {
        await git("-C", clone, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*");
        // One after the other: git fails where several of its processes add worktrees at once.
        for (let at = 0; at < tasks; at += 1)
          await git("-C", clone, "worktree", "add", "-q", "--detach", join(folder, `tree-${(turn += 1)}`), "main");
      }),
    () => timed(() => Promise.all(Array.from({ length: tasks }, whole))),
  );
  rows.push(
    rowOf(`${of}, ten Tasks of two commands at once`, "ms", atOnce, {
      note: "floor: one git fetch, ten worktrees, and no Task",
    }),
  );
  return rows;
};
