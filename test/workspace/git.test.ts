import { spawnSync } from "node:child_process";
import {
  cpSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createGit, GitError, gitVersion } from "../../src/workspace/git/git.ts";
import { diffOfCommits } from "../../src/workspace/object/tree-change.ts";
import { gitEnv } from "../harness/project.ts";

let base: string;
let root: string;

/** git as a user would run it. */
const plain = (...args: string[]) =>
  spawnSync("git", args, { cwd: root, env: gitEnv(base), input: "", timeout: 10_000 });

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sortie-git-")));
  root = join(base, "project");
  mkdirSync(root);
  plain("init", "-q", "-b", "main");
  writeFileSync(join(root, "a.txt"), "a\n");
  plain("add", ".");
  plain("commit", "-q", "-m", "first");
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

describe("git", () => {
  test("answers bytes, exit codes and errors", async () => {
    const git = createGit(root);
    expect((await git.run(["rev-parse", "--abbrev-ref", "HEAD"])).stdout.toString()).toBe("main\n");
    expect((await git.run(["rev-parse", "--verify", "-q", "nope"], { ok: [0, 1] })).exitCode).toBe(1);
    expect((await git.run(["hash-object", "--stdin"], { input: "x" })).stdout.toString()).toMatch(/^[0-9a-f]{40}\n$/);
    const failed = await git.run(["cat-file", "-p", "nope"]).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(GitError);
    expect(failed).toMatchObject({
      exitCode: 128,
      message: expect.stringContaining("git cat-file ended with exit code 128"),
    });
  });

  test("takes paths literally, with any bytes in them", async () => {
    const git = createGit(root);
    const names = ["*.txt", ":(top)a", "new\nline", "-x", "é"];
    for (const name of names) writeFileSync(join(root, name), name);
    await git.run(["add", "--", ...names]);
    const { stdout } = await git.run(["diff", "--cached", "--name-only", "-z"]);
    expect(stdout.toString().split("\0").filter(Boolean).sort()).toEqual([...names].sort());
  });

  test("ends at its time-out, on abort, and past its output bound", async () => {
    const git = createGit(root);
    const slow = ["-c", "alias.slow=!sleep 30", "slow"];
    await expect(git.run(slow, { timeoutMs: 50 })).rejects.toThrow("took longer than 50 ms");
    await expect(git.run(slow, { signal: AbortSignal.timeout(50) })).rejects.toThrow("was aborted");
    await expect(git.run(["status"], { signal: AbortSignal.abort() })).rejects.toThrow("not started");
    writeFileSync(join(root, "big"), Buffer.alloc(65 * 1024 * 1024));
    const blob = (await git.run(["hash-object", "-w", "big"])).stdout.toString().trim();
    await expect(git.run(["cat-file", "blob", blob])).rejects.toThrow("more than 67108864 bytes");
  });

  test("what cannot take its output ends it, with its own error; control: what can has all of it", async () => {
    writeFileSync(join(root, "big"), Buffer.alloc(2 * 1024 * 1024));
    const git = createGit(root);
    const blob = (await git.run(["hash-object", "-w", "big"])).stdout.toString().trim();
    let parts = 0;
    const onOutput = () => {
      parts += 1;
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    };
    await expect(git.run(["cat-file", "blob", blob], { onOutput })).rejects.toMatchObject({ code: "ENOSPC" });
    expect(parts).toBe(1);
    let bytes = 0;
    await git.run(["cat-file", "blob", blob], { onOutput: (part) => (bytes += part.length) });
    expect(bytes).toBe(2 * 1024 * 1024);
  });

  test("does not read a repository above its toplevel", async () => {
    const below = join(root, "below");
    mkdirSync(below);
    await expect(createGit(below).run(["rev-parse", "HEAD"])).rejects.toThrow("not a git repository");
    const inside = createGit(below, { toplevel: root });
    expect((await inside.run(["rev-parse", "--show-prefix"])).stdout.toString()).toBe("below/\n");
  });

  test("trusts the one folder that it is called for, and never any", async () => {
    const bin = join(base, "bin");
    const said = join(base, "said");
    mkdirSync(bin);
    const own = spawnSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).stdout.trim();
    writeFileSync(join(bin, "git"), `#!/bin/sh\nprintf '%s\\n' "$@" >>'${said}'\nexec ${own} "$@"\n`, { mode: 0o755 });
    const path = `${bin}:${process.env["PATH"]}`;
    await createGit(root, { path }).run(["status"]);
    await createGit(root, { path, discover: true }).run(["rev-parse", "HEAD"]);
    const trusted = readFileSync(said, "utf8").match(/^safe\.directory=.*$/gm) ?? [];
    expect(new Set(trusted)).toEqual(new Set([`safe.directory=${root}`]));
  });

  test("knows its version", async () => {
    const { version, ok } = await gitVersion();
    expect(version).toMatch(/^\d+\.\d+/);
    expect(ok).toBe(true);
  });
});

