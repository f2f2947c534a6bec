/** Finds the files that a project marks as generated, with `linguist-generated` in its `.gitattributes`. */

/** `folder`: the folder of the `.gitattributes` file; "": the project's top. */
export type AttributeFile = { folder: string; text: string };

const attribute = "linguist-generated";

/** A predicate on paths. As in Git, the last matching line counts, and deeper files override outer ones. */
export const generatedBy = (files: readonly AttributeFile[]): ((path: string) => boolean) => {
  const rules = files
    .toSorted((a, b) => a.folder.length - b.folder.length)
    .flatMap(({ folder, text }) => text.split("\n").flatMap((line) => ruleOf(folder, line)));
  return (path) => rules.findLast(({ matches }) => matches(path))?.generated ?? false;
};

const ruleOf = (folder: string, line: string): { matches: (path: string) => boolean; generated: boolean }[] => {
  const [pattern = "", ...words] = line
    .trim()
    .split(/\s+/)
    .filter((word) => word !== "");
  if (pattern === "" || pattern.startsWith("#") || pattern.endsWith("/")) return [];
  const said = words.findLast((word) => word.replace(/^[-!]/, "").split("=")[0] === attribute);
  if (said === undefined) return [];
  const generated = said === attribute || said === `${attribute}=true` || said === `${attribute}=1`;
  const plain = pattern.replace(/^\//, "");
  const anchored = pattern.includes("/");
  const inside = folder === "" ? "" : `${folder}/`;
  const matches = (path: string): boolean => {
    if (!path.startsWith(inside)) return false;
    const own = path.slice(inside.length);
    return isLike(plain, anchored ? own : own.slice(own.lastIndexOf("/") + 1));
  };
  return [{ matches, generated }];
};

/** Matches wildcards in quadratic time at most: `*` and `?` within a folder, `**` across folders. */
const isLike = (pattern: string, path: string): boolean => {
  const parts = pattern.split(/(\*\*\/?|\*|\?)/).flatMap((part) => (isWild(part) ? [part] : part.split("")));
  /** The positions in the path at which the pattern read so far may end. */
  let ends = new Set([0]);
  for (const part of parts) {
    const next = new Set<number>();
    for (const at of ends) {
      if (part === "**/") {
        next.add(at);
        for (let to = path.indexOf("/", at); to >= 0; to = path.indexOf("/", to + 1)) next.add(to + 1);
      } else if (part === "**" || part === "*") {
        const slash = path.indexOf("/", at);
        const most = part === "**" || slash < 0 ? path.length : slash;
        for (let to = at; to <= most; to += 1) next.add(to);
      } else if (part === "?" ? at < path.length && path[at] !== "/" : path[at] === part) next.add(at + 1);
    }
    ends = next;
  }
  return ends.has(path.length);
};

const isWild = (part: string): boolean => part === "**/" || part === "**" || part === "*" || part === "?";
