import { blob, commitOf, type Entry, idOf, type Made, packed, treeOf } from "./hand-made.ts";
import { type Given, given, type Ids, someCommit, topOf } from "./lab.ts";

/** Trees that no honest git writes. */

export const harmless = blob("harmless\n");
const named = (mode: string, name: string | Buffer) => (ids: Ids) =>
  given(topOf(ids, [[mode, name, idOf(harmless)]]), harmless);
/** A folder `e` with these entries. */
const folderOf = (entries: (ids: Ids) => readonly Entry[]) => (ids: Ids) => {
  const below = treeOf(entries(ids));
  return given(topOf(ids, [["40000", "e", idOf(below)]]), below, harmless);
};
export const asFile = idOf(harmless);

/** A name, what an agent leaves, what the refusal says, and what git without the check shows afterwards. */
export type Shape = readonly [name: string, make: (ids: Ids) => Given, says: RegExp, plain: RegExp];

export const entries: Shape[] = [
  [
    "a repository within",
    (ids) => given(topOf(ids, [["160000", "n", someCommit]])),
    /got mode 160000 at "n"/,
    /160000 commit \w+\tn\n/,
  ],
  [
    "a submodule moved",
    (ids) => given(topOf(ids, [["160000", "sub", ids.commit]], ["sub"])),
    /got mode 160000 at "sub"/,
    /160000 commit \w+\tsub/,
  ],
  [
    "a submodule taken away",
    (ids) => given(topOf(ids, [], ["sub"])),
    /submodules to stay as they are, got a change at "sub"/,
    /^(?![^]*\tsub\n)[^]*\ta\.txt\n/,
  ],
  ["a mode that git never writes", named("100666", "m"), /badFilemode/, /badFilemode/],
  [
    "the mode of a device, which git reads as a submodule",
    named("60644", "m"),
    /badFilemode|mode 160000/,
    /160000 commit \w+\tm\n/,
  ],
  ["the mode of a socket", named("140755", "m"), /badFilemode|mode 160000/, /160000 commit \w+\tm\n/],
  [
    "a mode with a zero before it",
    (ids) => given(topOf(ids, [["040000", "e", ids.d]])),
    /zeroPaddedFilemode/,
    /zeroPaddedFilemode/,
  ],
  [
    "a mode that is no number",
    (ids) => given(topOf(ids, [["abc", "m", ids.a]])),
    /bad|corrupt|malformed/i,
    /bad|malformed|broken/i,
  ],
  [".git", named("100644", ".git"), /hasDotgit/, /\t\.git\n/],
  [".GIT, where case does not count", named("100644", ".GIT"), /hasDotgit/, /\t\.GIT\n/],
  ["git~1, the short name of NTFS", named("100644", "git~1"), /hasDotgit/, /\tgit~1\n/],
  [".git with a stream of NTFS", named("100644", ".git::$INDEX_ALLOCATION"), /hasDotgit/, /INDEX_ALLOCATION/],
  [".git with blanks and dots that NTFS drops", named("100644", ".git . ."), /hasDotgit/, /\t\.git \. \.\n/],
  [".git with a character that HFS+ drops", named("100644", ".g\u200cit"), /hasDotgit/, /\\342\\200\\214|\u200c/],
  ["a folder .git", (ids) => given(topOf(ids, [["40000", ".git", ids.d]])), /hasDotgit/, /\t\.git\/f\.txt\n/],
  ["..", named("100644", ".."), /hasDotdot/, /\t\.\.\n/],
  ["a folder ..", (ids) => given(topOf(ids, [["40000", "..", ids.d]])), /hasDotdot/, /\t\.\.\/f\.txt\n/],
  [".", named("100644", "."), /hasDot/, /\t\.\n/],
  ["a name with a slash", named("100644", "d/../../x"), /fullPathname/, /\td\/\.\.\/\.\.\/x\n/],
  ["a name from the root", named("100644", "/etc/x"), /fullPathname/, /\t\/etc\/x\n/],
  [
    "a name without a letter",
    named("100644", ""),
    /emptyName|empty filename|malformed|too-short/i,
    /emptyName|empty filename|malformed/i,
  ],
  [
    "a name twice",
    folderOf(() => [
      ["100644", "x", asFile],
      ["100644", "x", asFile],
    ]),
    /duplicateEntries/,
    /duplicateEntries/,
  ],
  [
    "a file and a folder of one name",
    folderOf((ids) => [
      ["100644", "x", asFile],
      ["100644", "x.y", asFile],
      ["40000", "x", ids.d],
    ]),
    /duplicateEntries/,
    /duplicateEntries/,
  ],
  [
    "entries out of order",
    folderOf(() => [
      ["100644", "y", asFile],
      ["100644", "x", asFile],
    ]),
    /treeNotSorted/,
    /treeNotSorted/,
  ],
  [
    "a folder sorted as a file",
    folderOf((ids) => [
      ["40000", "x", ids.d],
      ["100644", "x-", asFile],
    ]),
    /treeNotSorted/,
    /treeNotSorted/,
  ],
  [
    "a file that is said to be a folder",
    folderOf(() => [["40000", "x", asFile]]),
    /type mismatch|not a tree|unexpected type|broken/i,
    /not a tree|tree|error/,
  ],
  [
    "a folder that is said to be a file",
    folderOf((ids) => [["100644", "x", ids.d]]),
    /mismatch|unexpected type|not a blob|broken/i,
    /not a blob|tree/,
  ],
  [
    "a commit that is said to be a file",
    folderOf((ids) => [["100644", "x", ids.commit]]),
    /mismatch|unexpected type|not a blob|broken/i,
    /not a blob|commit/,
  ],
  [
    "a file whose bytes are nowhere",
    folderOf(() => [["100644", "x", idOf(blob("nowhere"))]]),
    /unexpected type|missing|broken|bad/i,
    /missing blob/,
  ],
  [
    "a folder that is nowhere",
    folderOf(({ a }) => [["40000", "x", idOf(treeOf([["100644", "nowhere", a]]))]]),
    /unexpected type|missing|broken|bad/i,
    /missing tree/,
  ],
  [
    "the id of nothing",
    folderOf(() => [["100644", "x", "0".repeat(40)]]),
    /nullSha1|unexpected type|null/i,
    /nullSha1|0{40}/,
  ],
  [
    "a .gitmodules that is a link",
    (ids) => given(topOf(ids, [["120000", ".gitmodules", asFile]], [".gitmodules"]), harmless),
    /gitmodulesSymlink/,
    /120000 blob \w+\t\.gitmodules/,
  ],
  [
    "a .gitmodules with an option for an address",
    (ids) => {
      const evil = blob('[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch pwned\n');
      return given(topOf(ids, [["100644", ".gitmodules", idOf(evil)]], [".gitmodules"]), evil);
    },
    /gitmodulesUrl/,
    /gitmodulesUrl/,
  ],
  [
    "a .gitmodules whose name leads up",
    (ids) => {
      const evil = blob('[submodule "../../x"]\n\tpath = x\n\turl = ../x\n');
      return given(topOf(ids, [["100644", ".gitmodules", idOf(evil)]], [".gitmodules"]), evil);
    },
    /gitmodulesName/,
    /gitmodulesName/,
  ],
  [
    "a tree that ends in an entry",
    (ids) => {
      const short: Made = {
        type: "tree",
        body: Buffer.concat([treeOf([["100644", "x", ids.a]]).body, Buffer.from("100644 y\0abc")]),
      };
      return given(topOf(ids, [["40000", "e", idOf(short)]]), short);
    },
    /too-short|badTree|cannot be parsed/,
    /too-short|badTree|cannot be parsed|broken/,
  ],
];

