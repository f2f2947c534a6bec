/**
 * Ways by which a command makes the user's next git run a program, or send something elsewhere. `setup` is the user's
 * own and has come before; `plant` is the agent's, a command each; `use` is what the user does next. `$M` exists when
 * the agent's program ran, or when something went to the agent's place. `$P` is the project, `$G` its Git directory,
 * `$W` a folder beside it.
 */
export type Trick = {
  setup?: string;
  plant: string | readonly string[];
  use?: string;
  git?: readonly [number, number];
};

/** What most people do all day. */
export const everyday = "echo change >> a.txt; git status; git add -A; git checkout -q HEAD";

const evil = "touch $M; false";
const script = (path: string, body = "touch $M") => `printf '#!/bin/sh\\n%s\\n' "${body}" > ${path}; chmod +x ${path}`;
const commit = "git commit -q --allow-empty -m x";

/** A repository of the agent's, whose settings run its program. */
const evilRepository = (path: string) =>
  `git init -q ${path}; git -C ${path} -c user.name=x -c user.email=x@x commit -q --allow-empty -m x; git -C ${path} config core.fsmonitor '${evil}'`;

/** A repository that takes pushes, with one branch like the project's. */
const bare = (path: string) => `git init -q --bare ${path}; git push -q ${path} HEAD:refs/heads/main`;
const arrived = (path: string) => `git -C ${path} rev-parse -q --verify refs/heads/secret && touch $M`;
const origin = `${bare("$W/good.git")}; git remote add origin $W/good.git; git fetch -q; git init -q --bare $W/evil.git`;
const push = `git push -q origin HEAD:secret; ${arrived("$W/evil.git")}`;

const submodule = (name: string, path = "sub", at = ".") =>
  `git init -q $W/in-${path}; git -C $W/in-${path} commit -q --allow-empty -m x; git -C ${at} -c protocol.file.allow=always submodule --quiet add --name ${name} $W/in-${path} ${path}; git -C ${at} commit -q -m sub`;
const inModule = (name: string) => `git config -f $G/modules/${name}/config core.fsmonitor '${evil}'`;
const linked = "git worktree add -q $W/linked -b side";
const inLinked = "git -C $W/linked status";

const onTerminal = (command: string) => `PAGER=cat TERM=xterm script -qec '${command}' /dev/null </dev/null`;

