import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import { reachCommits } from "../../src/task/query/elsewhere.ts";
import { packInto } from "../../src/repository/exchange.ts";
import { cut, readOf } from "../../src/store/blob/piece.ts";
import { createGit } from "../../src/workspace/git/git.ts";
import { fetchCheckpoint } from "../../src/task/checkpoint.ts";
import { RepositoryAway } from "../../src/repository/repository.ts";
import { openRepositories } from "../harness/open-repositories.ts";
import { git, makeProject, temporary } from "../harness/project.ts";

/** What was kept of a Task for other nodes, as it may come out of a damaged database or bucket. */

const packOf = (root: string, ...wanted: string[]): Buffer =>
  execFileSync("git", ["-C", root, "pack-objects", "-q", "--stdout", "--revs"], { input: `${wanted.join("\n")}\n` });

const reading = (bytes: Buffer | undefined) => bytes && readOf(bytes);

/** A mirror with a base, and a commit on it that is only in the pack of a checkpoint. */
const lab = (pack: (root: string, base: string, commit: string) => Buffer | undefined) => {
  const temp = temporary("sortie-checkpoint-");
  onTestFinished(() => temp[Symbol.dispose]());
  const root = makeProject(join(temp.path, "seed"), { "a.txt": "a\n" });
  const base = git(root, "rev-parse", "HEAD");
  writeFileSync(join(root, "a.txt"), "b\n");
  git(root, "commit", "-q", "-a", "-m", "two");
  const commit = git(root, "rev-parse", "HEAD");
  const data = join(temp.path, "data");
  const processes = createProcesses({ folder: join(data, "processes"), keepEnv: process.env, log: silent });
  onTestFinished(() => processes.stop());
  const repositories = openRepositories(data, processes, {});
  const repository = { url: "https://git.example/acme/app.git", ref: null };
  const { mirror } = repositories.local(repository);
  mkdirSync(dirname(mirror), { recursive: true });
  git(dirname(mirror), "init", "-q", "--bare", mirror);
  execFileSync("git", ["-C", mirror, "index-pack", "--stdin"], {
    input: packOf(root, base),
    stdio: ["pipe", "ignore", "inherit"],
  });
  const blobs = { read: async () => reading(pack(root, base, commit)) };
  const checkpoint = { commit, tree: "", base, pack: { sha256: "", bytes: 0 }, version: 1 };
  const { signal } = new AbortController();
  const run = {
    state: () => ({ repository, remote: null, checkpoint }),
    repositories,
    store: { blobs },
    signal,
  };
  const nodes = { name: "here", elsewhere: async () => new Map([["task_1", { isUp: false, node: "there" }]]) };
  const deps = {
    store: { nodes, blobs },
    repositories: { ...repositories, fetch: () => Promise.reject(new RepositoryAway("away")) },
  };
  const wanted = { stream: "task_1", repository, commits: [base, commit], checkpoint, dirty: false };
  return {
    commit,
    checkpoint,
    run: run as unknown as Parameters<typeof fetchCheckpoint>[0],
    deps: deps as unknown as Parameters<typeof reachCommits>[0],
    wanted: wanted as unknown as Parameters<typeof reachCommits>[1],
  };
};

test("control: what it adds to the base is there afterwards", async () => {
  const { run, commit } = lab((root, base, tip) => packOf(root, tip, `^${base}`));
  expect(await fetchCheckpoint(run)).toMatchObject({ commit });
});

test("control: what another node did is read from it", async () => {
  const { deps, wanted } = lab((root, base, tip) => packOf(root, tip, `^${base}`));
  expect(await reachCommits(deps, wanted, new AbortController().signal)).toBe("commits");
});

test("where the newest is damaged, the one before is what the work goes on from", async () => {
  let before: { commit: string; pack: Buffer } | undefined;
  const { run, checkpoint } = lab((root, base, tip) => {
    before ??= { commit: tip, pack: packOf(root, tip, `^${base}`) };
    return Buffer.from("nonsense");
  });
  const good = { ...checkpoint, pack: { sha256: "good", bytes: 0 }, version: 7 };
  const bad = { ...checkpoint, commit: "f".repeat(40), pack: { sha256: "bad", bytes: 0 }, version: 9, before: good };
  const read = (sha256: string) => run.store.blobs.read(sha256);
  const state = run.state();
  const of = (kept: object) => ({
    ...run,
    state: () => ({ ...state, checkpoint: kept as NonNullable<typeof state.checkpoint> }),
    store: {
      blobs: {
        read: async (sha256: string) => (await read(sha256), sha256 === "good" ? reading(before?.pack) : read("")),
      },
    } as unknown as typeof run.store,
  });
  expect(await fetchCheckpoint(of({ ...bad, before: null }))).toBeNull();
  expect(await fetchCheckpoint(of(bad))).toMatchObject({ commit: before?.commit, version: 7 });
});

