import { execFileSync } from "node:child_process";
import { cpSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createGit } from "../../src/workspace/git/git.ts";
import { createTask, makeLab, send, settledTask, shell } from "../harness/double/hostile-text.ts";
import { git, gitEnv, makeProject, temporary } from "../harness/project.ts";
import { startService } from "../harness/service.ts";

/**
 * T7: sixteen ways by which a repository makes git run a program, with sixteen commands each; and forty ways to hide
 * such a repository where the service's own git comes by, through whole Tasks. The same with a user's plain git is the
 * control.
 */

/** Shell that arms a repository: `$G` its own folder, `$W` its files, `$P` the program. */
const vectors: Record<string, string> = {
  fsmonitor: 'git config -f $G/config core.fsmonitor "$P"',
  hooks:
    'mkdir -p $G/hooks; for h in pre-commit post-commit post-checkout post-index-change reference-transaction post-merge commit-msg prepare-commit-msg; do printf "#!/bin/sh\\nexec $P\\n" > $G/hooks/$h; chmod +x $G/hooks/$h; done',
  "hooks-path":
    'mkdir -p $W/h; printf "#!/bin/sh\\nexec $P\\n" > $W/h/post-index-change; chmod +x $W/h/post-index-change; git config -f $G/config core.hooksPath h',
  "filter-clean": 'echo "* filter=x" > $W/.gitattributes; git config -f $G/config filter.x.clean "$P; cat"',
  "filter-smudge": 'echo "* filter=x" > $W/.gitattributes; git config -f $G/config filter.x.smudge "$P; cat"',
  "filter-process":
    'echo "* filter=x" > $W/.gitattributes; git config -f $G/config filter.x.process "$P"; git config -f $G/config filter.x.required true',
  "filter-included":
    'echo "* filter=x" > $W/.gitattributes; printf "[filter \\"x\\"]\\n\\tclean = $P; cat\\n" > $G/more; git config -f $G/config include.path more',
  "filter-info":
    'mkdir -p $G/info; echo "* filter=x" > $G/info/attributes; git config -f $G/config filter.x.clean "$P; cat"',
  textconv: 'echo "* diff=x" > $W/.gitattributes; git config -f $G/config diff.x.textconv "$P"',
  "diff-command": 'echo "* diff=x" > $W/.gitattributes; git config -f $G/config diff.x.command "$P"',
  "diff-external": 'git config -f $G/config diff.external "$P"',
  "merge-driver": 'echo "* merge=x" > $W/.gitattributes; git config -f $G/config merge.x.driver "$P %A"',
  editor: 'git config -f $G/config core.editor "$P"; git config -f $G/config sequence.editor "$P"',
  gpg: 'git config -f $G/config commit.gpgSign true; git config -f $G/config tag.gpgSign true; git config -f $G/config gpg.program "$P"; git config -f $G/config log.showSignature true',
  ssh: 'git config -f $G/config core.sshCommand "$P"; git config -f $G/config remote.origin.url ssh://127.0.0.1/x; git config -f $G/config credential.helper "!$P"',
  "remote-ext":
    'git config -f $G/config remote.origin.url "ext::sh -c $P"; git config -f $G/config protocol.ext.allow always; git config -f $G/config remote.origin.uploadpack "$P"',
};

const commands: string[][] = [
  ["status", "--porcelain"],
  ["add", "-A"],
  ["diff"],
  ["diff", "--cached"],
  ["log", "-p", "-2"],
  ["show", "HEAD"],
  ["commit", "-q", "--allow-empty", "-m", "x"],
  ["commit", "-q", "--amend"],
  ["checkout", "-q", "-f", "other"],
  ["reset", "-q", "--hard", "main"],
  ["read-tree", "--reset", "-u", "other"],
  ["merge", "-q", "-m", "m", "main"],
  ["stash"],
  ["tag", "-m", "t", "v1"],
  ["fetch", "origin"],
  ["rebase", "main"],
];

const armed = (root: string, vector: string, gitDir = join(root, ".git")): string => {
  const program = `${root}.program`;
  const mark = `${root}.ran`;
  writeFileSync(program, `#!/bin/sh\ntouch ${mark}\nexit 1\n`, { mode: 0o755 });
  execFileSync("bash", ["-c", `G=${gitDir}; W=${root}; P=${program}; ${vectors[vector]}`]);
  return mark;
};

const twoBranches = (root: string): string => {
  makeProject(root, { "a.txt": "a\n", "b.txt": "b\n" });
  git(root, "checkout", "-q", "-b", "other");
  writeFileSync(join(root, "a.txt"), "other\n");
  git(root, "commit", "-qam", "other");
  git(root, "checkout", "-q", "main");
  writeFileSync(join(root, "a.txt"), "main\n");
  git(root, "commit", "-qam", "main");
  return root;
};