export const settings: Shape[] = [
  [
    "a file below .sortie changed",
    (ids) => {
      const own = treeOf([["100644", "permissions.jsonc", asFile]]);
      return given(topOf(ids, [["40000", ".sortie", idOf(own)]], [".sortie"]), own, harmless);
    },
    /no change below \.sortie/,
    new RegExp(`${asFile}\t\\.sortie/permissions\\.jsonc`),
  ],
  [
    "the folder .sortie taken away",
    (ids) => given(topOf(ids, [], [".sortie"])),
    /no change below \.sortie/,
    /^(?![^]*\t\.sortie)[^]*\ta\.txt\n/,
  ],
  // Found as a rename: what went is named before what came.
  [
    "a file of .sortie moved out of it",
    (ids) => given(topOf(ids, [["40000", "elsewhere", ids.sortie]], [".sortie"])),
    /no change below \.sortie, got one at "\.sortie/,
    /\telsewhere\/permissions\.jsonc/,
  ],
  [
    "a file moved into .sortie",
    (ids) => {
      const own = treeOf([
        ["100644", "permissions.jsonc", idOf(blob("{}\n"))],
        ["100644", "x", ids.a],
      ]);
      return given(topOf(ids, [["40000", ".sortie", idOf(own)]], [".sortie", "a.txt"]), own);
    },
    /no change below \.sortie, got one at "\.sortie\/x/,
    /\t\.sortie\/x\n/,
  ],
  [
    "a .sortie where case does not count",
    (ids) => given(topOf(ids, [["40000", ".SORTIE", ids.d]])),
    /no change below \.sortie/,
    /\t\.SORTIE\//,
  ],
  [
    "a .sortie of a folder",
    folderOf((ids) => [["40000", ".sortie", ids.d]]),
    /no change below \.sortie/,
    /\te\/\.sortie\//,
  ],
  [
    "a .sortie below a name with a line feed",
    (ids) => {
      const below = treeOf([["40000", ".sortie", ids.d]]);
      return given(topOf(ids, [["40000", "line\nfeed", idOf(below)]], ["line\nfeed"]), below);
    },
    /no change below \.sortie/,
    /feed\/\.sortie\//,
  ],
  [
    "a link in the place of .sortie",
    (ids) => given(topOf(ids, [["120000", ".sortie", asFile]], [".sortie"]), harmless),
    /no change below \.sortie/,
    /120000 blob \w+\t\.sortie\n/,
  ],
];

