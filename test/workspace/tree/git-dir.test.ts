import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultAuthor } from "../../../src/workspace/git/hardened.ts";
import { makeGitDir } from "../../../src/workspace/tree/git-dir.ts";
import { git, makeProject, temporary, writeFiles } from "../../harness/project.ts";

/** What of a project's Git directory a Task's own one has, which agents read. */

const secret = "the-outside-secret";

const lab = () => {
  const temp = temporary();
  const project = makeProject(join(temp.path, "project"), { "a.txt": "a\n" });
  const commonDir = join(project, ".git");
  const gitDir = join(temp.path, "task.git");
  return {
    commonDir,
    outside: join(temp.path, "secret"),
    head: git(project, "rev-parse", "HEAD"),
    async made() {
      await makeGitDir({ gitDir, commonDir, head: git(project, "rev-parse", "HEAD"), author: defaultAuthor });
      return (name: string) => (existsSync(join(gitDir, name)) ? readFileSync(join(gitDir, name), "utf8") : undefined);
    },
    [Symbol.dispose]: () => temp[Symbol.dispose](),
  };
};

test.each(["info/exclude", "info/attributes", "shallow"])(
  "%s is copied; not where it, or its folder, is a link that leads out",
  async (name) => {
    using own = lab();
    const text = name === "shallow" ? `${own.head}\n` : "*.log\n";
    writeFiles(own.commonDir, { [name]: text });
    expect((await own.made())(name)).toBe(text);

    using linked = lab();
    writeFileSync(linked.outside, secret);
    mkdirSync(join(linked.commonDir, "info"), { recursive: true });
    rmSync(join(linked.commonDir, name), { force: true });
    symlinkSync(linked.outside, join(linked.commonDir, name));
    expect((await linked.made())(name)).toBeUndefined();

    if (name === "shallow") return;
    using beside = lab();
    writeFiles(`${beside.outside}.d`, { [name.slice("info/".length)]: secret });
    rmSync(join(beside.commonDir, "info"), { recursive: true, force: true });
    symlinkSync(`${beside.outside}.d`, join(beside.commonDir, "info"));
    expect((await beside.made())(name)).toBeUndefined();
  },
);

test("branches are shown; not those of a file or folder that a link leads to", async () => {
  using own = lab();
  writeFiles(own.commonDir, { "packed-refs": `${own.head} refs/tags/packed\n` });
  writeFiles(own.commonDir, { "refs/remotes/origin/main": `${own.head}\n` });
  const shown = (await own.made())("packed-refs");
  for (const ref of ["refs/heads/main", "refs/tags/packed", "refs/remotes/origin/main"]) expect(shown).toContain(ref);

  using linked = lab();
  writeFileSync(linked.outside, `${linked.head} refs/heads/theirs\n`);
  writeFiles(`${linked.outside}.d`, { theirs: `${linked.head}\n` });
  symlinkSync(linked.outside, join(linked.commonDir, "packed-refs"));
  symlinkSync(`${linked.outside}.d`, join(linked.commonDir, "refs/remotes"));
  expect((await linked.made())("packed-refs")).toBe(`${linked.head} refs/heads/main\n`);
});
