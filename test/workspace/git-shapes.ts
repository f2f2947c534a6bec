/**
 * Shapes of a tree and of its Git directory that a command can leave for the service's git, one mechanism each. `G` is
 * the Git directory, the working directory is the tree: `a.txt`, `sub/dir/b.txt`, `run.sh`, and a second commit behind
 * HEAD. Afterwards the honest change `more.txt` is made.
 */
/** Plain git waits for as long as it is let: files that it opens and nobody writes. */
const waiting: Record<string, string> = {
  "a FIFO for a loose object":
    'o=$(git rev-parse HEAD:a.txt); mkdir -p "$G/objects/${o:0:2}"; rm -f "$G/objects/${o:0:2}/${o:2}"; mkfifo "$G/objects/${o:0:2}/${o:2}"; echo y > a.txt',
  "a FIFO for attributes": "mkfifo .gitattributes",
  "a FIFO for attributes at depth": "echo x >> sub/dir/b.txt; mkfifo sub/dir/.gitattributes",
  "a FIFO for ignore patterns at depth": "mkfifo sub/.gitignore; echo x > sub/new",
  "a FIFO for the index": 'rm "$G/index"; mkfifo "$G/index"',
  "a FIFO for the part of an index":
    'git update-index --split-index; for s in "$G"/sharedindex.*; do rm "$s"; mkfifo "$s"; done',
  "a FIFO for HEAD": 'rm "$G/HEAD"; mkfifo "$G/HEAD"',
  "a FIFO for packed refs": 'rm -f "$G/packed-refs"; mkfifo "$G/packed-refs"',
  "a FIFO for a branch":
    'b=$(git symbolic-ref -q HEAD || echo refs/heads/x); mkdir -p "$G/$(dirname $b)"; rm -f "$G/$b"; mkfifo "$G/$b"; echo "ref: $b" > "$G/HEAD"',
  "a FIFO for private ignore patterns": 'mkdir -p "$G/info"; rm -f "$G/info/exclude"; mkfifo "$G/info/exclude"',
  "a FIFO for private attributes": 'mkdir -p "$G/info"; rm -f "$G/info/attributes"; mkfifo "$G/info/attributes"',
  "a FIFO for sparse patterns":
    'mkdir -p "$G/info"; git config core.sparseCheckout true; mkfifo "$G/info/sparse-checkout"',
  "a FIFO for the shallow border": 'rm -f "$G/shallow"; mkfifo "$G/shallow"',
  "a FIFO for the index of a pack":
    'mkdir -p "$G/objects/pack"; n=pack-$(printf %040d 1); : > "$G/objects/pack/$n.pack"; mkfifo "$G/objects/pack/$n.idx"',
  "a FIFO for the index of all packs": 'mkdir -p "$G/objects/pack"; mkfifo "$G/objects/pack/multi-pack-index"',
  "a FIFO for the graph of commits": 'mkdir -p "$G/objects/info"; mkfifo "$G/objects/info/commit-graph"',
  "a FIFO for the common folder": 'mkfifo "$G/commondir"',
  "a FIFO for settings of the worktree": 'git config extensions.worktreeConfig true; mkfifo "$G/config.worktree"',
  "a FIFO for replaced objects": 'mkdir -p "$G/refs/replace"; mkfifo "$G/refs/replace/$(git rev-parse HEAD)"',
  "a FIFO for HEAD of a nested repository": "git init -q nested; rm nested/.git/HEAD; mkfifo nested/.git/HEAD",
};