/** A payload leaves a marker file named after its vector. */
const payload = (vector: string) => join(base, "bin", vector);

const vectors: Record<string, () => void> = {
  fsmonitor: () => plain("config", "core.fsmonitor", payload("fsmonitor")),
  hooks: () => {
    for (const hook of ["pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction"]) {
      writeFileSync(join(root, ".git/hooks", hook), `#!/bin/sh\nexec ${payload("hooks")}\n`);
      chmodSync(join(root, ".git/hooks", hook), 0o755);
    }
  },
  "hooks-path": () => {
    mkdirSync(join(root, "hooks"));
    writeFileSync(join(root, "hooks/post-index-change"), `#!/bin/sh\nexec ${payload("hooks-path")}\n`);
    chmodSync(join(root, "hooks/post-index-change"), 0o755);
    plain("config", "core.hooksPath", "hooks");
  },
  "filter-clean": () => attribute("filter=ev=il.x", "filter.ev=il.x.clean", `${payload("filter-clean")}; cat`),
  "filter-smudge": () => attribute("filter=evil", "filter.evil.smudge", `${payload("filter-smudge")}; cat`),
  "filter-process": () => {
    attribute("filter=evil", "filter.evil.process", payload("filter-process"));
    plain("config", "filter.evil.required", "true");
  },
  "filter-included": () => {
    writeFileSync(join(root, "more"), `[filter "inc"]\n\tclean = ${payload("filter-included")}; cat\n`);
    plain("config", "include.path", "../more");
    attribute("filter=inc");
  },
  "filter-worktree-config": () => {
    plain("config", "extensions.worktreeConfig", "true");
    attribute("filter=wt");
    plain("config", "--worktree", "filter.wt.clean", `${payload("filter-worktree-config")}; cat`);
  },
  textconv: () => attribute("diff=evil", "diff.evil.textconv", payload("textconv")),
  "diff-command": () => attribute("diff=evil", "diff.evil.command", payload("diff-command")),
  "diff-external": () => plain("config", "diff.external", payload("diff-external")),
  pager: () => {
    plain("config", "core.pager", payload("pager"));
    plain("config", "pager.log", payload("pager"));
  },
  editor: () => plain("config", "core.editor", payload("editor")),
  "gpg-program": () => {
    plain("config", "commit.gpgSign", "true");
    plain("config", "gpg.program", payload("gpg-program"));
  },
  "gpg-ssh-program": () => {
    plain("config", "gpg.format", "ssh");
    plain("config", "user.signingKey", "key::ssh-ed25519 AAAA");
    plain("config", "commit.gpgSign", "true");
    plain("config", "format.pretty", "%G?");
    plain("config", "gpg.ssh.program", payload("gpg-ssh-program"));
  },
  "gpg-x509-program": () => {
    plain("config", "gpg.format", "x509");
    plain("config", "commit.gpgSign", "true");
    plain("config", "gpg.x509.program", payload("gpg-x509-program"));
  },
  // Run by git 2.54 and newer.
  "hook-by-config": () => {
    plain("config", "hook.evil.command", payload("hook-by-config"));
    plain("config", "--add", "hook.evil.event", "post-commit");
    plain("config", "--add", "hook.evil.event", "post-index-change");
  },
  "merge-driver": () => attribute("merge=evil", "merge.evil.driver", `${payload("merge-driver")} %A`),
};

const attribute = (text: string, key?: string, value?: string) => {
  writeFileSync(join(root, ".gitattributes"), `*.txt ${text}\n`);
  if (key !== undefined && value !== undefined) plain("config", key, value);
};

/** What our service does, and what an agent's git tool does. */
const commands: string[][] = [
  ["status", "--porcelain"],
  ["add", "-A"],
  ["diff", "HEAD"],
  ["-c", "pager.diff=true", "log", "-p", "-1"],
  ["commit", "-q", "--allow-empty", "-m", "second"],
  ["commit", "-q", "--amend", "-m", "second again"],
  ["checkout", "-q", "-f", "other"],
  ["read-tree", "--reset", "-u", "main"],
  ["merge", "-q", "-m", "merged", "other"],
];

