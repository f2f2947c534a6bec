import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { RepositorySettings } from "../../src/repository/service.ts";
import { addForge } from "../harness/double/forge/double.ts";
import { canServe, type GitHost, startGitHost, token } from "../harness/double/git-host.ts";
import { ofHost, openRepositories } from "../harness/open-repositories.ts";
import { readText, temporary } from "../harness/project.ts";

/** Which addresses git dials for a repository, with which credentials, and how often it fetches. */

describe.runIf(canServe)("the remote profile of git", () => {
  const root = temporary("sortie-remote-");
  let host: GitHost;
  let count = 0;
  let learned: readonly string[] = [];
  const signal = new AbortController().signal;
  const processes = createProcesses({ folder: join(root.path, "processes"), keepEnv: process.env, log: silent });
  const open = (settings: Partial<RepositorySettings>, resolve?: (name: string) => Promise<readonly string[]>) =>
    openRepositories(join(root.path, `data-${(count += 1)}`), processes, settings, {
      env: { HOST_TOKEN: token, OTHER_TOKEN: "another-token-B1b2C3d4E5f6" },
      learn: (tokens) => void (learned = tokens),
      ...(resolve === undefined ? {} : { resolve }),
    });
  beforeAll(async () => {
    host = await startGitHost(root.path);
    host.make("app", { "a.txt": "one\n", "b/c.txt": "two\n" });
  });
  afterAll(async () => {
    await processes.stop();
    await host[Symbol.asyncDispose]();
    root[Symbol.dispose]();
  });

  test("an entry that names its host reaches inside; one that does not reaches public addresses only", async () => {
    const url = host.url("app");
    const credentials = [{ match: `http://127.0.0.1:${host.port}/*`, token: "env:HOST_TOKEN" }];
    const named = open({ allow: [`http://127.0.0.1:${host.port}/*`], credentials });
    const place = named.place(url, undefined);
    expect(await named.fetch(place, signal)).toMatchObject({ branch: "refs/heads/main" });
    expect(readText(place.directory, "b/c.txt")).toBe("two\n");

    const asked = host.requests.length;
    const wide = open({ allow: [`http://*:${host.port}/*`], credentials });
    await expect(wide.fetch(wide.place(url, undefined), signal)).rejects.toThrow(/an internal address/);
    expect(host.requests.length).toBe(asked);
  });

  test("a name is resolved once, and the judged address is dialled; one inside address among public ones refuses all", async () => {
    const url = `http://git.example.test:${host.port}/app.git`;
    const credentials = [{ match: `http://git.example.test:${host.port}/*`, token: "env:HOST_TOKEN" }];
    let asked = 0;
    const named = open({ allow: [`http://git.example.test:${host.port}/*`], credentials }, async () => {
      asked += 1;
      return ["127.0.0.1"];
    });
    expect(await named.fetch(named.place(url, "main"), signal)).toMatchObject({ tracking: "refs/remotes/origin/main" });
    expect(asked).toBe(1);
    const wide = open({ allow: ["http://*.example.test/*", `http://*.example.test:${host.port}/*`] }, async () => [
      "93.184.215.14",
      "169.254.169.254",
    ]);
    await expect(wide.fetch(wide.place(url, "main"), signal)).rejects.toThrow(/an internal address/);
  });

  test("a redirect is not followed, and no credentials go anywhere else", async () => {
    const heard: (string | undefined)[] = [];
    const elsewhere = createServer((incoming, outgoing) => {
      heard.push(incoming.headers.authorization);
      outgoing.writeHead(404).end();
    });
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
    const { port } = elsewhere.address() as AddressInfo;
    host.before = (incoming, outgoing) => {
      outgoing.writeHead(302, { location: `http://127.0.0.1:${port}${incoming.url}` }).end();
      return true;
    };
    const credentials = [{ match: "http://127.0.0.1:*/*", token: "env:HOST_TOKEN" }].map((entry) => ({
      ...entry,
      match: `http://127.0.0.1:${host.port}/*`,
    }));
    const named = open({ allow: [`http://127.0.0.1:${host.port}/*`], credentials });
    await expect(named.fetch(named.place(host.url("app"), undefined), signal)).rejects.toThrow(/redirect/);
    expect(heard).toEqual([]);
    host.before = undefined;
    elsewhere.close();
  });

  test("all tokens in use are told, whichever was used last: a text of one Task may show another's", async () => {
    const match = `http://127.0.0.1:${host.port}/app.git`;
    const other = `http://127.0.0.1:${host.port}/other.git`;
    const credentials = [
      { match: other, token: "env:OTHER_TOKEN" },
      { match, token: "env:HOST_TOKEN" },
    ];
    const named = open({ allow: [`http://127.0.0.1:${host.port}/*`], credentials });
    await expect(named.fetch(named.place(other, undefined), signal)).rejects.toThrow(/refused the credentials/);
    expect(learned).toEqual(["another-token-B1b2C3d4E5f6"]);
    await named.fetch(named.place(match, undefined), signal);
    expect(learned).toEqual(["another-token-B1b2C3d4E5f6", token]);
  });

  test("a comment is written by whom it still belongs to once the thread was searched, and once", async () => {
    const forge = addForge(host, "gitea");
    host.make("acme/said", { "a.txt": "one\n" });
    const match = `http://127.0.0.1:${host.port}/*`;
    const repositories = open({ allow: [match], credentials: [{ match, token: "env:HOST_TOKEN", forge: "gitea" }] });
    const place = repositories.place(host.url("acme/said"), undefined);
    const mark = "<!-- sortie evt_1 -->";
    const comment = { number: 7, mark, text: `Done.\n\n${mark}`, since: new Date(Date.now() - 60_000) };
    // Another service has taken it over while this one searched.
    await expect(repositories.comment(place, comment, () => false, signal)).rejects.toThrow(/took too long/);
    expect(forge.calls.length).toBeGreaterThan(0);
    expect(forge.comments).toEqual([]);
    // Control: it is written, and found by whoever comes late.
    await repositories.comment(place, comment, () => true, signal);
    await repositories.comment(place, comment, () => false, signal);
    expect(forge.comments).toHaveLength(1);
  });

  test("many who ask at once share a fetch; what was pushed before somebody asked is there", async () => {
    const credentials = [{ match: `http://127.0.0.1:${host.port}/*`, token: "env:HOST_TOKEN" }];
    const named = open({ allow: [`http://127.0.0.1:${host.port}/*`], credentials });
    host.make("shared", { "a.txt": "one\n" });
    const place = named.place(host.url("shared"), "main");
    const before = host.requests.length;
    await Promise.all(Array.from({ length: 10 }, () => named.fetch(place, signal)));
    // Two fetches of a few requests each: the one that ran, and the one that began after it.
    const packs = host.requests.slice(before).filter(({ path }) => path.startsWith("/shared.git/info/refs"));
    expect(packs.length).toBeLessThanOrEqual(4);
    const commit = host.commit("shared", "main", { "a.txt": "three\n" });
    expect((await named.fetch(place, signal)).commit).toBe(commit);
    expect(readText(place.directory, "a.txt")).toBe("three\n");
    // Nothing of the credentials is left.
    const folder = join(place.mirror, "../..");
    expect(readdirSync(folder).includes("given") ? readdirSync(join(folder, "given")) : []).toEqual([]);
  });

  test("packs of many fetches are put together, and nothing that was in them goes", async () => {
    const repositories = open(ofHost(host));
    const place = repositories.place(host.url("app"), "main");
    await repositories.fetch(place, signal);
    const git = (input: string, ...args: string[]) =>
      execFileSync("git", ["-C", place.mirror, ...args], { input, encoding: "utf8" }).trim();
    const packs = () => readdirSync(join(place.mirror, "objects", "pack")).filter((name) => name.endsWith(".pack"));
    let made = 0;
    /** As fetches leave them, by one process of git; no ref leads to what is in them. */
    const pack = (count: number): string[] => {
      const files = Array.from({ length: count }, () => join(root.path, `noise-${(made += 1)}`));
      // Two do not fit into a pack of the smallest size that git takes.
      for (const file of files) writeFileSync(file, randomBytes(600_000));
      const ids = git(files.join("\n"), "-c", "core.compression=0", "hash-object", "-w", "--stdin-paths").split("\n");
      git(ids.join("\n"), "pack-objects", "-q", "--max-pack-size=1m", "objects/pack/pack");
      for (const id of ids) rmSync(join(place.mirror, "objects", id.slice(0, 2)), { recursive: true, force: true });
      return ids;
    };
    const ids = pack(20 - packs().length);
    await repositories.fetch(place, signal);
    expect(packs()).toHaveLength(20);
    ids.push(...pack(1));
    await repositories.fetch(place, signal);
    expect(packs().length).toBeLessThan(4);
    const found = git(ids.join("\n"), "cat-file", "--batch-check=%(objecttype)").split("\n");
    expect(found).toEqual(ids.map(() => "blob"));
  });

  test("what is not carried out is refused: submodules, large file storage, more than it may take", async () => {
    const bare = host.make("odd", { "a.txt": "one\n", ".gitattributes": "*.bin filter=lfs diff=lfs\n" });
    expect(bare).toContain("odd");
    const credentials = [{ match: `http://127.0.0.1:${host.port}/*`, token: "env:HOST_TOKEN" }];
    const named = open({ allow: [`http://127.0.0.1:${host.port}/*`], credentials });
    await expect(named.fetch(named.place(host.url("odd"), undefined), signal)).rejects.toMatchObject({
      code: "repository_unsupported",
    });
    host.make("far", { "a.txt": "one\n", "b/c/.gitattributes": `# filter=lfs\n${"x text\n".repeat(160_000)}` });
    await expect(named.fetch(named.place(host.url("far"), undefined), signal)).rejects.toThrow(/b\/c\/\.gitattributes/);
    host.make("said", {
      "a.txt": "one\n",
      ".gitattributes": "# filter=lfs\n*.txt text\n",
      "b/.gitattributes": "x y\n",
    });
    await named.fetch(named.place(host.url("said"), undefined), signal);
    host.make("unsound", { "a.txt": "one\n", ".gitattributes": `${"x".repeat(3000)} text\n` });
    await expect(named.fetch(named.place(host.url("unsound"), undefined), signal)).rejects.toMatchObject({
      message: "it sends objects that Git considers invalid",
      lasting: true,
    });
    const small = open({ allow: [`http://127.0.0.1:${host.port}/*`], credentials, mirrorBytes: 1000 });
    await expect(small.fetch(small.place(host.url("app"), undefined), signal)).rejects.toMatchObject({
      code: "repository_unsupported",
    });
  });
});