describe("T7 the git matrix", () => {
  test("16 ways × 16 commands: ours run nothing, a user's plain git more than 50", async () => {
    using folder = temporary("sortie-matrix-");
    const template = twoBranches(join(folder.path, "template"));
    const ran: Record<"ours" | "plain", string[]> = { ours: [], plain: [] };
    for (const vector of Object.keys(vectors))
      for (const side of ["ours", "plain"] as const) {
        const root = join(folder.path, `${side}-${vector}`);
        cpSync(template, root, { recursive: true });
        const mark = armed(root, vector);
        const ours = createGit(root);
        for (const [number, command] of commands.entries()) {
          writeFileSync(join(root, "a.txt"), `edited ${number}\n`);
          rmSync(mark, { force: true });
          if (side === "ours") await ours.run(command, { timeoutMs: 10_000 }).catch(() => undefined);
          else
            try {
              const env = gitEnv(folder.path);
              execFileSync("git", command, { cwd: root, env, stdio: "ignore", timeout: 10_000 });
            } catch {}
          if (existsSync(mark)) ran[side].push(`${vector}: ${command.join(" ")}`);
        }
      }
    console.log(
      `T7: of ${Object.keys(vectors).length * commands.length}, ours ran ${ran.ours.length}, plain git ${ran.plain.length}`,
    );
    expect(ran.ours).toEqual([]);
    expect(ran.plain.length).toBeGreaterThanOrEqual(50);
  }, 600_000);
});

/** Where an armed repository `$E` is hidden in a worktree or a project, `$T` the worktree, `$R` the project. */
const places: Record<string, string> = {
  "nested repository": "cp -r $E $T/sub",
  "nested by a file":
    'mkdir $T/sub; cp -r $E $T/keep; mv $T/keep/.git $T/keep/dot; echo "gitdir: ../keep/dot" > $T/sub/.git; echo x > $T/sub/x',
  "nested by a link":
    "mkdir $T/sub; cp -r $E $T/keep; mv $T/keep/.git $T/keep/dot; ln -s ../keep/dot $T/sub/.git; echo x > $T/sub/x",
  "submodule in the index":
    "cp -r $E $T/sub; git -C $T update-index --add --cacheinfo 160000,$(git -C $E rev-parse HEAD),sub; printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n\\tupdate = !touch ran\\n' > $T/.gitmodules",
  "the worktree's own .git, a folder": "rm $T/.git; cp -r $E/.git $T/.git",
  "the worktree's own .git, a file": 'cp -r $E/.git $T/dot; rm $T/.git; echo "gitdir: $T/dot" > $T/.git',
  "the project's settings":
    "cp $E/.git/config $R/.git/config; cp -r $E/.git/hooks $R/.git/; mkdir -p $R/.git/info; cp $E/.git/info/* $R/.git/info/; cp $E/.gitattributes $T/ 2>/dev/null; true",
  "the worktree's common folder":
    'D=$(cd $T && git rev-parse --git-dir); cp -r $E/.git $D/evil; echo "evil" > $D/commondir',
};
const payloads = ["fsmonitor", "hooks", "filter-clean", "filter-process", "diff-command"];

describe("T7 hidden repositories", () => {
  test("40 of them, through prepare, commit, check, landing, diff and archive: nothing runs; plain git runs some", async () => {
    await using lab = await makeLab({}, 3);
    const all = Object.keys(places).flatMap((place) => payloads.map((payload) => ({ place, payload })));
    // Made before the service starts: it blocks this process, and idle connections would be closed meanwhile.
    const sites = all.map(({ place, payload }) => {
      const evil = twoBranches(lab.folder("evil"));
      const project = makeProject(lab.folder(), { "a.txt": "a\n" });
      return { place, name: `${place}, ${payload}`, evil, project, mark: armed(evil, payload) };
    });
    await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
    const ran: string[] = [];
    const control: string[] = [];
    const one = async ({ place, name, evil, project, mark }: (typeof sites)[number]) => {
      const plant = `E=${evil}; R=${project}; T=$PWD; ${places[place]}; echo more >> a.txt`;
      const turns = [
        shell(plant),
        {
          calls: [
            { tool: "git", input: { action: "status" } },
            { tool: "git", input: { action: "diff" } },
            { tool: "git", input: { action: "add", paths: ["a.txt"] } },
          ],
        },
        { text: "Done." },
      ];
      const id = await createTask(service.url, project, { ...lab.request(turns), checks: ["true"] });
      const status = await settledTask(service.url, id, 120_000);
      expect([name, status.status]).toEqual([name, "inactive"]);
      const query = `?directory=${encodeURIComponent(project)}`;
      await send(service.url, `/task/${id}/diff`);
      await send(service.url, `/task/${id}/project-archive${query}`);
      if (existsSync(mark)) ran.push(name);
    };
    const plainOne = ({ place, payload }: (typeof all)[number]) => {
      const evil = twoBranches(lab.folder("evil"));
      const mark = armed(evil, payload);
      const plainly = makeProject(lab.folder("plain"), { "a.txt": "a\n" });
      const tree = `${plainly}-tree`;
      git(plainly, "worktree", "add", "-q", tree);
      execFileSync(
        "bash",
        [
          "-c",
          `E=${evil}; R=${plainly}; T=${tree}; cd $T; ${places[place]}; echo more >> a.txt; for d in . sub; do cd $T/$d 2>/dev/null || continue; git status; git add -A; git diff HEAD; git -c user.name=u -c user.email=u@x commit -qm x; done; true`,
        ],
        { stdio: "ignore" },
      );
      if (existsSync(mark)) control.push(`${place}, ${payload}`);
    };
    for (let at = 0; at < sites.length; at += 4) await Promise.all(sites.slice(at, at + 4).map(one));
    for (const site of all) plainOne(site);
    console.log(`T7: of ${all.length} hidden repositories ours ran ${ran.length}, plain git ${control.length}`);
    expect(ran).toEqual([]);
    expect(control.length).toBeGreaterThanOrEqual(20);
  }, 900_000);
});
