import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RepositoryPlace } from "../../../src/repository/repository.ts";
import { canServe, token } from "../../harness/double/git-host.ts";
import { pointerTo } from "../../harness/double/lfs.ts";
import { useFillLab } from "../../harness/fill-lab.ts";
import { git, readText } from "../../harness/project.ts";

/**
 * Files in large file storage: what is fetched for a Task, from whom and within which bounds, and what is pushed in
 * their place.
 */

describe.runIf(canServe)("large file storage", () => {
  const lab = useFillLab();
  /** What is underway, and what is kept of large files. */
  const left = (place: RepositoryPlace) =>
    [join(place.mirror, "../../given"), join(place.mirror, "../large")].flatMap((folder) =>
      existsSync(folder) ? readdirSync(folder) : [],
    );

  const big = Buffer.alloc(3_000_000, "x");
  const rules = "*.bin filter=lfs diff=lfs merge=lfs -text\n";
  const make = (files: Record<string, string> = {}) =>
    lab.host.make("app", {
      "a.txt": "one\n",
      ".gitattributes": rules,
      "art/big.bin": lab.lfs.put(big).pointer,
      ...files,
    });

  test("the content stands in its place, and is asked for once", async () => {
    make({ "plain.bin": "no pointer\n", "empty.bin": "", "note.txt": lab.lfs.put("unasked").pointer });
    const { repositories, place, fetched } = await lab.fetch({ lfs: true });
    expect(statSync(join(place.directory, "art/big.bin")).size).toBe(big.length);
    expect(readText(place.directory, "plain.bin")).toBe("no pointer\n");
    expect(readText(place.directory, "note.txt")).toContain("git-lfs");
    expect(fetched).toMatchObject({ of: lab.host.git("app", "rev-parse", "main"), branch: "refs/heads/main" });
    expect(fetched.commit).not.toBe(fetched.of);
    expect(lab.lfs.batches).toEqual([{ repository: "app", oids: [lab.lfs.put(big).oid] }]);
    expect(await repositories.fetch(place, lab.signal)).toEqual(fetched);
    lab.host.commit("app", "main", { "small.bin": lab.lfs.put("small").pointer });
    await repositories.fetch(place, lab.signal);
    expect(readText(place.directory, "small.bin")).toBe("small");
    expect(lab.lfs.batches.slice(1)).toEqual([{ repository: "app", oids: [lab.lfs.put("small").oid] }]);
    expect(lab.lfs.violations).toEqual([]);
    // Whoever loses the data folder gets the same commit again.
    const other = await lab.fetch({ lfs: "same-host" });
    expect(other.fetched.commit).toBe((await repositories.fetch(place, lab.signal)).commit);
    // The token went to the storage, and is in no file.
    expect(lab.host.requests.some(({ path, authorization }) => path.includes("/info/lfs") && authorization)).toBe(true);
    const basic = Buffer.from(`x-access-token:${token}`).toString("base64");
    const home = join(place.mirror, "../..");
    const found = spawnSync("grep", ["-rl", "-e", token, "-e", basic, home], { encoding: "utf8" });
    expect(found).toMatchObject({ status: 1, stdout: "" });
  });

  test("turned off it is refused, also after it was on", async () => {
    make();
    await expect(lab.fetch({})).rejects.toMatchObject({ code: "repository_unsupported" });
    expect(lab.lfs.batches).toEqual([]);
    const dataDir = lab.folder("data");
    for (const on of [true, false]) {
      const repositories = lab.open({ lfs: on }, dataDir);
      const fetching = repositories.fetch(repositories.place(lab.host.url("app"), undefined), lab.signal);
      await (on ? fetching : expect(fetching).rejects.toThrow(/repositories\.lfs/));
    }
  });

  const oid = () => lab.lfs.put(big).oid;
  const offer = (download: object) => () => ({
    body: JSON.stringify({ objects: [{ oid: oid(), actions: { download } }] }),
  });
  test.each<[string, () => void, RegExp, boolean]>([
    [
      "another content",
      () => (lab.lfs.onDownload = () => ({ body: Buffer.alloc(big.length, "y") })),
      /not what its pointer/,
      true,
    ],
    ["less of it", () => (lab.lfs.onDownload = () => ({ body: "x" })), /not what its pointer/, true],
    ["more of it", () => (lab.lfs.onDownload = () => ({ body: Buffer.alloc(big.length + 1) })), /got more/, true],
    ["none", () => (lab.lfs.onBatch = () => ({ body: '{"objects":[]}' })), /is not there/, true],
    ["a refusal of its content", () => (lab.lfs.onDownload = () => ({ status: 403 })), /status 403/, true],
    ["a failure", () => (lab.lfs.onDownload = () => ({ status: 502 })), /status 502/, false],
    ["a failing batch", () => (lab.lfs.onBatch = () => ({ status: 503 })), /503/, false],
    ["words", () => (lab.lfs.onBatch = () => ({ body: "<p>hello" })), /not JSON/, true],
    ["a list", () => (lab.lfs.onBatch = () => ({ body: "[]" })), /sent an invalid answer/, true],
    [
      "a redirect",
      () => (lab.lfs.onBatch = () => ({ status: 302, headers: { location: "http://127.0.0.1:1/" } })),
      /redirect/,
      true,
    ],
    [
      "a redirect of its content",
      () => (lab.lfs.onDownload = () => ({ status: 302, headers: { location: "http://127.0.0.1:1/" } })),
      /302/,
      true,
    ],
    ["a file", () => (lab.lfs.onBatch = offer({ href: "file:///etc/passwd" })), /could not be fetched/, true],
    [
      "an address in words",
      () => (lab.lfs.onBatch = offer({ href: "-oProxyCommand=x" })),
      /could not be fetched/,
      true,
    ],
    [
      "the cloud's own",
      () => (lab.lfs.onBatch = offer({ href: "http://169.254.169.254/latest" })),
      /could not be fetched/,
      true,
    ],
  ])("a storage that answers with %s: nothing of it is kept, and it is said", async (_, prepare, words, lasting) => {
    make();
    const repositories = lab.open({ lfs: true });
    const place = repositories.place(lab.host.url("app"), undefined);
    prepare();
    await expect(repositories.fetch(place, lab.signal)).rejects.toMatchObject({
      name: "Error",
      message: expect.stringMatching(words) as string,
      lasting,
    });
    expect(left(place)).toEqual([]);
    Object.assign(lab.lfs, { onBatch: undefined, onDownload: undefined });
    await repositories.fetch(place, lab.signal);
    expect(statSync(join(place.directory, "art/big.bin")).size).toBe(big.length);
  });

  test("content on another host of the inside is not asked for, and no token leaves", async () => {
    const heard: unknown[] = [];
    const other = createServer((incoming, outgoing) => {
      heard.push(incoming.headers);
      outgoing.end(big);
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const href = `http://127.0.0.1:${(other.address() as AddressInfo).port}/x`;
    make();
    lab.lfs.onBatch = offer({ href, header: { authorization: "Basic eDp5" } });
    await expect(lab.fetch({ lfs: true })).rejects.toThrow(/could not be fetched/);
    await expect(lab.fetch({ lfs: "same-host" })).rejects.toThrow(/on another host/);
    expect(heard).toEqual([]);
    // Control: from its own host, with what was given for it, too.
    lab.lfs.onBatch = offer({
      href: `http://127.0.0.1:${lab.host.port}/lfs-content/${oid()}`,
      header: { Authorization: `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`, Host: "evil" },
    });
    await lab.fetch({ lfs: "same-host" });
    other.close();
  });

  test("the repository's own settings send nobody elsewhere", async () => {
    make({ ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1/lfs\n\tfetchexclude = *\n" });
    await lab.fetch({ lfs: true });
    expect(lab.lfs.batches).toHaveLength(1);
  });

  test("more than the mirror may take is refused before any of it is asked for", async () => {
    make({ "huge.bin": pointerTo("a".repeat(64), 900_000_000_000) });
    await expect(lab.fetch({ lfs: true })).rejects.toMatchObject({ code: "repository_unsupported" });
    expect(lab.lfs.batches).toEqual([]);
  });

  test("one that does not come to an end is given up in time", async () => {
    make();
    lab.lfs.onDownload = () => new Promise((resolve) => setTimeout(() => resolve({ body: big }), 8000).unref());
    await expect(lab.fetch({ lfs: true, fetchSeconds: 2 })).rejects.toMatchObject({
      message: expect.stringContaining("within 2 seconds") as string,
      lasting: false,
    });
  });

  test("what was filled in is taken back as it was; what it changed comes back with why", async () => {
    lab.host.make("app", {
      "a.txt": "one\n",
      ".gitattributes": "*.bin filter=lfs\n",
      "l.bin": lab.lfs.put("large").pointer,
    });
    const { repositories, place, fetched } = await lab.fetch({ lfs: true });
    const clone = lab.folder("clone");
    git(place.mirror, "clone", "-q", "--no-checkout", place.mirror, clone);
    git(clone, "fetch", "-q", place.mirror, fetched.commit);
    const change = async (...commands: string[][]) => {
      git(clone, "checkout", "-q", "-f", "--detach", fetched.commit);
      for (const command of commands) execFileSync(command[0] ?? "", command.slice(1), { cwd: clone });
      git(clone, "add", "-A");
      git(clone, "commit", "-q", "-m", "Mine");
      const commit = git(clone, "rev-parse", "HEAD");
      git(place.mirror, "fetch", "-q", clone, commit);
      return repositories.unfilled(place, { commit, base: fetched.commit }, lab.signal);
    };
    const namesOf = async (...commands: string[][]) => {
      const names = await change(...commands);
      if (!("commit" in names)) throw new Error(`Expected a commit, got ${JSON.stringify(names)}.`);
      expect(git(place.mirror, "rev-parse", `${names.commit}^`)).toBe(fetched.of);
      return (path: string) => git(place.mirror, "show", `${names.commit}:${path}`);
    };
    const { pointer } = lab.lfs.put("large");
    expect((await namesOf(["sh", "-c", "echo two > a.txt"]))("l.bin")).toBe(pointer.trim());
    expect((await namesOf(["git", "mv", "l.bin", "m.bin"]))("m.bin")).toBe(pointer.trim());
    expect((await namesOf(["rm", "l.bin"]))(".gitattributes")).toContain("lfs");
    expect(await change(["sh", "-c", "echo x >> l.bin"])).toMatchObject({ refused: [{ path: "l.bin" }] });
    expect(await change(["sh", "-c", "echo x > new.bin"])).toMatchObject({ refused: [{ path: "new.bin" }] });
    expect(await change(["rm", ".gitattributes"])).toMatchObject({ refused: [{ path: "l.bin" }] });
    expect(readFileSync(join(place.directory, "l.bin"), "utf8")).toBe("large");
  });
});
