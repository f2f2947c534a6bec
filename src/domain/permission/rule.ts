import { isSecret } from "./secret-path.ts";
import { parseShell } from "./shell-command.ts";

/**
 * The permission rules: what agents may do. Deny beats ask beats allow, regardless of the order in a list; if no rule
 * matches, the defaults decide. One pure decision serves our own tools and external agents that ask. Rules come from
 * the operator; a project can only narrow them. Source: shared/design/security.md C4; grammar: docs/configuration.md,
 * "Permissions".
 */

export type RuleTexts = { deny: readonly string[]; ask: readonly string[]; allow: readonly string[] };

export type RuleSource = "operator" | "project" | "default";

/** `name`: a tool, or `read` or `write` for every tool that reads or changes files. */
export type PermissionRule = { text: string; name: string; pattern: string | undefined };

type Ranked = { decision: "deny" | "ask" | "allow"; origin: RuleSource; rule: PermissionRule };

/** In order of evaluation: the first matching rule decides. */
export type PermissionRules = readonly Ranked[];

/** Something that a call accesses. A call may have several subjects; the strictest verdict counts. */
export type PermissionSubject =
  | { kind: "read" | "write"; path: string }
  | { kind: "shell"; command: string }
  | { kind: "git"; command: string }
  | { kind: "web"; host: string }
  /** `words`: describes the call to the person who is asked; rules cannot match it. */
  | { kind: "other"; words?: string };

export type PermissionRequest = { tool: string; subjects: readonly PermissionSubject[] };

/** `rule: null`: no rule matched, so the call is allowed and needs no record. */
export type PermissionVerdict =
  | { decision: "allow"; rule: null }
  | { decision: "deny" | "ask" | "allow"; rule: string; origin: RuleSource; subject: string };

export const maxRules = 100;

const maxPattern = 200;

/** Parses a rule's text, or says what is wrong with it. `names`: the existing tools. */
export const parseRule = (text: string, names?: readonly string[]): PermissionRule | { problem: string } => {
  const open = text.indexOf("(");
  const name = open < 0 ? text : text.slice(0, open);
  const expected = "Expected a rule such as shell, shell(git push), write(migrations/**) or read(.env*)";
  const isOfServer = ofServer.test(name);
  if (!(isOfServer || /^[a-z][a-z0-9_]{0,63}$/.test(name)) || (open >= 0 && !text.endsWith(")")))
    return { problem: `${expected}; got ${JSON.stringify(text)}` };
  if (names !== undefined && !isOfServer && !names.includes(name))
    return { problem: `Expected a rule about one of ${names.join(", ")}; got ${JSON.stringify(text)}` };
  if (open < 0) return { text, name, pattern: undefined };
  const pattern = text.slice(open + 1, -1).trim();
  if (pattern === "" || pattern.length > maxPattern || /\p{Cc}/u.test(pattern))
    return {
      problem: `Expected 1 to ${maxPattern} printable characters between the brackets of ${name}(…), got ${pattern.length}`,
    };
  if (pattern.split("/").includes("..") && !commandTools.has(name))
    return { problem: `Expected a path inside the project without "..", got ${JSON.stringify(text)}` };
  return { text, name, pattern };
};

/** A tool of an MCP server, or all tools of one. */
const ofServer = /^mcp__[A-Za-z0-9_-]{1,100}$/;

const commandTools = new Set(["shell", "git"]);

const parse = (texts: readonly string[]): PermissionRule[] =>
  texts.map((text) => {
    const rule = parseRule(text);
    if ("problem" in rule) throw new Error(rule.problem);
    return rule;
  });

/**
 * The rules of one Task. Throws on a text that `parseRule` rejects, because texts are checked where they are loaded.
 */
