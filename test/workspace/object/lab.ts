import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createGit } from "../../../src/workspace/git/git.ts";
import { takeOver } from "../../../src/workspace/object/take-over.ts";
import { git, gitEnv, makeProject, temporary } from "../../harness/project.ts";
import { commitOf, type Entry, idOf, type Made, packed, treeOf } from "./hand-made.ts";

/** A project, and what takes trees and packs into it as the service does. */

const author = { name: "Sortie", email: "sortie@localhost" };
export const someCommit = "1234567890123456789012345678901234567890";

export const makeLab = () => {
  const folder = temporary("sortie-take-over-");
  const at = (name: string) => join(folder.path, name);
  const project = makeProject(at("project"), {
    "a.txt": "a\n",
    "d/f.txt": "f\n",
    ".sortie/permissions.jsonc": "{}\n",
    "line\nfeed/x.txt": "x\n",
    ".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n',
  });
  git(project, "update-index", "--add", "--cacheinfo", `160000,${someCommit},sub`);
  git(project, "commit", "-qm", "submodule");
  git(project, "tag", "-a", "-m", "tag", "v1");
  const nothing = at("nothing");
  mkdirSync(nothing);
  const objects = createGit(nothing, { toplevel: nothing, gitDir: join(project, ".git"), timeoutMs: 60_000 });
  const idAt = (name: string) => git(project, "rev-parse", name);
  const base = { commit: idAt("HEAD"), tree: idAt("HEAD^{tree}") };
  /** The entries of a tree of the project, by name. */
  const listed = (tree: string): Map<string, Entry> =>
    new Map(
      git(project, "ls-tree", "-z", tree)
        .split("\0")
        .filter((line) => line !== "")
        .map((line) => {
          const [about = "", name = ""] = line.split("\t");
          const [mode = "", , id = ""] = about.split(" ");
          return [name, [mode.replace(/^0/, ""), name, id]];
        }),
    );
  const ids = {
    a: idAt("HEAD:a.txt"),
    d: idAt("HEAD:d"),
    sortie: idAt("HEAD:.sortie"),
    tag: idAt("v1"),
    before: idAt("HEAD~"),
    listed: listed("HEAD"),
    ...base,
  };
  /** All files of the repository: refused objects leave none. */
  const stored = () => readdirSync(join(project, ".git"), { recursive: true }).map(String).sort();
  let serial = 0;
  return {
    project,
    at,
    base,
    ids,
    stored,
    objects,
    fresh: (name: string) => at(`${name}-${(serial += 1)}`),
    take: (tree: string, pack: string, more: Partial<Parameters<typeof takeOver>[0]> = {}) =>
      takeOver({
        git: objects,
        objects: join(project, ".git/objects"),
        key: "task_1",
        base,
        tree,
        pack,
        author,
        message: "work",
        ...more,
      }),
    fsck: () => {
      const ran = spawnSync("git", ["fsck", "--strict", "--no-dangling"], { cwd: project, encoding: "utf8" });
      return `${ran.stdout}${ran.stderr}`.replace(/^(Checking|notice).*\n/gm, "");
    },
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
};

export type Lab = ReturnType<typeof makeLab>;
export type Ids = Lab["ids"];

const inOrder = ([aMode, a]: Entry, [bMode, b]: Entry): number =>
  Buffer.compare(
    Buffer.concat([Buffer.from(a), Buffer.from(aMode === "40000" ? "/" : "")]),
    Buffer.concat([Buffer.from(b), Buffer.from(bMode === "40000" ? "/" : "")]),
  );

/** The project's top with these entries added, or taken away by name. */
export const topOf = (ids: Ids, added: readonly Entry[], without: readonly string[] = []): Made =>
  treeOf([...[...ids.listed.values()].filter(([, name]) => !without.includes(String(name))), ...added].sort(inOrder));

export type Given = { tree: string; pack: Buffer };
export const given = (root: Made, ...others: readonly Made[]): Given => ({
  tree: idOf(root),
  pack: packed(root, ...others),
});

/** git without any check, on the project and these objects beside it. `dataKiB`: how much memory it has. */
export const beside = (lab: Lab, { pack }: Pick<Given, "pack">, dataKiB = 1024 * 1024) => {
  const folder = lab.fresh("objects");
  mkdirSync(folder);
  const env = {
    ...gitEnv(folder),
    GIT_OBJECT_DIRECTORY: folder,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: join(lab.project, ".git/objects"),
  };
  const run = (args: string[], input: string | Buffer = "") => {
    const argv = ["-c", `ulimit -d ${dataKiB}; exec git "$@"`, "git", ...args];
    const ran = spawnSync("bash", argv, { cwd: lab.project, input, env, maxBuffer: 64 * 1024 * 1024 });
    return `${ran.stdout.toString("utf8")}${ran.stderr.toString("utf8")}`;
  };
  run(["unpack-objects", "-q"], pack);
  return run;
};

/** What git shows of a commit with the tree, and what `git fsck` says. */
export const plainly = (lab: Lab, { tree, pack }: Given): string => {
  const run = beside(lab, { pack });
  const commit = commitOf(tree, [lab.base.commit]).body;
  const id = run(["hash-object", "-w", "-t", "commit", "--literally", "--stdin"], commit).trim();
  return `${run(["-c", "core.quotePath=false", "ls-tree", "-r", id])}${run(["fsck", "--strict", id])}`;
};
