import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import { canServe, type GitHost, startGitHost } from "../harness/double/git-host.ts";
import { ofHost, openRepositories } from "../harness/open-repositories.ts";
import { temporary } from "../harness/project.ts";
import { mountSmall } from "../harness/small-disk.ts";

/** Repositories of some kilobytes whose files are far more. */

const mebibyte = 1024 * 1024;

describe.runIf(canServe)("a commit that names one large file many times", () => {
  const root = temporary("sortie-bounds-");
  const processes = createProcesses({ folder: join(root.path, "processes"), keepEnv: process.env, log: silent });
  const { signal } = new AbortController();
  let host: GitHost;
  beforeAll(async () => {
    host = await startGitHost(root.path);
  });
  afterAll(async () => {
    await processes.stop();
    await host[Symbol.asyncDispose]();
    root[Symbol.dispose]();
  });

  /** A repository whose branch has so many files of a mebibyte each. */
  const make = (name: string, files: number): string => {
    const bare = host.make(name, { "a.txt": "one\n" });
    const git = (args: string[], input: string | Buffer) =>
      execFileSync("git", ["-C", bare, "-c", "user.name=a", "-c", "user.email=a@b", ...args], {
        input,
        encoding: "utf8",
      }).trim();
    const blob = git(["hash-object", "-w", "--stdin"], Buffer.alloc(mebibyte, "ab"));
    const entries = Array.from({ length: files }, (_, at) => `100644 blob ${blob}\tf${String(at).padStart(3, "0")}\n`);
    const commit = git(["commit-tree", git(["mktree"], entries.join("")), "-m", "many"], "");
    git(["update-ref", "refs/heads/main", commit], "");
    return host.url(name);
  };

  test("is refused where its files take more than its mirror may; control: others are checked out", async () => {
    const repositories = openRepositories(join(root.path, "data"), processes, {
      ...ofHost(host),
      mirrorBytes: 20 * mebibyte,
    });
    const few = repositories.place(make("few", 15), undefined);
    await repositories.fetch(few, signal);
    expect(readdirSync(few.directory)).toHaveLength(15);
    const many = repositories.place(make("many", 25), undefined);
    await expect(repositories.fetch(many, signal)).rejects.toMatchObject({
      code: "repository_unsupported",
      message: expect.stringMatching(
        /^Expected the files of http:.*many\.git to take at most 20971520 bytes .*, got 26214400\.$/,
      ) as string,
    });
    expect(readdirSync(many.directory)).toEqual([]);
  });

  test("gives the disk back that it filled", async ({ skip }) => {
    using disk = mountSmall(join(root.path, "disk"), "tmpfs", 24);
    if (disk === undefined) return skip();
    const repositories = openRepositories(disk.path, processes, ofHost(host));
    const place = repositories.place(make("full", 30), undefined);
    await expect(repositories.fetch(place, signal)).rejects.toThrow(/No space left|unable to write/);
    expect(readdirSync(place.directory)).toEqual([]);
    expect(disk.free()).toBeGreaterThan(20 * mebibyte);
  });
});
