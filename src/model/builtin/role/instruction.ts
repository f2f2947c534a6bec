import { type CommandCheck, isCommand } from "../../../protocol/check.ts";
import { bump } from "../change/upgrade.ts";
import { codemod, fix } from "../change/fix.ts";
import type { Instruction, Runnable } from "../grammar/instruction.ts";
import { inventory } from "../report/report.ts";
import {
  type Asking,
  commandSeconds,
  done,
  endOf,
  failed,
  firstFailure,
  firstLine,
  missing,
  once,
  one,
  repeatable,
  type Result,
  type Step,
  type World,
} from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";
import type { Facts } from "../../model.ts";

/** How each instruction is carried out: short ones here, the others in files of their own. */

export function carryOut(instruction: Instruction, world: World): Step {
  switch (instruction.kind) {
    case "run":
      return run(instruction.what, world.facts);
    case "apply":
      return apply(instruction.patch);
    case "write":
      return write(instruction.path, instruction.content);
    case "replace":
      return replace(instruction, world.written);
    case "move":
      return move(instruction.from, instruction.to);
    case "delete":
      return remove(instruction.path);
    case "bump":
      return bump(instruction);
    case "fix":
      return fix(instruction.what);
    case "codemod":
      return codemod(instruction.name, world.codemods);
    case "inventory":
      return inventory(instruction, world);
  }
}

// ---- run -----------------------------------------------------------------------------------------------------------

/** A check of the request, or the project's own command, which has a command line only. */
type Command = Pick<CommandCheck, "run"> & Partial<CommandCheck>;

const kinds: Record<Exclude<Runnable, "checks">, { kind: keyof Facts["detected"]; named: RegExp }> = {
  tests: { kind: "test", named: /\btests?\b/i },
  build: { kind: "build", named: /\bbuild\b/i },
  lint: { kind: "lint", named: /lint\b/i },
  typecheck: { kind: "typecheck", named: /\btype-?check|\btsc\b/i },
};

/** The request's own checks take precedence over the commands of the project's manifest. */
const commandsFor = (what: Runnable, facts: Facts): Command[] | { why: string } => {
  const { detected } = facts;
  const checks = facts.checks.filter(isCommand);
  if (what === "checks") {
    if (checks.length > 0) return [...checks];
    return detected.test === undefined
      ? { why: "looked for checks in the request and for a test command of the project, found neither" }
      : [{ run: detected.test }];
  }
  const { kind, named } = kinds[what];
  const own = checks.filter((check) =>
    check.kind === "command" ? named.test(`${check.id} ${check.name} ${check.run}`) : check.kind === kind,
  );
  if (own.length > 0) return own;
  const command = detected[kind];
  if (command !== undefined) return [{ run: command }];
  // A request's checks of the kind `command` count as its tests, whatever they run.
  const plain = what === "tests" ? checks.filter((check) => check.kind === "command") : [];
  return plain.length > 0
    ? plain
    : {
        why: `looked for a check of the request and for a command of the project that runs the ${what}, found neither`,
      };
};

function* run(what: Runnable, facts: Facts): Step {
  const commands = commandsFor(what, facts);
  if ("why" in commands) return failed(commands.why);
  const calls = commands.map(({ run: command, cwd, env = {}, timeoutSeconds = commandSeconds }) => ({
    tool: "shell",
    input: {
      command: [...Object.entries(env).map(([name, value]) => `export ${name}=${shellQuote(value)}`), command].join(
        "\n",
      ),
      timeoutSeconds,
      ...(cwd === undefined ? {} : { cwd }),
    },
  }));
  const results = yield* repeatable(calls);
  const told = commands.map(({ run: command, expect }, at) => {
    const result = results[at] ?? missing;
    const green = result.exitCode === (expect?.exitCode ?? 0);
    return { green, text: `\`${command}\`, ${endOf(result)}`, first: green ? "" : firstFailure(result.output) };
  });
  const red = told.filter(({ green }) => !green);
  if (red.length === 0) return done(`${told.map(({ text }) => text).join("; ")}.`);
  return failed(red.map(({ text, first }) => (first === "" ? text : `${text} (first failure: ${first})`)).join("; "));
}

