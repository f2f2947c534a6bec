import type { Git } from "../../workspace/git/git.ts";
import type { Unfilled } from "../repository.ts";
import { type Difference, differencesOf, type Entry, type IndexFile, openIndex } from "./index-file.ts";

/**
 * Undoes `fill.ts`: makes the commit that the remote should get, with the names of submodules and large files again.
 */

/**
 * `base`: the filled commit that the work began from; `of`: the remote's own commit. If the work changed something that
 * was filled in, resolves to the paths instead, each with the reason.
 */
export const restorePointers = async (
  git: Git,
  { commit, base, of, folder }: { commit: string; base: string; of: string; folder: string },
  signal: AbortSignal,
): Promise<Unfilled> => {
  const filled = await differencesOf(git, of, base);
  const linked = filled.filter(({ from }) => from?.mode === "160000");
  const large = filled.filter(({ from, to }) => from !== null && to !== null && from.mode !== "160000");
  const changed = await differencesOf(git, base, commit);
  const inLink = changed.flatMap(({ path }) => {
    const link = linked.find((each) => path === each.path || path.startsWith(`${each.path}/`));
    return link === undefined ? [] : [{ path, why: `a file of the submodule ${link.path}, a repository of its own` }];
  });
  using index = await openIndex(git, commit, folder, signal);
  const { entries, refused } = await pointersAgain(index, large, changed);
  const all = [...inLink, ...refused];
  if (all.length > 0) return { refused: all };
  // The files in a submodule's place are removed before its name is added.
  const files = filled.filter(
    ({ from, path }) => from === null && linked.some((each) => path.startsWith(`${each.path}/`)),
  );
  await index.set(files.map(({ path }) => ({ path, mode: "0", object: null })));
  await index.set([...linked.flatMap(({ path, from }) => (from === null ? [] : [{ path, ...from }])), ...entries]);
  return { commit: await onParent(git, commit, await index.write(), of) };
};

const pointersAgain = async (
  index: IndexFile,
  large: readonly Difference[],
  changed: readonly Difference[],
): Promise<{ entries: Entry[]; refused: { path: string; why: string }[] }> => {
  const byPath = new Map(changed.map((each) => [each.path, each]));
  /** The pointers, by the object id of their content. */
  const pointers = new Map(large.map(({ from, to }) => [to?.object ?? "", from?.object ?? ""]));
  const kept = large.filter(({ path }) => !byPath.has(path));
  const added = changed.filter(({ to }) => to !== null && to.mode.startsWith("100"));
  const named = await index.large([...kept, ...added].map(({ path }) => path));
  const refused: { path: string; why: string }[] = [];
  const entries: Entry[] = [];
  for (const { path, from } of kept) {
    if (!named.has(path)) refused.push({ path, why: "it would leave Git LFS" });
    else if (from !== null) entries.push({ path, ...from });
  }
  for (const { path, to } of added) {
    const pointer = pointers.get(to?.object ?? "");
    if (!named.has(path)) continue;
    if (to === null || pointer === undefined)
      refused.push({ path, why: "a Git LFS file, and nothing is uploaded to Git LFS" });
    // The file was moved, or got another mode.
    else entries.push({ path, mode: to.mode, object: pointer });
  }
  return { entries, refused };
};

/** Makes the same commit with another tree and parent. */
const onParent = async (git: Git, commit: string, tree: string, parent: string): Promise<string> => {
  const raw = (await git.run(["cat-file", "commit", commit])).stdout;
  const end = raw.indexOf("\n\n");
  const lines = raw.toString("latin1", 0, end).split("\n");
  const rest = lines.filter((line) => !/^(tree|parent) /.test(line));
  const head = [`tree ${tree}`, `parent ${parent}`, ...rest].join("\n");
  const input = Buffer.concat([Buffer.from(head, "latin1"), raw.subarray(end)]);
  const made = await git.run(["hash-object", "-t", "commit", "-w", "--stdin"], { input });
  return made.stdout.toString("latin1").trim();
};
