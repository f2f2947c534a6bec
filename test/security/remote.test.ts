import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { canServe } from "../harness/double/git-host.ts";
import { send, settledTask } from "../harness/double/hostile-text.ts";
import { makeRemoteLab, type RemoteLab } from "../harness/remote-lab.ts";
import { startService, type TestService } from "../harness/service.ts";

/**
 * Hostile repositories by address: what their trees, attributes, links, refs and words can do to the service. None runs
 * a program, reads or writes outside of its own folder, or reaches a terminal. `$M` is what a program of theirs would
 * make.
 */

describe.runIf(canServe)("hostile repositories by address", { timeout: 60_000 }, () => {
  let lab: RemoteLab;
  let service: TestService;
  let marker = "";
  let outside = "";
  let count = 0;
  const asked: string[] = [];
  beforeAll(async () => {
    lab = await makeRemoteLab("sortie-hostile-remote-", ({ body }) => {
      asked.push(JSON.stringify(body));
      return undefined;
    });
    marker = join(lab.root, "made-by-them");
    outside = join(lab.root, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "f.txt"), "CANARY-of-the-machine\n");
    const { folder, env } = lab.prepare("data", undefined, { fetchSeconds: 5 });
    service = await startService(folder, env);
  });
  afterAll(async () => {
    await service.close();
    await lab[Symbol.asyncDispose]();
  });

  const person = { GIT_AUTHOR_NAME: "E", GIT_AUTHOR_EMAIL: "e@e", GIT_COMMITTER_NAME: "E", GIT_COMMITTER_EMAIL: "e@e" };
  const make = () => {
    const name = `h${(count += 1)}`;
    const bare = lab.host.make(name, { "a.txt": "a\n" });
    const git = (args: string[], input = ""): string =>
      execFileSync("git", ["-C", bare, ...args], { input, env: { ...process.env, ...person } })
        .toString()
        .trim();
    const blob = (text: string) => git(["hash-object", "-w", "--stdin"], text);
    /** A tree by its bytes: git's own commands would refuse some of these. */
    const tree = (entries: [mode: string, path: string, id: string][]) => {
      const bytes = Buffer.concat(
        entries.flatMap(([mode, path, id]) => [Buffer.from(`${mode} ${path}\0`), Buffer.from(id, "hex")]),
      );
      return execFileSync("git", ["-C", bare, "hash-object", "-t", "tree", "-w", "--literally", "--stdin"], {
        input: bytes,
      })
        .toString()
        .trim();
    };
    /** The next commit of `main`. */
    const commit = (root: string) => {
      const id = git(["commit-tree", root, "-p", git(["rev-parse", "main"]), "-m", "theirs"]);
      git(["update-ref", "refs/heads/main", id]);
      return id;
    };
    return { name, bare, git, blob, tree, commit };
  };
  const run = async (name: string, more: object = {}) => {
    const body = { request: "add it", productPillar: "code", repository: { url: lab.host.url(name) }, ...more };
    const answer = await send(service.url, "/task", { method: "POST", body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return settledTask(service.url, String(answer.body["taskID"]), 40_000);
  };
  const untouched = () => {
    expect(existsSync(marker)).toBe(false);
    expect(readdirSync(outside)).toEqual(["f.txt"]);
    expect(readFileSync(join(outside, "f.txt"), "utf8")).toBe("CANARY-of-the-machine\n");
  };

  test("attributes that name filters, diff and merge programs: none runs, and the change lands", async () => {
    const { name, blob, tree, commit } = make();
    const attributes = blob("* filter=evil diff=evil merge=evil working-tree-encoding=UTF-16 ident\n");
    const config = blob(`[filter "evil"]\n\tclean = touch ${marker}\n\tsmudge = touch ${marker}\n`);
    commit(
      tree([
        ["100644", ".gitattributes", attributes],
        ["100644", ".gitconfig", config],
        ["100644", "a.txt", blob("a\n")],
      ]),
    );
    const settled = await run(name);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
    untouched();
  });

  test.each([
    [".git", "as a folder with a hook in it"],
    [".GIT", "in other letters"],
    ["git~1", "as Windows writes it short"],
    [".g\u200cit", "with a letter that nobody sees"],
  ])("a tree with %s (%s) is refused before a file of it exists", async (path) => {
    const { name, blob, tree, commit } = make();
    const hook = tree([["100755", "post-checkout", blob(`#!/bin/sh\ntouch ${marker}\n`)]]);
    commit(tree([["40000", path, tree([["40000", "hooks", hook]])]]));
    const settled = await run(name);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "repository_unavailable" } });
    expect(settled.error).toContain("considers invalid");
    untouched();
  });

  test.each([
    ["an address that is an option", "-u./payload"],
    ["an address that runs a program", "ext::sh -c touch% /tmp/x"],
    ["an address like any other", "https://example.org/x.git"],
  ])("a submodule with %s is refused", async (_what, url) => {
    const { name, git, blob, tree, commit } = make();
    const modules = blob(`[submodule "s"]\n\tpath = s\n\turl = ${url}\n`);
    commit(
      tree([
        ["100644", ".gitmodules", modules],
        ["160000", "s", git(["rev-parse", "main"])],
      ]),
    );
    const settled = await run(name);
    expect(settled.lifecycleStatus).toBe("failed");
    expect(["repository_unsupported", "repository_unavailable"]).toContain(settled.errorInfo?.code);
    untouched();
  });

  test("links that lead out: nothing behind them is read for a prompt or an archive, or written", async () => {
    const { name, blob, tree, commit } = make();
    const link = blob(join(outside, "f.txt"));
    const skills = tree([["120000", "skills", blob(outside)]]);
    commit(
      tree([
        ["40000", ".agents", skills],
        ["40000", ".sortie", tree([["120000", "squads", blob(outside)]])],
        ["120000", "AGENTS.md", link],
        ["100644", "a.txt", blob("a\n")],
        ["120000", "d", blob(outside)],
        ["120000", "package.json", link],
      ]),
    );
    const before = asked.length;
    const settled = await run(name);
    expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(asked.length).toBeGreaterThan(before);
    expect(asked.slice(before).join("\n")).not.toContain("CANARY-of-the-machine");
    const archive = await fetch(`${service.url}/task/${settled.taskID}/project-archive`);
    expect(archive.status).toBe(200);
    expect(Buffer.from(await archive.arrayBuffer()).toString("latin1")).not.toContain("CANARY-of-the-machine");
    untouched();
    // A folder in the place of the link, and the link again: each checkout removes what is its own.
    commit(tree([["40000", "d", tree([["100644", "g.txt", blob("g\n")]])]]));
    expect(await run(name)).toMatchObject({ lifecycleStatus: "completed" });
    commit(tree([["120000", "d", blob(outside)]]));
    expect(await run(name)).toMatchObject({ lifecycleStatus: "completed" });
    untouched();
  });

  test("refs with names like options, of the service's own, and in each other's place", async () => {
    const { name, git } = make();
    const main = git(["rev-parse", "main"]);
    for (const ref of ["-x", "--upload-pack=touch", "HEAD", "refs/heads/main", "sortie/x", "a"])
      git(["update-ref", `refs/heads/${ref}`, main]);
    expect(await run(name)).toMatchObject({ lifecycleStatus: "completed" });
    git(["update-ref", "-d", "refs/heads/a"]);
    git(["update-ref", "refs/heads/a/b", main]);
    git(["update-ref", "refs/tags/main", git(["commit-tree", `${main}^{tree}`, "-m", "another"])]);
    const settled = await run(name);
    expect(settled, settled.error).toMatchObject({
      lifecycleStatus: "completed",
      repository: { baseCommit: main },
    });
    for (const ref of ["-x", "--upload-pack=touch"]) {
      const body = {
        request: "x",
        productPillar: "code",
        repository: { url: lab.host.url(name), ref: `refs/heads/${ref}` },
      };
      expect((await send(service.url, "/task", { method: "POST", body })).status).toBe(400);
    }
    untouched();
  });

  test("words of a remote are text: no control characters in errors and events", async () => {
    const { name, bare } = make();
    writeFileSync(
      join(bare, "hooks/pre-receive"),
      "#!/bin/sh\nprintf '\\033]0;owned\\007\\033[31mNo.\\033[0m\\n'\nexit 1\n",
      {
        mode: 0o755,
      },
    );
    const settled = await run(name);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "landing_refused" } });
    expect(settled.error).toContain("No.");
    expect(settled.error).not.toMatch(/\p{Cc}/u);
  });
});