// ---- patches and files ---------------------------------------------------------------------------------------------

/** After an interruption, checks first whether the patch is applied already: it must not be applied twice. */
function* apply(patch: string): Step {
  for (;;) {
    const result = yield* once({ tool: "apply_patch", input: { patch } });
    if (result.outcome === "ok") return done(result.output.replaceAll("\n", " "));
    if (result.outcome === "error") return failed(result.output);
    const there = yield* one({ tool: "apply_patch", input: { patch, mode: "check-applied" } });
    if (there.outcome === "ok") return done(`The patch was interrupted. ${firstLine(there.output)}`);
    const fits = yield* one({ tool: "apply_patch", input: { patch, mode: "check" } });
    if (fits.outcome !== "ok")
      return failed("the patch was interrupted; it is not wholly in the files and no longer applies to them");
  }
}

function* write(path: string, content: string): Step {
  const result = yield* one({ tool: "write", input: { path, content } });
  return result.outcome === "ok" ? done(firstLine(result.output)) : failed(result.output);
}

function* move(from: string, to: string): Step {
  for (;;) {
    const result = yield* once({ tool: "git", input: { action: "mv", from, to } });
    if (result.outcome === "ok") return done(firstLine(result.output));
    if (result.outcome === "error") return failed(result.output);
    const bare = to.replace(/(?<!\/)\/+$/, "");
    const inside = `${bare}/${from.split("/").at(-1)}`;
    const [old, fresh, within] = yield* repeatable(
      [from, bare, inside].map((path) => ({ tool: "list", input: { path } })),
    );
    const gone = old !== undefined && isGone(old);
    // An interrupted move of a folder may be partial; a file is moved entirely or not at all.
    const arrived = (result_: Result | undefined, path: string) =>
      result_?.outcome === "ok" && firstLine(result_.output).startsWith(`${path}  `);
    if (gone && arrived(fresh, bare)) return done(`The move was interrupted; ${bare} is there and ${from} is not.`);
    if (gone && arrived(within, inside))
      return done(`The move was interrupted; ${inside} is there and ${from} is not.`);
    const untouched = old?.outcome === "ok" && within !== undefined && isGone(within) && fresh !== undefined;
    const free = fresh !== undefined && (isGone(fresh) || !arrived(fresh, bare));
    if (!untouched || !free)
      return failed(`the move of ${from} to ${to} was interrupted and is neither whole nor undone`);
  }
}

const isGone = ({ outcome, output }: Result): boolean => outcome === "error" && output.includes("nothing there");

function* remove(path: string): Step {
  for (;;) {
    const result = yield* once({ tool: "git", input: { action: "rm", paths: [path] } });
    if (result.outcome === "ok") return done(firstLine(result.output));
    if (result.outcome === "error") return failed(result.output);
    const left = yield* one({ tool: "list", input: { path } });
    if (isGone(left)) return done(`The removal was interrupted; ${path} is not there.`);
  }
}

// ---- replace -------------------------------------------------------------------------------------------------------

type Replace = Extract<Instruction, { kind: "replace" }>;

