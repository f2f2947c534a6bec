import { globProblem, normal, pathProblem } from "./path.ts";
import { nameProblem, sinceProblem, versionProblem } from "./argument.ts";

/**
 * The instructions that the built-in model understands, in one table: how each is written, recognised and interpreted.
 * docs/rules.md shows the forms in `says`.
 */

/** What can be run, as a request names it. */
export type Runnable = "tests" | "checks" | "build" | "lint" | "typecheck";
export type Fixable = "lint" | "format";
type Listing = "todos" | "licences" | "links" | "log" | "changelog" | "digest";

export type Bump = { kind: "bump"; name: string; version: string; folder: string | undefined };
/** `of`: the subject, which is a commit or date for `log` and `changelog`, and a path for `digest`. */
export type Inventory = { kind: "inventory"; what: Listing; of: string | undefined; into: string | undefined };

/** `said`: the text of the request, for reports. */
export type Instruction = { said: string } & (
  | { kind: "run"; what: Runnable }
  | { kind: "apply"; patch: string; paths: string[] }
  | { kind: "write"; path: string; content: string }
  | { kind: "replace"; old: string; new: string; glob: string | undefined }
  | { kind: "move"; from: string; to: string }
  | { kind: "delete"; path: string }
  | Bump
  | { kind: "fix"; what: Fixable }
  | { kind: "codemod"; name: string }
  | Inventory
);

type Meaning = { instruction: Unsaid } | { attached: string | undefined } | { why: string };
type Unsaid = Instruction extends infer I ? (I extends { said: string } ? Omit<I, "said"> : never) : never;
type Clause = { length: number } & ({ instruction: Instruction } | { attached: string | undefined } | { why: string });

// ---- pieces --------------------------------------------------------------------------------------------------------