/** Plain git fails, or finds no repository any more. */
const failing: Record<string, string> = {
  "a FIFO for a file": "rm a.txt; mkfifo a.txt",
  "an index cut short": 'head -c 40 "$G/index" > i; mv i "$G/index"',
  "an empty index": ': > "$G/index"',
  "a folder for the index": 'rm "$G/index"; mkdir "$G/index"',
  "an index without its shared part": 'git update-index --split-index; rm "$G"/sharedindex.*',
  "an index with an unknown part that it needs": `perl -MDigest::SHA=sha1 -e 'local $/; open F, "<", $ARGV[0]; $_ = <F>; $_ = substr($_, 0, -20) . "zzzz" . pack("N", 4) . "abcd"; open F, ">", $ARGV[0]; print F $_, sha1($_)' "$G/index"`,
  "a lock that nobody holds": ': > "$G/index.lock"',
  "locks for everything":
    ': > "$G/index.lock"; : > "$G/HEAD.lock"; : > "$G/packed-refs.lock"; : > "$G/config.lock"; : > "$G/shallow.lock"',
  "a HEAD that is no commit": 'echo nonsense > "$G/HEAD"',
  "no HEAD": 'rm "$G/HEAD"',
  "a folder for HEAD": 'rm "$G/HEAD"; mkdir "$G/HEAD"',
  "a HEAD that names a file outside": 'echo "ref: refs/../../../outside" > "$G/HEAD"',
  "a HEAD that goes round":
    'mkdir -p "$G/refs/heads"; echo "ref: refs/heads/y" > "$G/refs/heads/x"; echo "ref: refs/heads/x" > "$G/refs/heads/y"; echo "ref: refs/heads/x" > "$G/HEAD"',
  "a HEAD that is a link": 'rm "$G/HEAD"; ln -s /etc/passwd "$G/HEAD"',
  "no refs": 'rm -rf "$G/refs"',
  "a file for the refs": 'rm -rf "$G/refs"; : > "$G/refs"',
  "packed refs that are none": 'echo "no refs here" > "$G/packed-refs"',
  "a sparse tree": 'git sparse-checkout set --no-cone "/a.txt"',
  "a file in UTF-16 that is not": 'echo "*.u working-tree-encoding=UTF-16" > .gitattributes; printf "abc" > x.u',
  "a file of a hundred gigabytes, in holes": "truncate -s 100G huge",
  "a repository without commits in the tree": "git init -q nested; echo x > nested/f",
  "a link for the list of submodules": "ln -s a.txt .gitmodules",
};

/** Plain git runs a program that the tree brings. */
const running: Record<string, string> = {
  "a hook":
    'mkdir -p "$G/hooks"; printf "#!/bin/sh\\ntouch $MARK\\n" > "$G/hooks/pre-commit"; chmod +x "$G/hooks/pre-commit"; cp "$G/hooks/pre-commit" "$G/hooks/post-index-change"; cp "$G/hooks/pre-commit" "$G/hooks/reference-transaction"',
};

/** Plain git commits something else than what the tree has, or what no repository should hold. */
const differing: Record<string, string> = {
  "a rebase under way":
    "git checkout -q -b side HEAD~1; echo other > a.txt; git commit -qam side; git rebase -q HEAD@{2}; true",
  "an index that names a path above": `perl -MDigest::SHA=sha1 -e 'local $/; open F, "<", $ARGV[0]; $_ = substr(<F>, 0, -20); s|sub/dir/b.txt|../dir/b.txt|; open F, ">", $ARGV[0]; print F $_, sha1($_)' "$G/index"`,
  "an index that names its own folder": `perl -MDigest::SHA=sha1 -e 'local $/; open F, "<", $ARGV[0]; $_ = substr(<F>, 0, -20); s|sub/dir/b.txt|.git/hook.txt|; open F, ">", $ARGV[0]; print F $_, sha1($_)' "$G/index"`,
  "a file said to be unchanged": "git update-index --assume-unchanged a.txt; echo changed > a.txt",
  "a file said not to be wanted": "git update-index --skip-worktree a.txt; echo changed > a.txt",
  "a branch without commits": "git checkout -q --orphan fresh",
  "another commit to stand on": "git checkout -q --detach HEAD~1 2>/dev/null || git checkout -q --orphan none",
  "commits of its own": "echo own > own.txt; git add own.txt; git commit -qm own; git commit -q --amend -m again",
  "the last commit taken back": "git reset -q --soft HEAD~1",
  "a merge under way":
    "git checkout -q -b side HEAD~1; echo other > a.txt; git commit -qam side; git checkout -q -; git merge -q side; true",
  "another common folder": 'mkdir common; cp -r "$G/." common 2>/dev/null; echo "$PWD/common" > "$G/commondir"',
  "a commit in another's place": "git replace HEAD HEAD~1",
  "a file nobody may read": "echo x > secret.txt; chmod 0 secret.txt",
  "a repository in the tree":
    "git init -q nested; (cd nested; echo x > f; git add f; git -c user.name=x -c user.email=x@x commit -qm x)",
  "a bare repository in the tree": "git init -q --bare bare.git",
  "a .git that names another": 'mkdir named; echo "gitdir: $G" > named/.git; echo x > named/f',
  "a submodule":
    "git init -q /tmp/from$$; (cd /tmp/from$$; git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x); git -c protocol.file.allow=always submodule --quiet add /tmp/from$$ module; rm -rf /tmp/from$$",
  "a submodule whose address is an option":
    'printf "[submodule \\"x\\"]\\n\\tpath = x\\n\\turl = --upload-pack=touch\\n" > .gitmodules',
  "a submodule whose name climbs":
    'printf "[submodule \\"../../x\\"]\\n\\tpath = x\\n\\turl = https://example.org/\\n" > .gitmodules',
};

