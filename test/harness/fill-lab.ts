import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { RepositorySettings } from "../../src/repository/service.ts";
import { type GitHost, startGitHost } from "./double/git-host.ts";
import { addLfs, type LfsDouble } from "./double/lfs.ts";
import { ofHost, openRepositories } from "./open-repositories.ts";
import { temporary } from "./project.ts";

/** For each test a Git host with large file storage, and the service's repositories on it. */

export const useFillLab = () => {
  const root = temporary("sortie-fill-");
  const signal = new AbortController().signal;
  const processes = createProcesses({ folder: join(root.path, "processes"), keepEnv: process.env, log: silent });
  let count = 0;
  const folder = (name: string) => join(root.path, `${name}-${(count += 1)}`);
  const open = (settings: Partial<RepositorySettings>, dataDir = folder("data")) =>
    openRepositories(dataDir, processes, { ...ofHost(lab.host), ...settings });
  const lab = {
    host: undefined as unknown as GitHost,
    lfs: undefined as unknown as LfsDouble,
    signal,
    folder,
    open,
    async fetch(settings: Partial<RepositorySettings>, name = "app") {
      const repositories = open(settings);
      const place = repositories.place(lab.host.url(name), undefined);
      return { repositories, place, fetched: await repositories.fetch(place, signal) };
    },
  };
  beforeEach(async () => {
    lab.host = await startGitHost(folder("host"));
    lab.lfs = addLfs(lab.host);
  });
  afterEach(() => lab.host[Symbol.asyncDispose]());
  afterAll(async () => {
    await processes.stop();
    root[Symbol.dispose]();
  });
  return lab;
};

/** A commit on `main` that names a commit of another repository as its submodule. */
export const nameSubmodule = (
  host: GitHost,
  name: string,
  { url, commit, path = "lib" }: { url: string; commit: string; path?: string },
): void => {
  const folder = host.git(name, "rev-parse", "--absolute-git-dir");
  const person = { GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a@x", GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a@x" };
  const env = { ...process.env, ...person, GIT_INDEX_FILE: join(folder, "index-of-test") };
  const run = (args: string[], input?: string) =>
    execFileSync("git", ["-C", folder, ...args], {
      encoding: "utf8",
      env,
      ...(input === undefined ? {} : { input }),
    }).trim();
  run(["read-tree", "main"]);
  const modules = run(["hash-object", "-w", "--stdin"], `[submodule "x"]\n\tpath = ${path}\n\turl = ${url}\n`);
  run(["update-index", "--add", "--cacheinfo", `100644,${modules},.gitmodules`]);
  run(["update-index", "--add", "--cacheinfo", `160000,${commit},${path}`]);
  run(["update-ref", "refs/heads/main", run(["commit-tree", run(["write-tree"]), "-p", "main", "-m", "A submodule"])]);
};