export const tricks: Readonly<Record<string, Trick>> = {
  // Where the Git directory is.
  "a hook behind many other names": {
    plant: `touch $G/hooks/a-{1..300}; chmod +x $G/hooks/a-*; ${script("$G/hooks/post-index-change")}`,
  },
  "a hook behind more names than anybody reads": {
    plant: `touch $G/hooks/a-{1..2500}; ${script("$G/hooks/post-index-change")}`,
  },
  "a hook while HEAD is away, which another command brings back": {
    plant: [`mv $G/HEAD $W/HEAD; ${script("$G/hooks/post-index-change")}`, "mv $W/HEAD $G/HEAD"],
  },
  ".git as a file that names another folder": {
    plant: `mv $G $W/moved; git config -f $W/moved/config core.fsmonitor '${evil}'; echo "gitdir: $W/moved" > $G`,
  },
  ".git as a link to another repository": {
    plant: `${evilRepository("$W/evil")}; mv $G $W/moved; ln -s $W/evil/.git $G`,
  },
  ".git exchanged for another folder": { plant: `${evilRepository("$W/evil")}; mv $G $W/moved; mv $W/evil/.git $G` },
  ".git moved away for a while": {
    plant: [`mv $G $W/moved; ${script("$W/moved/hooks/post-index-change")}`, "[ -e $G ] || mv $W/moved $G"],
  },
  "a hooks folder that is a link": {
    plant: `mkdir -p $W/h; ${script("$W/h/post-index-change")}; rm -rf $G/hooks; ln -s $W/h $G/hooks`,
  },
  "an info folder that is a link, with attributes": {
    setup: `git config filter.mine.clean 'touch $M; cat'`,
    plant: "mkdir -p $W/i; echo '* filter=mine' > $W/i/attributes; rm -rf $G/info; ln -s $W/i $G/info",
  },
  "a commondir of another repository": {
    plant: `${evilRepository("$W/evil")}; echo $W/evil/.git > $G/commondir`,
  },
  // Hooks.
  "a helper that a hook reads": {
    setup: `${script("$G/hooks/post-index-change", ". $G/hooks/lib.sh")}; echo : > $G/hooks/lib.sh`,
    plant: 'echo "touch $M" > $G/hooks/lib.sh',
  },
  "a folder whose programs a hook runs": {
    setup: `mkdir $G/hooks/index.d; ${script("$G/hooks/post-index-change", "for f in $G/hooks/index.d/*; do [ -x \\$f ] && \\$f; done")}`,
    plant: script("$G/hooks/index.d/50-x"),
  },
  "a program in that folder with the name of one set aside": {
    setup: `mkdir $G/hooks/index.d; ${script("$G/hooks/post-index-change", "for f in $G/hooks/index.d/*; do [ -x \\$f ] && \\$f; done")}`,
    plant: script("$G/hooks/index.d/x.found-by-task_x"),
  },
  "a hook that could not run": {
    setup: `${script("$G/hooks/post-index-change")}; chmod -x $G/hooks/post-index-change`,
    plant: "chmod +x $G/hooks/post-index-change",
  },
  "a hook that is a link into the work tree": {
    setup: `mkdir tools; ${script("tools/hook.sh", ":")}; ln -s ../../tools/hook.sh $G/hooks/post-index-change`,
    plant: script("tools/hook.sh"),
  },
  "a hook in a folder of the work tree": {
    setup: "mkdir .githooks; git config core.hooksPath .githooks",
    plant: script(".githooks/post-index-change"),
  },
  "a hook in a folder of the work tree that is not tracked": {
    setup: `mkdir -p .husky/_; echo '*' > .husky/_/.gitignore; ${script(".husky/_/post-index-change", ". .husky/_/h")}; echo : > .husky/_/h; git config core.hooksPath .husky/_`,
    plant: 'echo "touch $M" > .husky/_/h',
  },
  "a hook by configuration": {
    git: [2, 54],
    plant: `git config hook.x.command 'touch $M'; git config hook.x.event post-index-change`,
  },
  // Files that the configuration includes.
  "an included file beside the configuration": {
    setup: "git config include.path extra.config; : > $G/extra.config",
    plant: `git config -f $G/extra.config core.fsmonitor '${evil}'`,
  },
  "an included file outside of the repository": {
    setup: "git config include.path $W/shared.config; : > $W/shared.config",
    plant: `git config -f $W/shared.config core.fsmonitor '${evil}'`,
  },
  "an included file of the work tree": {
    setup: "git config include.path ../.gitconfig; : > .gitconfig; git add .gitconfig; git commit -q -m config",
    plant: `git config -f .gitconfig core.fsmonitor '${evil}'`,
  },
  "an included file that is not there yet": {
    setup: "git config include.path later.config",
    plant: `git config -f $G/later.config core.fsmonitor '${evil}'`,
  },
  "a file that is included under a condition": {
    setup: "git config includeIf.onbranch:main.path cond.config; : > $G/cond.config",
    plant: `git config -f $G/cond.config core.fsmonitor '${evil}'`,
  },
  "a file that an included file includes": {
    setup: "git config include.path one.config; git config -f $G/one.config include.path two.config; : > $G/two.config",
    plant: `git config -f $G/two.config core.fsmonitor '${evil}'`,
  },
  "an attributes file that the configuration names": {
    setup: `git config core.attributesFile .attributes; : > .attributes; git config filter.mine.clean 'touch $M; cat'`,
    plant: "echo '* filter=mine' > .attributes",
  },
  // Settings, by what makes git read them.
  "gc.recentObjectsHook": {
    git: [2, 42],
    plant: "git config gc.recentObjectsHook 'touch $M'",
    use: "f=$(echo x | git hash-object -w --stdin); touch -d '3 weeks ago' $G/objects/${f:0:2}/${f:2}; git gc -q",
  },
  "core.sshCommand": { plant: "git config core.sshCommand 'touch $M; false'", use: "git fetch -q ssh://localhost/x" },
  "core.gitProxy": {
    plant: `${script("$W/proxy")}; git config core.gitProxy $W/proxy`,
    use: "git fetch -q git://localhost:1/x",
  },
  "core.editor": { plant: `git config core.editor '${evil}'`, use: "git commit -q --allow-empty" },
  "sequence.editor": { setup: commit, plant: `git config sequence.editor '${evil}'`, use: "git rebase -i HEAD~1" },
  "core.askPass": {
    plant: `${script("$W/ask")}; git config core.askPass $W/ask`,
    use: "echo url=https://localhost/ | git credential fill",
  },
  "credential.helper": {
    plant: "git config credential.helper '!touch $M; false'",
    use: "echo url=https://localhost/ | GIT_TERMINAL_PROMPT=0 git credential fill",
  },
  "diff.external": { plant: "git config diff.external 'touch $M;'", use: "echo x >> a.txt; git diff" },
  "diff.*.textconv": {
    setup: "echo '*.txt diff=text' > .gitattributes",
    plant: "git config diff.text.textconv 'touch $M; cat'",
    use: "echo x >> a.txt; git diff",
  },
  "diff.*.command": {
    setup: "echo '*.txt diff=text' > .gitattributes",
    plant: "git config diff.text.command 'touch $M;'",
    use: "echo x >> a.txt; git diff",
  },
  "filter.*.process": {
    setup: "echo '*.txt filter=text' > .gitattributes",
    plant: `git config filter.text.process '${evil}'`,
  },
  "filter.*.smudge": {
    setup: "echo '*.txt filter=text' > .gitattributes; git add -A; git commit -q -m attributes",
    plant: "git config filter.text.smudge 'touch $M; cat'",
    use: "rm a.txt; git checkout -q -- a.txt",
  },
  "merge.*.driver": {
    setup:
      "echo '*.txt merge=text' > .gitattributes; git add -A; git commit -q -m attributes; git checkout -q -b other; echo o > a.txt; git commit -q -a -m o; git checkout -q main; echo m > a.txt; git commit -q -a -m m",
    plant: `git config merge.text.driver '${evil}'`,
    use: "git merge -q other",
  },
  "gpg.program": {
    plant: `${script("$W/gpg")}; git config gpg.program $W/gpg; git config commit.gpgSign true`,
    use: commit,
  },
  "gpg.ssh.defaultKeyCommand": {
    plant: `${script("$W/key")}; git config gpg.format ssh; git config gpg.ssh.defaultKeyCommand $W/key; git config commit.gpgSign true`,
    use: commit,
  },
  "trailer.*.command": {
    plant: "git config trailer.x.key X-y; git config trailer.x.command 'touch $M'",
    use: "git commit -q --allow-empty -m x --trailer x=1",
  },
  "interactive.diffFilter": {
    plant: "git config interactive.diffFilter 'touch $M; cat'",
    use: `echo x >> a.txt; ${onTerminal("git add -p")}`,
  },
  "core.pager": { plant: "git config core.pager 'touch $M; cat'", use: onTerminal("git log") },
  "pager.*": { plant: "git config pager.branch 'touch $M; cat'", use: onTerminal("git branch") },
  "difftool.*.cmd": {
    plant: "git config diff.tool x; git config difftool.x.cmd 'touch $M'",
    use: "echo x >> a.txt; git difftool -y --tool=x",
  },
  "mergetool.*.cmd": {
    setup:
      "git checkout -q -b other; echo o > a.txt; git commit -q -a -m o; git checkout -q main; echo m > a.txt; git commit -q -a -m m",
    plant: "git config merge.tool x; git config mergetool.x.cmd 'touch $M'",
    use: "git merge -q other; git mergetool -y --tool=x",
  },
  "browser.*.cmd": {
    plant: "git config web.browser x; git config browser.x.cmd 'touch $M;'",
    use: "git web--browse http://localhost/",
  },
  "core.worktree": {
    plant: "mkdir $W/victim; git config core.worktree $W/victim",
    use: "git checkout -q -f; [ -e $W/victim/a.txt ] && touch $M",
  },
  "core.alternateRefsCommand": {
    setup: `${bare("$W/good.git")}; git clone -q --bare $W/good.git $W/borrowed.git; echo $W/borrowed.git/objects > $G/objects/info/alternates; git remote add origin $W/good.git`,
    plant: `${script("$W/refs")}; git config core.alternateRefsCommand $W/refs`,
    use: "git -C $W/good.git update-ref refs/heads/n $(git -C $W/good.git commit-tree -m n HEAD^{tree}); git fetch -q",
  },
  "submodule.*.update": {
    setup: submodule("sub"),
    plant: "git config submodule.sub.update '!touch $M;'",
    use: "git -C sub checkout -q --orphan x; git -C sub commit -q --allow-empty -m y; git submodule --quiet update",
  },
  "a setting behind its section's name": {
    plant: `printf '[core] fsmonitor = "touch $M; false"\\n' >> $G/config`,
  },
  "a setting in pieces": {
    plant: `printf '[core]\\n\\tfs' >> $G/config; printf 'monitor = "tou\\\\\\nch $M; false" # \\\\\\n' >> $G/config`,
  },
  "a setting that differs in letters alone": {
    setup: `${script("$W/Run", ":")}; ${script("$W/run")}; git config core.fsmonitor $W/Run`,
    plant: "git config core.fsmonitor $W/run",
  },
  "a file of the same size and times": {
    setup: `${script("$W/one", ":")}; ${script("$W/two")}; git config core.fsmonitor $W/one`,
    plant: "touch -r $G/config $W/times; sed -i s,/one,/two, $G/config; touch -r $W/times $G/config",
  },
  "the name for what is set aside is taken": {
    plant: `mkdir -p $G/config.found-by-task_x/x; git config core.fsmonitor '${evil}'`,
  },
  // Where things go.
  "the address of a remote": { setup: origin, plant: "git config remote.origin.url $W/evil.git", use: push },
  "another address for pushes": { setup: origin, plant: "git config remote.origin.pushurl $W/evil.git", use: push },
  "an address that stands for another": {
    setup: origin,
    plant: "git config url.$W/evil.git.pushInsteadOf $W/good.git",
    use: push,
  },
  "the addresses of two remotes, exchanged": {
    setup: `${origin}; git remote add mirror $W/evil.git`,
    plant: "sed -i 's,good.git,x.git,; s,evil.git,good.git,; s,x.git,evil.git,' $G/config",
    use: push,
  },
  "a remote where there was none": {
    setup: "git init -q --bare $W/evil.git",
    plant: "git remote add origin $W/evil.git",
    use: push,
  },
  "a remote in a file of its own": {
    setup: "git init -q --bare $W/evil.git",
    plant: 'mkdir -p $G/remotes; printf "URL: $W/evil.git\\n" > $G/remotes/origin',
    use: push,
  },
  "a remote as a branch's file": {
    setup: "git init -q --bare $W/evil.git",
    plant: 'mkdir -p $G/branches; echo "$W/evil.git" > $G/branches/origin',
    use: push,
  },
  "a remote for pushes": {
    setup: `${origin}; git config push.default current`,
    plant: "git config branch.main.pushRemote $W/evil.git",
    use: `git push -q; git -C $W/evil.git rev-parse -q --verify refs/heads/main && touch $M`,
  },
  "a lock on pushes, taken away": {
    setup: `${origin}; git config remote.origin.url $W/evil.git; git config remote.origin.pushurl no-pushes`,
    plant: "git config --unset remote.origin.pushurl",
    use: push,
  },
  "the program that serves a fetch": {
    setup: origin,
    plant: "git config remote.origin.uploadpack 'touch $M; git-upload-pack'",
    use: "git fetch -q",
  },
  "the program that takes a push": {
    setup: origin,
    plant: "git config remote.origin.receivepack 'touch $M; git-receive-pack'",
    use: "git push -q origin HEAD:secret",
  },
  "a repository that is served to everybody": {
    plant: "touch $G/git-daemon-export-ok",
    use: `req="git-upload-pack /project/.git"; { printf '%04x%s\\0host=x\\0' $((\${#req} + 12)) "$req"; printf 0000; } | git daemon --inetd --base-path=$(dirname $P) 2>/dev/null | grep -aq refs/heads/main && touch $M`,
  },
  "programs of the work tree on the PATH of shells": {
    setup: "mkdir bin",
    plant: `mkdir $G/safe; ${script("bin/hello")}`,
    use: "PATH=.git/safe/../../bin:$PATH; hello",
  },
  // Submodules.
  "the configuration of a submodule": { setup: submodule("sub"), plant: inModule("sub") },
  "a hook of a submodule": {
    setup: submodule("sub"),
    plant: script("$G/modules/sub/hooks/post-commit"),
    use: `git -C sub commit -q --allow-empty -m x`,
  },
  "a submodule whose name has two slashes": { setup: submodule("lib/x/y"), plant: inModule("lib/x/y") },
  "a submodule behind a folder that looks like a repository": {
    setup: submodule("lib/x"),
    plant: `: > $G/modules/lib/config; ${inModule("lib/x")}`,
  },
  "a submodule inside a submodule": {
    setup: `${submodule("sub")}; ${submodule("deep", "deep", "sub")}; git commit -q -a -m deeper`,
    plant: inModule("sub/modules/deep"),
  },
  "a submodule while its HEAD is away": {
    setup: submodule("sub"),
    plant: [`mv $G/modules/sub/HEAD $W/HEAD; ${inModule("sub")}`, "mv $W/HEAD $G/modules/sub/HEAD"],
  },
  "a submodule that the index loses for a while": {
    setup: submodule("sub"),
    plant: [
      `git ls-files -s sub > $W/entry; git rm -q --cached sub; ${inModule("sub")}`,
      "git update-index --index-info < $W/entry",
    ],
  },
  "a submodule's .git that names another repository": {
    setup: submodule("sub"),
    plant: `${evilRepository("$W/evil")}; git -C $W/evil config core.worktree $P/sub; echo "gitdir: $W/evil/.git" > sub/.git`,
  },
  "a submodule's .git that names an unknown folder of the repository's own": {
    setup: submodule("sub"),
    plant: `cp -r $G/modules/sub $G/other; git config -f $G/other/config core.worktree ../../sub; git config -f $G/other/config core.fsmonitor '${evil}'; echo "gitdir: ../.git/other" > sub/.git`,
  },
  "a submodule's .git that is a folder now": {
    setup: submodule("sub"),
    plant: `rm -rf sub; ${evilRepository("sub")}`,
  },
  "a submodule whose folder is exchanged for another": {
    setup: submodule("sub"),
    plant: `mv sub old; ${evilRepository("sub")}`,
  },
  "a submodule in a folder that is exchanged for another": {
    setup: submodule("vendor/sub", "vendor/sub"),
    plant: `mv vendor old; mkdir vendor; ${evilRepository("vendor/sub")}`,
  },
  "a repository in the place of a submodule that nobody has fetched": {
    setup: `${submodule("sub")}; git submodule --quiet deinit -f sub`,
    plant: evilRepository("sub"),
  },
  "a Git directory for a submodule that nobody has fetched": {
    setup: `${submodule("sub")}; git submodule --quiet deinit -f sub; rm -rf $G/modules`,
    plant: `mkdir $G/modules; git clone -q --bare $W/in-sub $G/modules/sub; git -C $G/modules/sub config core.bare false; ${script("$G/modules/sub/hooks/post-checkout")}`,
    use: "git -c protocol.file.allow=always submodule --quiet update --init",
  },
  "a submodule that keeps its own folder": {
    setup:
      "git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null; git commit -q -m embedded",
    plant: `git -C sub config core.fsmonitor '${evil}'`,
  },
  "a repository inside that the index is made to link to": {
    plant: `${evilRepository("n")}; git add n`,
  },
  // Linked worktrees.
  "the configuration of a worktree": {
    setup: "git config extensions.worktreeConfig true",
    plant: `git config --worktree core.fsmonitor '${evil}'`,
  },
  "the configuration of a worktree, and that there is one": {
    plant: `git config extensions.worktreeConfig true; git config -f $G/config.worktree core.fsmonitor '${evil}'`,
  },
  "the configuration of a linked worktree": {
    setup: `git config extensions.worktreeConfig true; ${linked}`,
    plant: `git config -f $G/worktrees/linked/config.worktree core.fsmonitor '${evil}'`,
    use: inLinked,
  },
  "the repository of a linked worktree": {
    setup: linked,
    plant: `${evilRepository("$W/evil")}; echo $W/evil/.git > $G/worktrees/linked/commondir`,
    use: inLinked,
  },
  "a linked worktree behind many others": {
    setup: `${linked}; git config extensions.worktreeConfig true`,
    plant: `mkdir $G/worktrees/a-{1..300}; git config -f $G/worktrees/linked/config.worktree core.fsmonitor '${evil}'`,
    use: inLinked,
  },
  "a linked worktree with a name like a Task's": {
    setup: "git config extensions.worktreeConfig true; git worktree add -q $W/task_mine -b side",
    plant: `git config -f $G/worktrees/task_mine/config.worktree core.fsmonitor '${evil}'`,
    use: "git -C $W/task_mine status",
  },
  "a linked worktree's .git that names another repository": {
    setup: linked,
    plant: `${evilRepository("$W/evil")}; echo "gitdir: $W/evil/.git" > $W/linked/.git`,
    use: inLinked,
  },
  "a submodule of a linked worktree": {
    setup: `${submodule("sub")}; ${linked}; git -C $W/linked -c protocol.file.allow=always submodule --quiet update --init`,
    plant: `git config -f $G/worktrees/linked/modules/sub/config core.fsmonitor '${evil}'`,
    use: inLinked,
  },
  // What goes on after a stop.
  "a step of a rebase that was stopped": {
    setup: `${commit}; ${commit}; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i --empty=keep HEAD~2`,
    plant: "echo 'exec touch $M' >> $G/rebase-merge/git-rebase-todo",
    use: "git rebase --continue",
  },
  "a rebase that was never begun": {
    plant:
      "mkdir $G/rebase-merge; cd $G/rebase-merge; git rev-parse HEAD | tee onto > orig-head; echo refs/heads/main > head-name; : > interactive; : > done; echo 'exec touch $M' > git-rebase-todo; echo 1 > msgnum; echo 1 > end",
    use: "git rebase --continue",
  },
};