/** What is no tree: git takes a commit or a tag for the tree that it leads to, and a commit with it is broken. */
export const kindsOfTree: Shape[] = [
  [
    "the project's commit",
    ({ commit }) => ({ tree: commit, pack: packed() }),
    /Expected a tree at \w+, got a commit/,
    /is a commit, not a tree|bad tree|could not be parsed/,
  ],
  [
    "the project's tag",
    ({ tag }) => ({ tree: tag, pack: packed() }),
    /Expected a tree at \w+, got a tag/,
    /is a tag, not a tree|bad tree|could not be parsed/,
  ],
  [
    "the project's file",
    ({ a }) => ({ tree: a, pack: packed() }),
    /Expected a tree at \w+, got a blob/,
    /is a blob, not a tree|bad tree|could not be parsed/,
  ],
  [
    "a commit of its own",
    ({ tree, commit }) => {
      const made = commitOf(tree, [commit]);
      return { tree: idOf(made), pack: packed(made) };
    },
    /Expected a tree at \w+, got a commit/,
    /is a commit, not a tree|bad tree|could not be parsed/,
  ],
  [
    "a file of its own",
    () => ({ tree: asFile, pack: packed(harmless) }),
    /Expected a tree at \w+, got a blob/,
    /is a blob, not a tree|bad tree|could not be parsed/,
  ],
  [
    "nothing",
    () => ({ tree: someCommit, pack: packed() }),
    /could not get object info|Not a valid object/,
    /missing tree|bad tree|could not/,
  ],
];
