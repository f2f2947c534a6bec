/** Which programs can leave something behind on the disk, so that it matters how far they have come. */

/** Git's commands that take no lock and write nothing. */
const reads = new Set(
  "cat-file check-attr check-ignore diff-tree for-each-ref ls-files ls-tree merge-base rev-list rev-parse show-ref var version".split(
    " ",
  ),
);

/** Its options that take the next word. */
const withValue = new Set(["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"]);

/** The command among git's arguments. */
export const gitCommandOf = (args: readonly string[]): string => {
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? "";
    if (withValue.has(word)) at += 1;
    else if (!word.startsWith("-")) return word;
  }
  return "";
};

export const onlyReads = (file: string, args: readonly string[]): boolean =>
  file.split("/").at(-1) === "git" && reads.has(gitCommandOf(args));
