import { z } from "zod";
import { componentsOf, decodePath } from "../../workspace/file/files.ts";
import type { Git } from "../../workspace/git/git.ts";
import { move, remove } from "../file/move.ts";
import { answer, failed, truncateMiddle, ok, shown, truncatedResult, withoutEnd } from "../result.ts";
import { type Tool, type ToolContext, type ToolResult, hiddenFromModels } from "../tool.ts";

const actions = ["status", "diff", "log", "show", "grep", "restore", "add", "commit", "mv", "rm"] as const;

/**
 * `grep` counts the lines with a plain text in tracked files (`glob`: `*.md` at any depth, `src/**\/*.ts`; `untracked`:
 * other files too), for the built-in model; `add` and `commit` are for models that insist on them. One flat object,
 * because providers reject a union at the top; the arguments that an action requires are checked below.
 */
const input = z
  .strictObject({
    action: z.enum(actions).meta({ untold: ["grep", "add", "commit", "mv"] }),
    paths: z.array(z.string().min(1)).max(200).optional(),
    revision: z
      .string()
      .regex(/^[A-Za-z0-9_][A-Za-z0-9_./~^@{}+-]*(?: [A-Za-z0-9_][A-Za-z0-9_./~^@{}+-]*)?$/)
      .max(200)
      .optional()
      .describe("Commit or range; diff: two commits, too"),
    staged: z.boolean().optional().meta(hiddenFromModels),
    stat: z.boolean().optional(),
    limit: z.number().int().min(1).max(500).optional(),
    message: z.string().min(1).max(10_000).optional().meta(hiddenFromModels),
    from: z.string().min(1).optional().meta(hiddenFromModels),
    to: z.string().min(1).optional().meta(hiddenFromModels),
    pattern: z.string().min(1).max(8192).optional().meta(hiddenFromModels),
    glob: z.string().min(1).max(1000).optional().meta(hiddenFromModels),
    untracked: z.boolean().optional().meta(hiddenFromModels),
  })
  .superRefine((call, context) => {
    const needed = {
      commit: ["message"],
      mv: ["from", "to"],
      rm: ["paths"],
      restore: ["paths"],
      add: ["paths"],
      grep: ["pattern"],
    };
    for (const field of (needed as Record<string, string[]>)[call.action] ?? [])
      if (call[field as keyof typeof call] === undefined)
        context.addIssue({ code: "custom", path: [field], message: `Expected \`${field}\` for action ${call.action}` });
  });
type Input = z.infer<typeof input>;

const reading: ReadonlySet<unknown> = new Set<Input["action"]>(["status", "diff", "log", "show", "grep"]);

export const git: Tool<Input> = {
  name: "git",
  description:
    "Git in the project: `status` and `diff` of the whole Task, its base against the files as they are, or `diff` of a revision; " +
    "`restore` paths as in HEAD (your edits there are lost).",
  input,
  effect: "workspace",
  effectOf: (call) =>
    typeof call === "object" && call !== null && "action" in call && reading.has(call.action) ? "none" : "workspace",
  run: (call, context) => answer(context.signal, () => act(call, context)),
};

const act = async (call: Input, context: ToolContext): Promise<ToolResult> => {
  const { workspace } = context;
  switch (call.action) {
    // `mv` and `rm` need no repository.
    case "mv":
      return move(workspace, call.from ?? "", call.to ?? "");
    case "rm":
      return remove(workspace, call.paths ?? []);
    case "status":
    case "diff":
    case "log":
    case "show":
    case "restore":
    case "grep":
    case "add":
    case "commit":
      return workspace.git === undefined
        ? failed("Not a Git worktree: only mv and rm work here.")
        : inRepository(call, workspace.git, context);
  }
};