/** A large file of which a line was changed. */
const thinLab = () => {
  const temp = temporary("sortie-thin-");
  onTestFinished(() => temp[Symbol.dispose]());
  const numbers = Array.from({ length: 20_000 }, (_, at) => `${(at * 7919) % 104_729}`);
  const root = makeProject(join(temp.path, "seed"), { "a.txt": numbers.join("\n") });
  const base = git(root, "rev-parse", "HEAD");
  writeFileSync(join(root, "a.txt"), numbers.with(10_000, "changed").join("\n"));
  git(root, "commit", "-q", "-a", "-m", "two");
  const at = createGit(root);
  const { signal } = new AbortController();
  const pack = async (thin: boolean): Promise<Buffer> => {
    const file = join(temp.path, thin ? "thin" : "whole");
    const commits = [git(root, "rev-parse", "HEAD")];
    await packInto(file, at, { commits, without: [base], mostBytes: 1e8, thin }, signal);
    return readFileSync(file);
  };
  return { root, base, commit: git(root, "rev-parse", "HEAD"), pack };
};

test("what is kept while agents work only names what the base has, and is read on it; without the base it is none", async () => {
  const { root, base, commit, pack } = thinLab();
  const [thin, whole] = [await pack(true), await pack(false)];
  expect(thin.length).toBeLessThan(whole.length / 10);
  const on = (from: string) => {
    const temp = temporary("sortie-mirror-");
    onTestFinished(() => temp[Symbol.dispose]());
    const data = join(temp.path, "data");
    const processes = createProcesses({ folder: join(data, "processes"), keepEnv: process.env, log: silent });
    onTestFinished(() => processes.stop());
    const repositories = openRepositories(data, processes, {});
    const place = repositories.local({ url: "https://git.example/acme/app.git", ref: null });
    mkdirSync(dirname(place.mirror), { recursive: true });
    git(dirname(place.mirror), "init", "-q", "--bare", place.mirror);
    execFileSync("git", ["-C", place.mirror, "index-pack", "--stdin"], {
      input: packOf(root, from),
      stdio: ["pipe", "ignore", "inherit"],
    });
    return { repositories, place };
  };
  const { signal } = new AbortController();
  const { repositories, place } = on(base);
  await repositories.unpack(place, cut([thin]), signal);
  expect(await repositories.has(place, commit)).toBe(true);
  expect(git(place.mirror, "show", `${commit}:a.txt`)).toContain("changed");
  // The remote was begun anew.
  git(root, "checkout", "-q", "--orphan", "anew");
  git(root, "rm", "-q", "-f", "a.txt");
  git(root, "commit", "-q", "--allow-empty", "-m", "anew");
  const anew = on(git(root, "rev-parse", "HEAD"));
  await anew.repositories.unpack(anew.place, cut([thin]), signal);
  expect(await anew.repositories.has(anew.place, commit)).toBe(false);

  // Who knows that in time keeps what the remote does not reach any more, and nothing else.
  const range = { commits: [commit], base, mostBytes: 1e8, thin: true };
  git(place.mirror, "update-ref", "refs/remotes/origin/main", base);
  expect((await repositories.packed(place, range, signal))?.whole).toBe(false);
  await repositories.unpack(place, cut([packOf(root, "anew")]), signal);
  git(place.mirror, "update-ref", "refs/remotes/origin/main", git(root, "rev-parse", "anew"));
  await using late = await repositories.packed(place, range, signal);
  expect(late?.whole).toBe(true);
  const underway = () => readdirSync(join(dirname(dirname(place.mirror)), "given"));
  await anew.repositories.unpack(anew.place, late?.pieces() as AsyncIterable<Uint8Array>, signal);
  expect([await anew.repositories.has(anew.place, commit), await anew.repositories.has(anew.place, base)]).toEqual([
    true,
    true,
  ]);
  // More than may be kept: then at least for those that have the base.
  const small = await repositories.packed(place, { ...range, mostBytes: 10_000 }, signal);
  expect(small?.whole).toBe(false);
  // Its file stays as long as it is used.
  const before = underway().length;
  await small?.[Symbol.asyncDispose]();
  expect([before, underway().length]).toEqual([before, before - 1]);
});

test.each<[string, (root: string, base: string, commit: string) => Buffer | undefined]>([
  ["no pack", () => Buffer.from("nonsense")],
  ["one that breaks off", (root, base, tip) => packOf(root, tip, `^${base}`).subarray(0, -30)],
  [
    "one with a changed byte",
    (root, base, tip) => {
      const bytes = packOf(root, tip, `^${base}`);
      bytes[30] = (bytes[30] ?? 0) ^ 0xff;
      return bytes;
    },
  ],
  ["that of other commits", (root, base) => packOf(root, base)],
  ["nothing", () => undefined],
])("%s is no checkpoint: the work goes on from its base, and no error keeps it", async (_, pack) => {
  const { run } = lab(pack);
  expect(await fetchCheckpoint(run)).toBeNull();
  const other = lab(pack);
  await expect(reachCommits(other.deps, other.wanted, new AbortController().signal)).rejects.toMatchObject({
    code: "node_away",
  });
});