/** What users do while agents work: no tampering. */
export const ordinary: Readonly<Record<string, { setup?: string; act: string }>> = {
  names: { act: "git config user.name Somebody; git config user.email somebody@example.org" },
  "a branch that tracks": {
    setup: origin,
    act: "git checkout -q -b topic origin/main; git branch -q -u origin/main main",
  },
  "a commit, a tag, a stash": {
    act: "echo x >> a.txt; git commit -q -a -m x; git tag t; echo y >> a.txt; git stash -q",
  },
  "a fetch, a push, a gc": {
    setup: origin,
    act: "git fetch -q; git push -q origin main; git gc -q; git pack-refs --all",
  },
  "a linked worktree, made and removed": {
    setup: linked,
    act: "git worktree add -q $W/two -b two; git worktree remove $W/linked; git worktree prune",
  },
  "a submodule, added and updated": { act: `${submodule("sub")}; git submodule --quiet update --init` },
  "a submodule that is absorbed": {
    setup:
      "git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>/dev/null; git commit -q -m embedded",
    act: "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\turl = ./sub\\n' > .gitmodules; git submodule absorbgitdirs",
  },
  "a submodule that goes": {
    setup: submodule("sub"),
    act: "git submodule --quiet deinit -f sub; git rm -q --cached sub",
  },
  "a rebase, stopped and gone on with": {
    setup: `${commit}; ${commit}; ${commit}`,
    act: "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -q -i --empty=keep HEAD~3",
  },
  "picks that stop at a conflict": {
    setup:
      "git checkout -q -b other; for i in 1 2; do echo o$i > a.txt; git commit -q -a -m o$i; done; git checkout -q main; echo m > a.txt; git commit -q -a -m m",
    act: "git cherry-pick main..other",
  },
  "a sparse checkout": { act: "git sparse-checkout set --cone a; git sparse-checkout disable" },
  "a bisect": { setup: `${commit}; ${commit}`, act: "git bisect start; git bisect bad; git bisect good HEAD~2" },
  "maintenance, advice, colours": {
    act: "git config maintenance.auto false; git config advice.detachedHead false; git config color.ui auto; git config pull.rebase true; git config gc.auto 0; git config core.fsmonitor true; git config --unset core.fsmonitor",
  },
  "a hook that cannot run, and files that are only touched": {
    setup: script("$G/hooks/pre-commit", ":"),
    act: "printf x > $G/hooks/not-executable; chmod -x $G/hooks/pre-commit; touch $G/config; echo '*.log' >> $G/info/exclude; cp $G/config $W/c; cp $W/c $G/config",
  },
  "a branch with other hooks in the work tree": {
    setup: `mkdir .githooks; ${script(".githooks/pre-commit", ":")}; git config core.hooksPath .githooks; git config include.path ../.gitconfig; git config -f .gitconfig alias.st status; git add -A; git commit -q -m hooks; git checkout -q -b other; ${script(".githooks/pre-commit", "true")}; ${script(".githooks/pre-push", ":")}; git config -f .gitconfig alias.ci commit; git add -A; git commit -q -m more; git checkout -q main`,
    act: "git checkout -q other; git checkout -q main; git checkout -q other",
  },
  "a linked worktree of a Task's, as earlier versions made it": {
    act: "mkdir -p $G/worktrees/task_01jbcdefghjkmnpqrstvwxyz00; cd $G/worktrees/task_01jbcdefghjkmnpqrstvwxyz00; echo ../.. > commondir; echo /x/.git > gitdir; cp $G/HEAD .",
  },
};