const inRepository = async (call: Input, repository: Git, context: ToolContext): Promise<ToolResult> => {
  const { signal, workspace } = context;
  const inside = (path: string) => componentsOf(workspace.files.inside(path)).join("/") || ".";
  const paths = (call.paths ?? []).map(inside);
  const revision = call.revision?.split(" ") ?? [];
  /** The commit that the Task's files are compared with; null: the Task works in the user's directory. */
  const base = workspace.prepared.kind === "worktree" ? workspace.prepared.baseCommit : null;
  const isWhole = base !== null && revision.length === 0 && call.staged !== true;
  const untracked = async (): Promise<string[]> => {
    const { stdout } = await repository.run(["ls-files", "--others", "--exclude-standard", "-z", "--", ...paths], {
      signal,
    });
    return namesIn(stdout);
  };
  /** `args` name commits. Omits files whose content may not be read, and names them at the end. */
  const differences = async (args: string[], format: string[], none: string): Promise<ToolResult> => {
    const listed = [...args, "--name-only", "--no-renames", "-z", "--relative"];
    if (call.action === "show") listed.push("--format=");
    const named = await repository.run([...listed, "--", ...paths], { signal });
    const hidden = [...new Set(namesIn(named.stdout).filter((path) => !workspace.files.mayRead(path)))];
    if (hidden.length > maxHidden || !hidden.every((path) => path.isWellFormed()))
      return failed("Expected fewer unreadable files there, or plainer names; give `paths` without them.");
    const { stdout } = await repository.run(
      [
        ...args,
        "--no-color",
        "--relative",
        ...format,
        "--",
        ...paths.map((path) => `:(literal)${path}`),
        ...hidden.map((path) => `:(exclude,literal)${path}`),
      ],
      { signal, env: { GIT_LITERAL_PATHSPECS: "0" } },
    );
    const text = withoutEnd(stdout);
    const note = hidden.length === 0 ? "" : `Not shown, because they may not be read: ${hidden.map(shown).join(", ")}.`;
    if (text.length === 0) return ok(note === "" ? none : note);
    return truncatedResult(note === "" ? text : Buffer.concat([text, Buffer.from(`\n${note}`)]), context);
  };
  // In its own worktree a Task is on no branch.
  const branch = workspace.prepared.kind === "directory" ? ["--branch"] : [];
  const say = async (args: string[], none: string) => {
    const { stdout } = await repository.run([...args, "--", ...paths], { signal });
    const text = withoutEnd(stdout);
    return text.length === 0 ? ok(none) : truncatedResult(text, context);
  };
  switch (call.action) {
    case "status": {
      if (base === null) return say(["-c", "core.quotePath=false", "status", "--short", ...branch], "Clean.");
      const { stdout } = await repository.run(
        ["diff", "--name-status", "--no-renames", "-z", "--relative", base, "--", ...paths],
        { signal },
      );
      const fields = namesIn(stdout);
      const lines = fields.flatMap((kind, at) => (at % 2 === 0 ? [`${kind} ${shown(fields[at + 1] ?? "")}`] : []));
      const added = (await untracked()).map((path) => `A ${shown(path)}`);
      const all = [...lines, ...added].toSorted((a, b) => (a.slice(2) < b.slice(2) ? -1 : 1));
      return all.length === 0
        ? ok(`Nothing differs from the Task's base, ${base}.`)
        : truncatedResult(all.join("\n"), context);
    }
    case "diff": {
      const stat = call.stat === true ? ["--stat"] : [];
      if (!isWhole)
        return differences(
          ["diff", ...(call.staged === true ? ["--cached"] : []), ...revision.map(commitsOf)],
          stat,
          "No difference.",
        );
      const tracked = await differences(["diff", base], stat, "");
      const parts = tracked.output === "" ? [] : [tracked.output];
      const added = await untracked();
      for (const path of added.slice(0, maxUntracked)) {
        if (!path.isWellFormed() || path.endsWith("/")) parts.push(`New: ${shown(path)}`);
        else if (!workspace.files.mayRead(path)) parts.push(`Not shown, because it may not be read: ${shown(path)}.`);
        else {
          const args = ["diff", "--no-index", "--no-color", ...stat, "--", "/dev/null", path];
          parts.push(withoutEnd((await repository.run(args, { signal, ok: [0, 1] })).stdout).toString("utf8"));
        }
      }
      if (added.length > maxUntracked) parts.push(`${added.length - maxUntracked} more new files: see status.`);
      if (tracked.outcome === "error" || added.length === 0)
        return tracked.output === "" ? ok(`Nothing differs from the Task's base, ${base}.`) : tracked;
      return truncatedResult(parts.join("\n"), context);
    }
    case "log":
      return say(
        ["log", "--no-color", "--date=short", "--format=%h %ad %an: %s", `-n${call.limit ?? 20}`, ...revision],
        "No commits.",
      );
    case "show":
      return differences(
        ["show", ...(call.revision === undefined ? ["HEAD"] : [commitsOf(call.revision)])],
        call.stat === true ? ["--stat"] : [],
        "Nothing.",
      );
    case "restore": {
      if (context.workspace.prepared.kind !== "worktree")
        return failed(
          "Expected a worktree of your own: you work in the user's directory, whose edits a restore would lose.",
        );
      await repository.run(["restore", "--source=HEAD", "--staged", "--worktree", "--", ...paths], { signal });
      return ok(`Restored ${paths.map(shown).join(", ")} from HEAD.`);
    }
    case "add": {
      // Git would look into submodules, and run programs that their own configuration names.
      const known = [
        ...new Set([
          ...(await gitlinksIn(repository, ["HEAD"], signal)),
          ...(await gitlinksIn(repository, [], signal)),
        ]),
      ];
      const except = known.map((path) => `:(exclude,literal)${path}`);
      const wanted = paths.filter((path) => !known.some((link) => path === link || path.startsWith(`${link}/`)));
      if (wanted.length === 0)
        return failed(`Expected paths outside of submodules, got ${paths.map(shown).join(", ")}.`);
      await repository.run(["add", "--", ...wanted.map((path) => `:(literal)${path}`), ...except], {
        signal,
        writes: true,
        env: { GIT_LITERAL_PATHSPECS: "0" },
      });
      const made = (await gitlinksIn(repository, [], signal)).filter((path) => !known.includes(path));
      if (made.length === 0) return ok(`Added ${wanted.map(shown).join(", ")}.`);
      await repository.run(["update-index", "--force-remove", "-z", "--stdin"], {
        signal,
        writes: true,
        input: Buffer.from(made.map((path) => `${path}\0`).join("")),
      });
      return failed(`A Git repository inside the project cannot be added: ${made.map(shown).join(", ")}.`);
    }
    case "commit": {
      const only = paths.length === 0 ? [] : ["--", ...paths];
      const made = await repository.run(["commit", "-m", call.message ?? "", ...only], {
        signal,
        ok: [0, 1],
        writes: true,
      });
      const text = truncateMiddle(`${made.stdout.toString("utf8")}${made.stderr}`.trim(), "see log", 4000);
      return made.exitCode === 0 ? ok(text) : failed(text);
    }
    case "grep":
      return grep(call, repository, context);
    case "mv":
    case "rm":
      throw new Error(`Expected an action that needs a repository, got ${call.action}`);
  }
};