describe("what somebody else's objects may cost", () => {
  test("git may allocate two gibibytes where it reads trees and contents; control: elsewhere there is no bound", async () => {
    const bin = join(base, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "git"), "#!/bin/sh\nulimit -d\n", { mode: 0o755 });
    const own = createGit(base, { path: `${bin}:/usr/bin:/bin` });
    const boundOf = async (args: string[]) => (await own.run(args)).stdout.toString().trim();
    const bound = String(2 * 1024 ** 2);
    for (const args of [
      ["status"],
      ["read-tree", "HEAD"],
      ["diff", "a", "b"],
      ["pack-objects"],
      ["-c", "a=b", "clean"],
    ])
      expect([args, await boundOf(args)]).toEqual([args, bound]);
    expect(await boundOf(["rev-parse", "HEAD"])).not.toBe(bound);
  });

  test("a text of more than 32 MiB is compared as bytes; control: a smaller one line by line", async () => {
    writeFileSync(join(root, "large.txt"), Buffer.alloc(33 * 1024 * 1024, "a\n"));
    writeFileSync(join(root, "small.txt"), "small\n");
    plain("add", ".");
    plain("commit", "-q", "-m", "second");
    const diff = await diffOfCommits(createGit(root), "HEAD^", "HEAD");
    expect(diff).toContain("Binary files /dev/null and b/large.txt differ");
    expect(diff).toContain("+small");
    expect(diff.length).toBeLessThan(1000);
  });
});

describe("T7 a project that would run its own programs", () => {
  beforeEach(() => {
    plain("checkout", "-q", "-b", "other");
    writeFileSync(join(root, "a.txt"), "other\n");
    plain("commit", "-qam", "other");
    plain("checkout", "-q", "main");
    writeFileSync(join(root, "a.txt"), "main\n");
    plain("commit", "-qam", "main");
    mkdirSync(join(base, "bin"));
    mkdirSync(join(base, "ran"));
  });

  const plant = (vector: string) => {
    writeFileSync(payload(vector), `#!/bin/sh\ntouch ${join(base, "ran", vector)}\nexit 1\n`);
    chmodSync(payload(vector), 0o755);
    vectors[vector]?.();
    writeFileSync(join(root, "a.txt"), "edited\n");
  };

  test.each(Object.keys(vectors))("%s never runs", async (vector) => {
    plant(vector);
    const git = createGit(root);
    for (const command of commands) await git.run(command).catch(() => undefined);
    expect(readdirSync(join(base, "ran"))).toEqual([]);
  });

  // Without a terminal no pager starts, so plain git is given one by `script` where the vector needs it.
  test("control: plain git runs nearly all of them", () => {
    const ran: string[] = [];
    rmSync(root, { recursive: true, force: true });
    mkdirSync(root);
    plain("init", "-q", "-b", "main");
    writeFileSync(join(root, "a.txt"), "a\n");
    plain("add", ".");
    plain("commit", "-q", "-m", "first");
    plain("checkout", "-q", "-b", "other");
    writeFileSync(join(root, "a.txt"), "other\n");
    plain("commit", "-qam", "other");
    plain("checkout", "-q", "main");
    writeFileSync(join(root, "a.txt"), "main\n");
    plain("commit", "-qam", "main");
    const fresh = `${root}-fresh`;
    cpSync(root, fresh, { recursive: true, preserveTimestamps: true });
    for (const vector of Object.keys(vectors)) {
      rmSync(root, { recursive: true, force: true });
      cpSync(fresh, root, { recursive: true, preserveTimestamps: true });
      plant(vector);
      const more = vector === "editor" ? [["commit", "--amend", "--allow-empty"]] : [];
      const runs = [...commands, ...more].some((command) => {
        plain(...command);
        return existsSync(join(base, "ran", vector));
      });
      if (runs) ran.push(vector);
    }
    console.log(`plain git ran ${ran.length} of ${Object.keys(vectors).length}: ${ran.join(", ")}`);
    expect(ran.length).toBeGreaterThanOrEqual(11);
  });
});

describe("a git that dies", () => {
  /** A git that is killed at each odd call, as the kernel does for want of memory. */
  const dying = () => {
    const bin = join(base, "bin");
    mkdirSync(bin);
    const real = spawnSync("which", ["git"], { encoding: "utf8" }).stdout.trim();
    const script = `#!/bin/sh\nif [ -e '${base}/died' ]; then rm '${base}/died'; exec ${real} "$@"; fi\ntouch '${base}/died'; kill -9 $$\n`;
    writeFileSync(join(bin, "git"), script, { mode: 0o755 });
    return createGit(root, { path: `${bin}:/usr/bin:/bin` });
  };

  test("is run again where it only reads, or compares before it sets", async () => {
    plain("commit", "-q", "--allow-empty", "-m", "first");
    const git = dying();
    const { stdout } = await git.run(["rev-parse", "HEAD"]);
    expect(stdout.toString()).toMatch(/^[0-9a-f]{40}\n$/);
    await git.run(["update-ref", "refs/heads/other", stdout.toString().trim(), "0".repeat(40)]);
    expect(plain("rev-parse", "other").status).toBe(0);
  });

  test("control: what may have been done by half is not", async () => {
    plain("commit", "-q", "--allow-empty", "-m", "first");
    await expect(dying().run(["reset", "--hard", "HEAD"])).rejects.toThrow("was killed by SIGKILL");
  });
});