function* replace(wish: Replace, written: ReadonlySet<string>): Step {
  const where = wish.glob === undefined ? "" : ` in ${wish.glob}`;
  const paths = yield* find(wish, written);
  if (!Array.isArray(paths)) return failed(paths.why);
  if (paths.length === 0) return failed(`no match of "${wish.old}" in the tracked files${where}`);
  const edit = (path: string) => ({
    tool: "edit",
    input: { path, edits: [{ old: wish.old, new: wish.new, all: true }] },
  });
  let count = 0;
  const unknown: string[] = [];
  let open = paths;
  while (open.length > 0) {
    const results = yield open.map(edit);
    const interrupted: string[] = [];
    for (const [at, path] of open.entries()) {
      const result = results[at] ?? missing;
      if (result.outcome === "error") {
        const changed = open.filter((_, other) => results[other]?.outcome === "ok");
        const rest = changed.length === 0 ? "" : `; replaced before that in ${changed.join(", ")}`;
        return failed(`${result.output.replace(/(?<![.\s])[.\s]+$/, "")}${rest}`);
      }
      if (result.outcome === "interrupted") interrupted.push(path);
      else count += Number(/^Replaced (\d+)/.exec(result.output)?.[1] ?? 0);
    }
    if (interrupted.length === 0) break;
    // Each file is replaced atomically. One without a match is done already; one with matches is not, unless the new
    // text can contain the old one.
    const left = yield* repeatable(
      interrupted.map((path) => ({
        tool: "search",
        input: { pattern: wish.old, path, literal: true, mode: "count" },
      })),
    );
    const matching = interrupted.filter(
      (_, at) => left[at]?.outcome !== "ok" || !left[at].output.startsWith("No match"),
    );
    if (matching.length > 0 && canRecur(wish.old, wish.new))
      return failed(
        `the replacement was interrupted in ${matching.join(", ")}; it cannot be told whether it was done there`,
      );
    unknown.push(...interrupted.filter((path) => !matching.includes(path)));
    open = matching;
  }
  const matches = `${count} ${count === 1 ? "match" : "matches"}`;
  const files = `${paths.length} ${paths.length === 1 ? "file" : "files"}`;
  const rest = unknown.length === 0 ? "" : ` (and those in ${unknown.join(", ")}, interrupted and found done)`;
  return done(`Replaced ${matches} of "${wish.old}" with "${wish.new}" in ${files}${where}${rest}.`);
}

/**
 * Files that contain the text: tracked files and those that this request wrote; without Git, the results of a search.
 */
function* find({ old, glob }: Replace, written: ReadonlySet<string>): Asking<string[] | { why: string }> {
  const grep = { action: "grep", pattern: old, ...(glob === undefined ? {} : { glob }) };
  const [tracked = missing, all] = yield* repeatable([
    { tool: "git", input: grep },
    ...(written.size === 0 ? [] : [{ tool: "git", input: { ...grep, untracked: true } }]),
  ]);
  if (tracked.outcome === "ok") {
    if (all !== undefined && all.outcome !== "ok") return { why: all.output };
    const own = all === undefined ? [] : pathsOf(all.output).filter((path) => written.has(path));
    return [...new Set([...pathsOf(tracked.output), ...own])];
  }
  if (!tracked.output.startsWith("Not a Git worktree")) return { why: tracked.output };
  const where = glob === undefined ? {} : /[*?[]/.test(glob) ? { glob } : { path: glob };
  const found = yield* one({ tool: "search", input: { pattern: old, literal: true, mode: "count", ...where } });
  if (found.outcome !== "ok") return { why: found.output };
  return /^… /m.test(found.output)
    ? { why: `too many files hold "${old}"; name fewer with "in GLOB"` }
    : pathsOf(found.output);
}

/** Parses lines `count TAB path`; a path in quotes is a JSON string. */
const pathsOf = (output: string): string[] =>
  output.split("\n").flatMap((line) => {
    const path = /^\d+\t(.+)$/.exec(line)?.[1];
    if (path === undefined) return [];
    return path.startsWith('"') ? [String(JSON.parse(path))] : [path];
  });

/** Whether `old` can occur after replacing every `old` by `fresh`: inside `fresh`, or across its edge. */
const canRecur = (old: string, fresh: string): boolean => {
  if (fresh === "") return old.length > 1;
  if (fresh.includes(old) || old.includes(fresh)) return true;
  for (let size = 1; size < Math.min(old.length, fresh.length); size += 1)
    if (fresh.endsWith(old.slice(0, size)) || fresh.startsWith(old.slice(-size))) return true;
  return false;
};