export const compileRules = (operator: RuleTexts, project: Omit<RuleTexts, "allow"> | null): PermissionRules => {
  const ranked = (decision: Ranked["decision"], origin: RuleSource, texts: readonly string[] = []) =>
    parse(texts).map((rule) => ({ decision, origin, rule }));
  return [
    ...ranked("deny", "operator", operator.deny),
    ...ranked("deny", "project", project?.deny),
    ...ranked("ask", "operator", operator.ask),
    ...ranked("ask", "project", project?.ask),
    ...ranked("allow", "operator", operator.allow),
    ...ranked("deny", "default", defaultDenied),
  ];
};

/**
 * Denied by default. `isSecret` adds names that usually hold secrets. The git entries are subcommands that the git tool
 * must never run.
 */
const defaultDenied = [
  "write(/.sortie/permissions.jsonc)",
  "write(/.sortie/environment.jsonc)",
  "write(/.sortie/squads/**)",
  ..."push fetch pull clone remote config hook submodule".split(" ").map((action) => `git(${action})`),
];

/**
 * Whether the file tools refuse a path by name: secrets, except those that the operator allows agents to read or write.
 */
export const protectedBy = (operator: RuleTexts): ((path: string) => boolean) => {
  const rules = compileRules(operator, null);
  const isRefused = (kind: "read" | "write", path: string) =>
    decide(rules, { tool: kind, subjects: [{ kind, path }] }).decision === "deny";
  return (path) => isSecret(path) && isRefused("read", path) && isRefused("write", path);
};

/** Whether `forbiddenWrite` can forbid anything at all. */
export const forbidsWrites = (rules: PermissionRules): boolean => rules.some(isOwnDeny);

/**
 * The rule that forbids a changed file to land, whatever changed it: a `deny write(…)` of the operator or the project.
 * Rules about single tools apply only to calls, and the service's defaults only to how agents write. undefined: it may
 * land.
 */
export const forbiddenWrite = (
  rules: PermissionRules,
  path: string,
): { rule: string; origin: RuleSource } | undefined => {
  const verdict = decide(rules.filter(isOwnDeny), { tool: "write", subjects: [{ kind: "write", path }] });
  return verdict.rule === null || verdict.origin === "default" ? undefined : verdict;
};

const isOwnDeny = ({ decision, origin, rule }: Ranked): boolean =>
  decision === "deny" && origin !== "default" && rule.name === "write";

const strictness = { deny: 2, ask: 1, allow: 0 };

export const decide = (rules: PermissionRules, { tool, subjects }: PermissionRequest): PermissionVerdict => {
  let strictest: PermissionVerdict = { decision: "allow", rule: null };
  for (const subject of subjects.flatMap(parts)) {
    const verdict = permissionFor(rules, tool, subject);
    const stricter = strictness[verdict.decision] > strictness[strictest.decision];
    if (stricter || (strictest.rule === null && verdict.decision === strictest.decision)) strictest = verdict;
  }
  return strictest;
};

/** A shell text is split into its commands. */
type Part = Exclude<PermissionSubject, { kind: "shell" }> | { kind: "shell"; command: string; opaque: boolean };

const parts = (subject: PermissionSubject): Part[] =>
  subject.kind === "shell"
    ? parseShell(subject.command).map(({ text, opaque }) => ({ kind: "shell", command: text, opaque }))
    : [subject];

const permissionFor = (rules: PermissionRules, tool: string, part: Part): PermissionVerdict => {
  const found = rules.find(({ decision, rule }) => matches(rule, tool, part, decision !== "allow"));
  const subject = wordsOf(part);
  if (found !== undefined) return { decision: found.decision, rule: found.rule.text, origin: found.origin, subject };
  if ((part.kind === "read" || part.kind === "write") && isSecret(part.path))
    return { decision: "deny", rule: `${part.kind}(${secretNames})`, origin: "default", subject };
  return { decision: "allow", rule: null };
};

const secretNames = ".env*, *.pem, *.key, id_*";

const maxSubject = 400;