const maxHidden = 200;

/** How many new files a diff shows with their text: each takes a process. */
const maxUntracked = 30;

/** The paths that are submodules, in a commit or, when none is given, in the index. */
const gitlinksIn = async (repository: Git, commit: string[], signal: AbortSignal): Promise<string[]> => {
  const list = commit.length === 0 ? ["ls-files", "-s", "-z"] : ["ls-tree", "-r", "-z", ...commit];
  const { stdout } = await repository.run(list, { signal, ok: [0, 128] });
  return namesIn(stdout).flatMap((line) => (line.startsWith("160000 ") ? [line.slice(line.indexOf("\t") + 1)] : []));
};

/**
 * Accepts only commits, on both sides of a range: the object name of a file's content would show the file, whatever its
 * path.
 */
const commitsOf = (revision: string): string =>
  revision
    .split(/(\.{2,3})/)
    .map((part) => (part === "" || part.startsWith("..") ? part : `${part}^{commit}`))
    .join("");

const namesIn = (list: Buffer): string[] => {
  const names: string[] = [];
  for (let at = 0, end = list.indexOf(0); end >= 0; at = end + 1, end = list.indexOf(0, at))
    names.push(decodePath(list.subarray(at, end)));
  return names;
};

/** A glob as a Git pathspec: without a wildcard it names a file or folder, without a slash it matches at any depth. */
const pathspec = (glob: string): string => {
  const path = componentsOf(glob).join("/");
  if (path === "") return ".";
  if (!/[*?[]/.test(path)) return `:(literal)${path}`;
  return path.includes("/") ? `:(glob)${path}` : `:(glob)**/${path}`;
};

const grep = async (call: Input, repository: Git, { workspace, signal }: ToolContext): Promise<ToolResult> => {
  const { pattern = "", glob, untracked = false } = call;
  if (pattern.includes("\n")) return failed("Expected a pattern in one line, got a newline.");
  const found = await repository.run(
    [
      "grep",
      "--no-color",
      "-FIzc",
      ...(untracked ? ["--untracked"] : []),
      "-e",
      pattern,
      "--",
      ...(glob === undefined ? [] : [pathspec(glob)]),
    ],
    { signal, ok: [0, 1], env: { GIT_LITERAL_PATHSPECS: "0" } },
  );
  const lines: string[] = [];
  let text = found.stdout;
  for (let nul = text.indexOf(0); nul >= 0; nul = text.indexOf(0)) {
    const end = text.indexOf(10, nul);
    const path = decodePath(text.subarray(0, nul));
    // Counts of protected files are left out, too: they would confirm guesses about the content.
    if (workspace.files.mayRead(path)) lines.push(`${text.subarray(nul + 1, end).toString()}\t${shown(path)}`);
    text = text.subarray(end + 1);
  }
  if (lines.length === 0) return ok("No match.");
  return lines.length > maxFound
    ? failed(`Expected at most ${maxFound} files with a match, got ${lines.length}; narrow it with glob.`)
    : ok(lines.join("\n"));
};

/** More matches than this are an error, since a truncated list would be taken for a complete one. */
const maxFound = 1000;
