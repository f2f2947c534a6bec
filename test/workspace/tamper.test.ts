import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseConfig } from "../../src/workspace/git/config-file.ts";
import { gitlinksOf, indexEntries, sharedIndexOf } from "../../src/workspace/git/index-file.ts";
import { createTamperGuard } from "../../src/workspace/tamper/guard.ts";
import { isHarmlessConfig } from "../../src/workspace/tamper/harmless-setting.ts";
import { git, makeProject, temporary, until, writeFiles } from "../harness/project.ts";

/** What stands behind the watch over `.git`; the mechanisms that it is for are in test/security/tamper.test.ts. */

describe("a configuration is read as git reads it", () => {
  /** What git makes of it; undefined: it refuses it. */
  const asGit = (text: string | Buffer): string[] | undefined => {
    using folder = temporary();
    const file = join(folder.path, "config");
    writeFileSync(file, text);
    const { status, stdout } = spawnSync("git", ["config", "-f", file, "--list", "-z"], { encoding: "latin1" });
    return status === 0 ? stdout.split("\0").slice(0, -1) : undefined;
  };
  const asRead = (text: string | Buffer): string[] | undefined =>
    parseConfig(Buffer.from(text))?.map(({ name, value }) => `${name}\n${value}`);
  const normal = (lines: string[] | undefined) =>
    // Before 2.45 git makes spaces of tabs.
    lines?.map((line) => (line.includes("\n") ? line : `${line}\ntrue`).replaceAll("\t", " "));

  test.each([
    "",
    "[core]\n\tbare = false\n",
    "[core] bare = false",
    "[core]bare=false\n[core]\nx=1",
    "[CoRe]\n\tBaRe = False\n",
    '[remote "Or\\"ig\\\\in"]\n url = a # b\n',
    '[remote "a]b"]\n url = "a # b" ; c\n',
    "[a.B]\n c = d\n",
    '[a "B"]\n c = "  d  "  e  \n',
    "[a]\n b\n c =\n",
    "[a]\n b = x\\\ny\\\n  z\n",
    '[a]\n b = "x\\\ny"\n',
    '[a]\n b = \\t\\n\\b\\\\\\"\n',
    "\ufeff[a]\n b = c\n",
    "[a]\r\n b = c\r\n",
    "[a] ; x\n b = c;d\n # e\n",
    '[a ""]\n b = c\n',
    "[a]\n b = c d  \n",
    "[a-b]\n c-d = e\n",
    "b = c\n",
    "[]\n b = c\n",
    // What git refuses.
    "[a\n b = c\n",
    "[a]\n b = \\x\n",
    '[a]\n b = "c\n',
    "[a]\n 1b = c\n",
    "[a]\n b c = d\n",
    "[a_b]\n c = d\n",
    '[a "b\n"]\n c = d\n',
  ])("%j", (text) => {
    expect(normal(asRead(text))).toEqual(normal(asGit(text)));
  });

  test("random ones", () => {
    const pieces = [
      "[a]",
      '[b "C"]',
      "[d.E]",
      "\n",
      "\n",
      " ",
      "\t",
      "k",
      "k = v",
      "=",
      '"',
      "\\",
      "#",
      ";",
      "x",
      "\\n",
      "\r\n",
      "\v",
    ];
    let seed = Number(process.env["TEST_SEED"] ?? 7);
    const next = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let count = 0; count < 300; count += 1) {
      const text = Array.from({ length: next(14) }, () => pieces[next(pieces.length)]).join("");
      expect(normal(asRead(text)), `seed ${seed}: ${JSON.stringify(text)}`).toEqual(normal(asGit(text)));
    }
  });
});