const quoted = /"([^"]*)"|'([^']*)'|`([^`]*)`/.source;
const word = /([^\s"'`,;]+)/.source;
const argument = `(?:${quoted}|${word})`;
const end = /(?=$|[\s,;.!])/.source;
const into = `(?:\\s+into\\s+${argument})?`;

/** One argument of a match: quoted text unchanged, a bare word without its sentence's full stop (length: `spare`). */
const argumentOf = (match: RegExpExecArray, at: number): { value: string; spare: number } => {
  const text = match[at] ?? match[at + 1] ?? match[at + 2];
  if (text !== undefined) return { value: text, spare: 0 };
  const plain = match[at + 3] ?? "";
  // ".." is a path, not the end of a sentence.
  const bare = plain.replace(/(?<![.!])[.!]+$/, "");
  const isPlace = plain.startsWith("..", bare.length) && (bare === "" || bare.endsWith("/"));
  const value = isPlace ? plain : bare;
  return { value, spare: plain.length - value.length };
};

const optional = (match: RegExpExecArray, at: number) =>
  match.slice(at, at + 4).some((part) => part !== undefined) ? argumentOf(match, at) : undefined;

// ---- the table -----------------------------------------------------------------------------------------------------

const runnable = /(tests?|checks?|build|lint|type-?check)/.source;
const report = /(?:[\s,]+(?:and|then)\s+report(?=$|[\s,;.!]))?/.source;
/** Follows a `run`, as in "run lint and the tests". */
const runMore = new RegExp(`^(?:the\\s+)?${runnable}${end}${report}`, "i");

const runnables: Record<string, Runnable> = {
  test: "tests",
  check: "checks",
  build: "build",
  lint: "lint",
  typecheck: "typecheck",
};

const running = (what: string): Meaning => ({
  instruction: { kind: "run", what: runnables[what.toLowerCase().replace("-", "").replace(/s$/, "")] ?? "tests" },
});

/** `last`: the argument that may end with the full stop of the sentence. */
type Read = (match: RegExpExecArray) => Meaning & { last?: { spare: number } | undefined };
type Form = { says: string; pattern: RegExp; read: Read };

const listing =
  (
    what: Listing,
    of: number | undefined,
    at: number,
    problem: (of: string) => string | undefined = () => undefined,
  ): Read =>
  (match) => {
    const about = of === undefined ? undefined : argumentOf(match, of);
    const path = optional(match, at);
    const odd = path !== undefined && !/\.(md|markdown)$/i.test(path.value);
    const why =
      (about === undefined ? undefined : problem(about.value)) ??
      (path === undefined ? undefined : pathProblem(path.value)) ??
      (odd ? `expected a Markdown file (*.md), got "${path.value}"` : undefined);
    if (why !== undefined) return { why };
    const value = what === "digest" && about !== undefined ? normal(about.value) : about?.value;
    const target = path === undefined ? undefined : normal(path.value);
    return { instruction: { kind: "inventory", what, of: value, into: target }, last: path ?? about };
  };

/** Requires the name of a log; only the form with `log` accepts any file. */
const logProblem = (path: string): string | undefined =>
  /\.(?:log|out|err|jsonl|ndjson)(?:\.\d+)?$/i.test(path)
    ? pathProblem(path)
    : `rules summarise log files (*.log); for another name say \`summarise log PATH\`, got "${path}"`;

export const forms: readonly Form[] = [
  {
    says: "run the tests | checks | build | lint | typecheck [and report]",
    pattern: new RegExp(`^run\\s+(?:the\\s+)?${runnable}${end}${report}`, "i"),
    read: (match) => running(match[1] ?? ""),
  },
  {
    says: 'replace "A" with "B" [in GLOB]',
    pattern: new RegExp(`^replace\\s+(?:${quoted})\\s+with\\s+(?:${quoted})(?:\\s+in\\s+${argument})?`, "i"),
    read(match) {
      const [a, b, c, d, e, f] = match.slice(1);
      const [old, fresh] = [a ?? b ?? c ?? "", d ?? e ?? f ?? ""];
      const glob = optional(match, 7);
      if (old === "") return { why: "there is no text to replace" };
      if (old === fresh) return { why: "both texts are the same" };
      const why = glob === undefined ? undefined : globProblem(glob.value);
      if (why !== undefined) return { why };
      return { instruction: { kind: "replace", old, new: fresh, glob: glob?.value }, last: glob };
    },
  },
  {
    says: "rename PATH to PATH | move PATH to PATH",
    pattern: new RegExp(`^(?:rename|move)\\s+${argument}\\s+to\\s+${argument}`, "i"),
    read(match) {
      const [from, to] = [argumentOf(match, 1), argumentOf(match, 5)];
      const why = pathProblem(from.value) ?? pathProblem(to.value);
      if (why !== undefined) return { why };
      const slash = to.value.endsWith("/") ? "/" : "";
      return { instruction: { kind: "move", from: normal(from.value), to: normal(to.value) + slash }, last: to };
    },
  },
  {
    says: "delete PATH",
    pattern: new RegExp(`^delete\\s+${argument}`, "i"),
    read(match) {
      const path = argumentOf(match, 1);
      const why = pathProblem(path.value);
      return why === undefined ? { instruction: { kind: "delete", path: normal(path.value) }, last: path } : { why };
    },
  },
  {
    says: "apply the patch | apply PATCH",
    pattern: new RegExp(`^apply\\s+(?:the\\s+)?(?:attached\\s+)?(?:(patch|patches|diff|diffs)${end}|${argument})`, "i"),
    read(match) {
      const name = match[1] === undefined ? argumentOf(match, 2) : undefined;
      return { attached: name?.value, last: name };
    },
  },
  {
    says: "bump NAME to VERSION [in FOLDER] | update NAME to VERSION [in FOLDER]",
    pattern: new RegExp(`^(?:bump|update)\\s+${argument}\\s+to\\s+${argument}(?:\\s+in\\s+${argument})?`, "i"),
    read(match) {
      const [name, version, folder] = [argumentOf(match, 1), argumentOf(match, 5), optional(match, 9)];
      const why =
        nameProblem(name.value) ??
        versionProblem(version.value) ??
        (folder === undefined || folder.value === "." ? undefined : pathProblem(folder.value));
      if (why !== undefined) return { why };
      const where = folder === undefined ? undefined : normal(folder.value);
      const instruction = { kind: "bump", name: name.value, version: version.value, folder: where } as const;
      return { instruction, last: folder ?? version };
    },
  },
  {
    says: "fix lint | fix format",
    pattern: new RegExp(`^fix\\s+(?:the\\s+)?(lint|format)(?:ting)?${end}`, "i"),
    read: (match) => ({ instruction: { kind: "fix", what: match[1]?.toLowerCase() === "lint" ? "lint" : "format" } }),
  },
  {
    says: "run codemod NAME",
    pattern: new RegExp(`^run\\s+codemod\\s+${argument}`, "i"),
    read(match) {
      const name = argumentOf(match, 1);
      return /^[A-Za-z0-9][\w.-]{0,63}$/.test(name.value)
        ? { instruction: { kind: "codemod", name: name.value }, last: name }
        : { why: `expected a name of letters, digits, ".", "_" and "-", got "${name.value}"` };
    },
  },
  {
    says: "list TODOs [into PATH.md]",
    pattern: new RegExp(`^list\\s+(?:the\\s+|all\\s+)?TODOs?${end}${into}`, "i"),
    read: listing("todos", undefined, 1),
  },
  {
    says: "licence report [into PATH.md]",
    pattern: new RegExp(`^licen[cs]e\\s+report${end}${into}`, "i"),
    read: listing("licences", undefined, 1),
  },
  {
    says: "dead links [into PATH.md]",
    pattern: new RegExp(`^(?:list\\s+(?:the\\s+|all\\s+)?)?dead\\s+links${end}${into}`, "i"),
    read: listing("links", undefined, 1),
  },
  {
    says: "summarise git log since COMMIT | DATE [into PATH.md]",
    pattern: new RegExp(`^summari[sz]e\\s+(?:the\\s+)?git\\s+log\\s+since\\s+${argument}${into}`, "i"),
    read: listing("log", 1, 5, sinceProblem),
  },
  {
    says: "changelog since COMMIT | DATE [into PATH.md]",
    pattern: new RegExp(`^changelog\\s+since\\s+${argument}${into}`, "i"),
    read: listing("changelog", 1, 5, sinceProblem),
  },
  {
    says: "summarise log PATH [into PATH.md]",
    pattern: new RegExp(`^summari[sz]e\\s+(?:the\\s+)?log\\s+${argument}${into}`, "i"),
    read: listing("digest", 1, 5, pathProblem),
  },
  {
    says: "summarise PATH.log [into PATH.md]",
    pattern: new RegExp(`^summari[sz]e\\s+${argument}${into}`, "i"),
    read: listing("digest", 1, 5, logProblem),
  },
];

/** The instruction that a text begins with; undefined when it begins with none. */
export const clauseOf = (text: string, before: Instruction | undefined): Clause | undefined => {
  for (const { pattern, read } of forms) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const { last, ...meaning } = read(match);
    if ("why" in meaning) return { length: 0, why: meaning.why };
    const length = match[0].length - (last?.spare ?? 0);
    if ("attached" in meaning) return { length, attached: meaning.attached };
    return { length, instruction: { ...meaning.instruction, said: text.slice(0, length) } };
  }
  const more = before?.kind === "run" ? runMore.exec(text) : null;
  if (more === null) return undefined;
  const meaning = running(more[1] ?? "");
  return "instruction" in meaning
    ? { length: more[0].length, instruction: { ...meaning.instruction, said: `run ${more[0]}` } }
    : undefined;
};