/** Plain git takes the honest change, and so must the service. */
const harmless: Record<string, string> = {
  "a link to a device for attributes": "ln -s /dev/zero .gitattributes",
  "a link to a device for ignore patterns": "ln -s /dev/zero sub/.gitignore",
  "an index with a wrong sum": `perl -e 'open F, "+<", $ARGV[0]; seek F, -1, 2; read F, $b, 1; seek F, -1, 2; print F chr(ord($b) ^ 255)' "$G/index"`,
  "a conflict that is not resolved":
    'for s in 1 2 3; do printf "100644 %s %s\\ta.txt\\n" $(git rev-parse HEAD:a.txt) $s; done | { git rm -q --cached a.txt; git update-index --index-info; }',
  "a file that is only meant to be added": "echo later > later.txt; git add -N later.txt",
  "a file marked as looked at by a watcher":
    "git update-index --force-write-index --fsmonitor-valid a.txt; echo changed > a.txt",
  "a cache of what is untracked":
    "git update-index --untracked-cache; git status --porcelain; echo hidden > sub/hidden.txt",
  "an object that is not there":
    "git update-index --add --cacheinfo 100644,1234567890123456789012345678901234567890,gone.txt",
  "a commit of elsewhere as a submodule":
    "git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,module",
  "a mode that there is not": `git update-index --add --cacheinfo 100664,$(git rev-parse HEAD:a.txt),odd.txt`,
  "a bisection under way": "git bisect start -q HEAD HEAD~1",
  "changes that were put aside": "echo stashed > a.txt; git stash -q",
  "five thousand branches":
    'h=$(git rev-parse HEAD); mkdir -p "$G/refs/heads/many"; for i in $(seq 5000); do echo $h > "$G/refs/heads/many/$i"; done',
  "another place for the tree": 'echo /etc > "$G/gitdir"',
  "objects from elsewhere": 'mkdir -p "$G/objects/info"; echo /nowhere >> "$G/objects/info/alternates"',
  "an object that is not what its name says":
    'o=$(git rev-parse HEAD:a.txt); mkdir -p "$G/objects/${o:0:2}"; chmod u+w "$G/objects/${o:0:2}/${o:2}" 2>/dev/null; printf "blob 2\\0X\\n" | perl -MCompress::Zlib -e "local \\$/; print compress(<STDIN>)" > "$G/objects/${o:0:2}/${o:2}"; touch a.txt',
  "a pack that is none":
    'mkdir -p "$G/objects/pack"; n=pack-$(printf %040d 2); echo PACK > "$G/objects/pack/$n.pack"; echo idx > "$G/objects/pack/$n.idx"',
  "a file in another's place": "git replace $(git rev-parse HEAD:a.txt) $(echo replaced | git hash-object -w --stdin)",
  "parents by graft": 'mkdir -p "$G/info"; git rev-parse HEAD > "$G/info/grafts"',
  "a history cut short": 'git rev-parse HEAD > "$G/shallow"',
  "attributes of fifty thousand lines": `yes "*.x -text" | head -n 50000 > .gitattributes`,
  "ends of lines, converted": 'echo "* text eol=crlf" > .gitattributes; printf "a\\r\\nb\\r\\n" > lines.txt',
  keywords: 'echo "* ident" > .gitattributes; echo "\\$Id: wrong \\$" > keyword.txt',
  "all ignored but for one file": 'printf "*\\n!more.txt\\n" > .gitignore',
  "a hundred folders deep": 'd=; for i in $(seq 100); do d=${d}d/; done; mkdir -p "$d"; echo x > "$d/x"',
  "a name of any bytes": "printf x > $'new\\nline'; printf x > $'\\xff\\xfe'; printf x > ' -x '; printf x > 'q\"\\'",
  "a name as long as may be": "printf x > $(printf 'n%.0s' $(seq 255))",
  "a link as long as may be": "ln -s $(printf 'n%.0s' $(seq 4000)) long",
  "links that go round": "ln -s y x; ln -s x y; ln -s . self",
  "a socket": "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => \"sock\", Listen => 1)'",
  "names beside a file": "ln a.txt other.txt; echo through > other.txt",
  "a folder that differs in case": "mkdir SUB; echo x > SUB/x; echo y > A.TXT",
};

/** What plain git does with each: the control. */
export const shapes = [
  { plain: "waits", group: waiting },
  { plain: "fails", group: failing },
  { plain: "runs", group: running },
  { plain: "differs", group: differing },
  { plain: "takes", group: harmless },
].flatMap(({ plain, group }) => Object.entries(group).map(([name, script]) => ({ name, script, plain })));