describe("settings", () => {
  const base = `[core]
\tbare = false
[remote "origin"]
\turl = https://example.org/a.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[remote "fork"]
\turl = https://example.org/fork.git
[submodule "sub"]
\turl = https://example.org/sub.git
`;
  const set = (text: string, name: string, value: string) => {
    using folder = temporary();
    const file = join(folder.path, "config");
    writeFileSync(file, text);
    execFileSync("git", ["config", "-f", file, "--add", name, value]);
    return Buffer.from(execFileSync("cat", [file]));
  };
  const judge = (name: string, value: string) => isHarmlessConfig(Buffer.from(base), set(base, name, value));

  test.each([
    ["core.fsmonitor", "x"],
    ["core.hooksPath", "x"],
    ["core.sshCommand", "x"],
    ["core.gitProxy", "x"],
    ["core.editor", "x"],
    ["core.pager", "x"],
    ["core.askPass", "x"],
    ["core.attributesFile", "x"],
    ["core.excludesFile", "x"],
    ["core.worktree", "/"],
    ["core.bare", "true"],
    ["core.alternateRefsCommand", "x"],
    ["core.protectNTFS", "false"],
    ["core.notesRef", "refs/notes/x"],
    ["gc.recentObjectsHook", "x"],
    ["gc.repackFilterTo", "/tmp/x"],
    ["hook.x.command", "x"],
    ["hook.x.event", "pre-commit"],
    ["alias.st", "!x"],
    ["alias.x.command", "!x"],
    ["include.path", "x"],
    ["includeIf.gitdir:/.path", "x"],
    ["credential.helper", "x"],
    ["credential.https://example.org.helper", "x"],
    ["remote.origin.url", "https://evil.example/a.git"],
    ["remote.origin.pushurl", "https://evil.example/a.git"],
    ["remote.new.url", "https://evil.example/a.git"],
    ["remote.origin.vcs", "x"],
    ["remote.origin.uploadpack", "x"],
    ["remote.origin.receivepack", "x"],
    ["remote.origin.proxy", "http://evil.example"],
    ["remote.origin.push", "refs/heads/*:refs/heads/*"],
    ["remote.origin.mirror", "true"],
    ["remote.origin.fetch", "+refs/heads/*:refs/heads/*"],
    ["remote.origin.serverOption", "x"],
    ["remote.pushDefault", "https://evil.example/a.git"],
    ["branch.main.remote", "https://evil.example/a.git"],
    ["branch.main.pushRemote", "ext::x"],
    ["branch.main.mergeOptions", "-s evil"],
    ["url.https://evil.example/.insteadOf", "https://example.org/"],
    ["url.https://evil.example/.pushInsteadOf", "https://example.org/"],
    ["diff.external", "x"],
    ["diff.x.command", "x"],
    ["diff.x.textconv", "x"],
    ["diff.tool", "x"],
    ["difftool.x.cmd", "x"],
    ["filter.x.clean", "x"],
    ["filter.x.smudge", "x"],
    ["filter.x.process", "x"],
    ["filter.x.required", "true"],
    ["merge.x.driver", "x"],
    ["merge.tool", "x"],
    ["mergetool.x.cmd", "x"],
    ["pull.twohead", "evil"],
    ["gpg.program", "x"],
    ["gpg.ssh.program", "x"],
    ["gpg.ssh.defaultKeyCommand", "x"],
    ["gpg.x509.program", "x"],
    ["commit.gpgSign", "true"],
    ["log.showSignature", "true"],
    ["user.signingKey", "x"],
    ["sequence.editor", "x"],
    ["submodule.sub.update", "!x"],
    ["submodule.sub.url", "https://evil.example/sub.git"],
    ["trailer.x.cmd", "x"],
    ["trailer.x.command", "x"],
    ["uploadpack.packObjectsHook", "x"],
    ["interactive.diffFilter", "x"],
    ["pager.log", "x"],
    ["browser.x.cmd", "x"],
    ["web.browser", "x"],
    ["instaweb.httpd", "x"],
    ["man.x.cmd", "x"],
    ["guitool.x.cmd", "x"],
    ["sendemail.smtpServer", "x"],
    ["sendemail.sendmailCmd", "x"],
    ["imap.tunnel", "x"],
    ["protocol.ext.allow", "always"],
    ["http.proxy", "http://evil.example"],
    ["http.sslVerify", "false"],
    ["http.extraHeader", "x"],
    ["http.https://example.org.proxy", "x"],
    ["http.cookieFile", "x"],
    ["extensions.objectFormat", "sha256"],
    ["extensions.partialClone", "evil"],
    ["extensions.refStorage", "reftable"],
    ["bundle.x.uri", "https://evil.example/x"],
    ["fetch.bundleURI", "https://evil.example/x"],
    ["fetch.fsckObjects", "false"],
    ["transfer.bundleURI", "true"],
    ["init.templateDir", "x"],
    ["commit.template", "x"],
    ["mailinfo.scissors", "x"],
    ["lfs.url", "https://evil.example"],
    ["lfs.customtransfer.x.path", "x"],
    ["lfs.extension.x.clean", "x"],
    ["annex.ssh-options", "x"],
    ["rebase.instructionFormat", "x"],
    ["safe.directory", "*"],
    ["receive.procReceiveRefs", "x"],
    ["maintenance.x.command", "x"],
    ["a-tool-of-tomorrow.anything", "x"],
  ])("%s = %s is none that users make every day", (name, value) => {
    expect(judge(name, value)).toBe(false);
  });

  test.each([
    ["user.name", "Some Body"],
    ["user.email", "some@example.org"],
    ["branch.topic.remote", "origin"],
    ["branch.topic.remote", "."],
    ["branch.topic.pushRemote", "fork"],
    ["remote.pushDefault", "fork"],
    ["branch.topic.merge", "refs/heads/topic"],
    ["branch.topic.rebase", "true"],
    ["branch.topic.description", "text; of\nany kind"],
    ["branch.topic.vscode-merge-base", "origin/main"],
    ["remote.origin.prune", "true"],
    ["remote.origin.fetch", "+refs/heads/topic:refs/remotes/origin/topic"],
    ["submodule.other.url", "https://example.org/other.git"],
    ["submodule.other.active", "true"],
    ["submodule.sub.update", "rebase"],
    ["core.fileMode", "false"],
    ["core.autocrlf", "input"],
    ["core.fsmonitor", "true"],
    ["core.sparseCheckout", "true"],
    ["extensions.worktreeConfig", "true"],
    ["pull.rebase", "merges"],
    ["push.default", "current"],
    ["push.autoSetupRemote", "true"],
    ["fetch.prune", "true"],
    ["rebase.autoStash", "true"],
    ["gc.auto", "0"],
    ["gc.pruneExpire", "2.weeks.ago"],
    ["maintenance.strategy", "incremental"],
    ["advice.detachedHead", "false"],
    ["color.ui", "auto"],
    ["color.diff.new", "#00ff00 bold"],
    ["merge.conflictStyle", "zdiff3"],
    ["diff.algorithm", "histogram"],
    ["tag.sort", "-v:refname"],
    ["lfs.https://example.org/a.git/info/lfs.access", "basic"],
    ["gui.geometry", "887x427+26+26 171 192"],
  ])("%s = %s is one of every day", (name, value) => {
    expect(judge(name, value)).toBe(true);
  });

  const is = (before: string, after: string) => isHarmlessConfig(Buffer.from(before), Buffer.from(after));
  test("comments, order of what is harmless, and what goes are told apart", () => {
    const alias = "[alias]\n\tst = !a\n";
    expect(is(base, `# x\n${base.replace("bare = false", "bare=false ; y")}`)).toBe(true);
    expect(is(base, base.replace(/\[submodule[\s\S]*$/, ""))).toBe(true);
    expect(is(base, base.replace(/\[remote "fork"\][\s\S]*?(?=\[)/, ""))).toBe(false);
    expect(is(`${alias}${base}`, `${base}${alias}`)).toBe(false);
    expect(is(`${alias}${base}`, base.replace("[core]", `${alias}[core]`))).toBe(true);
    expect(is(`${alias}[alias]\n\tst = !b\n`, `[alias]\n\tst = !b\n${alias}`)).toBe(false);
    expect(is(alias, alias.replace("!a", "!A"))).toBe(false);
    expect(is(base, `${base}[alias\n`)).toBe(false);
  });
});

describe("an index", () => {
  test.each(["2", "3", "4"])("of version %s: entries and links are git's", (version) => {
    using folder = temporary();
    const root = makeProject(join(folder.path, "p"), { "a.txt": "a", "a/b/c.txt": "c", "a/b/d.txt": "d" });
    const head = git(root, "rev-parse", "HEAD");
    git(root, "update-index", "--add", "--cacheinfo", `160000,${head},a/b/link`);
    if (version === "3") git(root, "update-index", "--skip-worktree", "a.txt");
    git(root, "update-index", "--index-version", version);
    const index = execFileSync("cat", [join(root, ".git/index")]);
    const read = [...indexEntries(index, 20)].map(
      ({ mode, id, stage, path }) => `${mode.toString(8)} ${id.toString("hex")} ${stage}\t${path.toString()}`,
    );
    expect(read).toEqual(git(root, "ls-files", "-s").split("\n"));
    expect(gitlinksOf(index, 20).map(String)).toEqual(["a/b/link"]);
    expect(sharedIndexOf(index, 20)).toBe(undefined);
  });

  test("in two parts names the other one", () => {
    using folder = temporary();
    const root = makeProject(join(folder.path, "p"), { "a.txt": "a" });
    git(root, "update-index", "--split-index");
    const shared = readdirSync(join(root, ".git")).filter((name) => name.startsWith("sharedindex."));
    expect([sharedIndexOf(execFileSync("cat", [join(root, ".git/index")]), 20)]).toEqual(shared);
  });

  test("cut anywhere, it is read as far as it goes", () => {
    using folder = temporary();
    const root = makeProject(join(folder.path, "p"), { "a.txt": "a", "b/c.txt": "c" });
    const index = execFileSync("cat", [join(root, ".git/index")]);
    for (let length = 0; length < index.length; length += 1)
      expect([...indexEntries(index.subarray(0, length), 20)].length).toBeLessThanOrEqual(2);
  });
});

describe("the guard", () => {
  const scene = () => {
    const folder = temporary();
    const project = makeProject(join(folder.path, "p"), { "a.txt": "a" });
    const at = (name: string) => join(project, ".git", name);
    const guard = createTamperGuard({ commonDir: at("."), taskID: "task_x" });
    return { project, at, guard, [Symbol.dispose]: () => folder[Symbol.dispose]() };
  };
  const hook = (path: string) => writeFileSync(path, "#!/bin/sh\n", { mode: 0o755 });

  test("what stands in the way of reading does not stop it: FIFOs, devices, endless files, unreadable folders", async () => {
    using on = scene();
    hook(on.at("hooks/pre-commit"));
    await on.guard.begin();
    for (const name of ["hooks/a", "config.worktree", "info/attributes", "commondir"]) {
      mkdirSync(on.at("info"), { recursive: true });
      execFileSync("mkfifo", [on.at(name)]);
    }
    symlinkSync("/dev/zero", on.at("hooks/b"));
    writeFileSync(on.at("hooks/c"), "");
    truncateSync(on.at("hooks/c"), 8 * 1024 ** 3);
    chmodSync(on.at("hooks/c"), 0o755);
    chmodSync(on.at("hooks"), 0o500);
    const begun = performance.now();
    const found = await on.guard.end();
    expect(performance.now() - begun).toBeLessThan(1000);
    expect(found.map(({ path }) => path).toSorted()).toEqual(
      ["commondir", "config.worktree", "hooks/a", "hooks/b", "hooks/c", "info/attributes"].map(on.at),
    );
    expect(found.filter(({ restored }) => !restored)).toEqual([]);
    expect(
      readdirSync(on.at("hooks")).filter((name) => !name.endsWith(".sample") && !name.includes("found-by")),
    ).toEqual(["pre-commit"]);
  });

  test("a project that the user moves, or whose repository the user removes, is no tampering", async () => {
    using moved = scene();
    await moved.guard.begin();
    renameSync(moved.project, `${moved.project}-elsewhere`);
    expect(await moved.guard.end()).toEqual([]);
    expect(existsSync(`${moved.project}-elsewhere/.git/HEAD`)).toBe(true);
    using removed = scene();
    await removed.guard.begin();
    rmSync(removed.at("."), { recursive: true });
    expect(await removed.guard.end()).toEqual([]);
  });

  test("several commands at once: what one did is told once, the others go on", async () => {
    using on = scene();
    await Promise.all([on.guard.begin(), on.guard.begin(), on.guard.begin()]);
    hook(on.at("hooks/pre-commit"));
    const found = (await Promise.all([on.guard.end(), on.guard.end(), on.guard.end()])).flat();
    expect(found.map(({ path }) => path)).toEqual([on.at("hooks/pre-commit")]);
  });

  test("what another command writes again right after it was put back is put back at that one's end", async () => {
    for (let round = 0; round < 10; round += 1) {
      using on = scene();
      const config = on.at("config");
      const before = readFileSync(config, "utf8");
      await Promise.all([on.guard.begin(), on.guard.begin()]);
      const evil = "while :; do printf '[core]\\neditor = evil\\n' >> \"$1\"; done";
      const writer = spawn("bash", ["-c", evil, "bash", config]);
      await until(
        () => Promise.resolve(readFileSync(config, "utf8")),
        (text) => text.includes("evil"),
      );
      expect((await on.guard.end()).length).toBeGreaterThan(0);
      writer.kill("SIGKILL");
      await once(writer, "exit");
      await on.guard.end();
      // Killed between its two lines it leaves a heading without a setting, which is no change.
      const left = readFileSync(config, "utf8").replace(/(?:\[core\]\n)+$/, "");
      expect([round, left]).toEqual([round, before]);
    }
  });

  test("another Task's command that begins in between does not bring back what was put back", async () => {
    using on = scene();
    const other = createTamperGuard({ commonDir: on.at("."), taskID: "task_y" });
    await on.guard.begin();
    hook(on.at("hooks/pre-commit"));
    await other.begin();
    expect((await on.guard.end()).map(({ path }) => path)).toEqual([on.at("hooks/pre-commit")]);
    expect(await other.end()).toEqual([]);
    expect(existsSync(on.at("hooks/pre-commit"))).toBe(false);
    // What one has planted while both run ends the Task whose command ends first.
    await other.begin();
    await on.guard.begin();
    hook(on.at("hooks/pre-push"));
    expect((await other.end()).map(({ path }) => path)).toEqual([on.at("hooks/pre-push")]);
    expect(await on.guard.end()).toEqual([]);
    expect(existsSync(on.at("hooks/pre-push"))).toBe(false);
  });

  test("a second change within the same tick of the clock is seen", async () => {
    using on = scene();
    for (let count = 0; count < 20; count += 1) {
      await on.guard.begin();
      writeFiles(on.project, { ".git/config": "[core]\n\tbare = false\n[user]\n\tname = aaaaaaaaaaa\n" });
      expect(await on.guard.end()).toEqual([]);
      await on.guard.begin();
      writeFiles(on.project, { ".git/config": "[core]\n\tbare = false\n[core]\n\teditor = vvvvvvvvv\n" });
      expect((await on.guard.end()).map(({ path }) => path)).toEqual([on.at("config")]);
    }
  });

  test("settles what is large without holding up the service: 2,500 hooks, 150 submodules, an index of 60,000 files", {
    timeout: 60_000,
  }, async () => {
    using on = scene();
    for (let count = 0; count < 150; count += 1)
      writeFiles(on.project, {
        [`.git/modules/m${count}/HEAD`]: "ref: refs/heads/main\n",
        [`.git/modules/m${count}/config`]: "[core]\n\tbare = false\n",
        [`.git/modules/m${count}/hooks/pre-commit`]: "#!/bin/sh\n",
      });
    const id = "1".repeat(40);
    const lines = Array.from({ length: 60_000 }, (_, at) => `100644 ${id}\tfolder-${at % 100}/file-${at}\n`).join("");
    execFileSync("git", ["update-index", "--index-info"], { cwd: on.project, input: lines });
    await on.guard.begin();
    for (let count = 0; count < 2500; count += 1) hook(on.at(`hooks/h${count}`));
    const begun = process.threadCpuUsage();
    const found = await on.guard.end();
    const { user, system } = process.threadCpuUsage(begun);
    const ms = (user + system) / 1000;
    console.log(`the look after: ${ms.toFixed(0)} ms of the thread`);
    expect(found).toMatchObject([{ path: on.at("hooks"), restored: true }]);
    expect(statSync(on.at("hooks")).isDirectory()).toBe(true);
    expect(ms).toBeLessThan(300);
  });
});