const wordsOf = (part: Part): string => {
  const text =
    part.kind === "other" ? (part.words ?? "") : "path" in part ? part.path : "host" in part ? part.host : part.command;
  return text.length > maxSubject ? `${text.slice(0, maxSubject)}…` : text;
};

/** `wide`: in a text that cannot be parsed, rules that forbid match anywhere; rules that allow do not. */
const matches = ({ name, pattern }: PermissionRule, tool: string, part: Part, wide: boolean): boolean => {
  const named = name === tool || (name.startsWith("mcp__") && tool.startsWith(`${name}__`));
  if (!named && !(name === part.kind && "path" in part)) return false;
  if (pattern === undefined) return true;
  switch (part.kind) {
    case "read":
    case "write":
      // The pattern of a command tool's rule is not a path: `git(config)` does not forbid a folder of that name.
      return !commandTools.has(name) && matchesPath(pattern, part.path);
    case "shell":
      return (
        matchesCommand(pattern, part.command) || (part.opaque && wide && wild(`*${prefixOf(pattern)}*`, part.command))
      );
    case "git":
      return matchesCommand(pattern, part.command);
    case "web":
      return wild(pattern.replace(/^domain:/, "").toLowerCase(), part.host.toLowerCase());
    case "other":
      return false;
  }
};

/** Names that a rule may have in addition to those of tools. */
export const fileKinds = ["read", "write"];

/** `git push:*`, `git push *` and `git push` all mean: a command that begins with these words. */
const prefixOf = (pattern: string): string => {
  const words = pattern.replaceAll(/\s+/g, " ");
  return words.endsWith(":*") || words.endsWith(" *") ? words.slice(0, -2) : words;
};

const matchesCommand = (pattern: string, command: string): boolean => {
  const prefix = prefixOf(pattern);
  return wild(prefix, command) || wild(`${prefix} *`, command);
};

/**
 * Matches paths as a .gitignore does: without a slash, the name of a file or folder at any depth; with one, a path from
 * the root, where `**` stands for any folders. A pattern that matches a folder matches everything in it. Case is
 * ignored, because some file systems ignore it.
 */
const matchesPath = (pattern: string, path: string): boolean => {
  const wanted = pattern
    .toLowerCase()
    .split("/")
    .filter((name) => name !== "");
  const names = path
    .toLowerCase()
    .split("/")
    .filter((name) => name !== "" && name !== ".");
  const [only] = wanted;
  const anywhere = wanted.length === 1 && !pattern.startsWith("/");
  if (only === undefined) return true;
  if (anywhere) return only === "**" || names.some((name) => wild(only, name));
  return matchesNames(wanted, names);
};

/** Greedy, backtracking only to the last `**`: at most as many steps as the product of both lengths. */
const matchesNames = (wanted: readonly string[], names: readonly string[]): boolean => {
  let [at, name, star, back] = [0, 0, -1, 0];
  while (at < wanted.length) {
    const pattern = wanted[at] ?? "";
    const text = names[name];
    if (pattern === "**") {
      star = at;
      back = name;
      at += 1;
    } else if (text !== undefined && wild(pattern, text)) {
      at += 1;
      name += 1;
    } else if (star >= 0 && back < names.length) {
      back += 1;
      name = back;
      at = star + 1;
    } else return false;
  }
  return true;
};

/** `*` stands for any characters. Searches for the pieces between them, so it is linear in the text. */
const wild = (pattern: string, text: string): boolean => {
  const pieces = pattern.split("*");
  const first = pieces[0] ?? "";
  const last = pieces.at(-1) ?? "";
  if (pieces.length === 1) return text === pattern;
  if (!text.startsWith(first) || text.length < first.length + last.length || !text.endsWith(last)) return false;
  let at = first.length;
  const end = text.length - last.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, at);
    if (found < 0 || found + piece.length > end) return false;
    at = found + piece.length;
  }
  return true;
};
