import { z } from "zod";
import { checkSpec } from "../check.ts";
import { pullRequest } from "../field.ts";
import { contrast } from "../task/status.ts";
import { blobRef, gitID, longText, sha256 } from "../text.ts";
import { modelUsage } from "./conversation.ts";

/** Set for a repository with submodules or large files. */
const baseOf = gitID
  .exactOptional()
  .describe("The remote's commit that corresponds to `baseCommit`, in which submodules and large files are filled in");

/** Events of a Task's files: its workspace, commits, checks and landing. */

const indexEntry = z.object({ mode: z.string(), object: gitID });

/** One path of a landing. Hashes are SHA-256 of the bytes on disk (for links, of the target); null = absent. */
const landedPath = z.object({
  path: z.string().describe("Bytes that are not UTF-8 stand as lone surrogates U+DC80–U+DCFF"),
  before: z.object({ mode: z.string(), sha256 }).nullable(),
  after: z.object({ mode: z.string(), sha256, object: gitID }).nullable(),
  merged: z
    .literal(true)
    .exactOptional()
    .describe("`after` also contains the user's uncommitted edits, which stay uncommitted"),
  index: z
    .object({ before: indexEntry.nullable(), after: indexEntry.nullable() })
    .exactOptional()
    .describe("Set if the index does not simply change from the branch's entry to the commit's"),
});

const omission = z.object({ path: z.string(), reason: z.string() });

/** What the base of a workspace contains beyond the commit of the project's branch. */
const snapshot = z.object({
  head: gitID.describe("The branch's commit. The base itself if nothing was uncommitted, or after a rebase"),
  untracked: z
    .union([z.array(z.string()), z.object({ blob: blobRef })])
    .describe("Paths that were untracked in the project"),
  omitted: z.array(omission).describe("What is in the directory but not in the base, with the reason"),
});

/** A folder that Git ignores and commands need, and how it is provided to the Task's commands. */
const given = z.object({
  path: z.string().describe("Relative to the project's top"),
  how: z
    .enum(["layer", "read-only", "copied", "left-out"])
    .describe("layer: the user's own folder; what the Task writes stays in the Task"),
  reason: z.string().exactOptional().describe("Why it is not a layer, or is missing"),
});

/** The tools of an MCP server, as agents are told of them. */
const listedTools = longText.describe("JSON: a list of `name`, `tool`, `description`, `parameters`");

const setup = {
  run: z.string(),
  worktree: z.string().describe("Identifies the files it ran in; if they are recreated, it runs again"),
};

export const workEvents = {
  "workspace.prepared": z.object({
    kind: z.enum(["worktree", "directory"]),
    root: z.string().describe("Where the tools work"),
    worktree: z.string().nullable(),
    branch: z.string().nullable().describe("sortie/<taskID>"),
    baseCommit: gitID.nullable(),
    baseTree: gitID.nullable(),
    of: baseOf,
    targetRef: z
      .string()
      .nullable()
      .describe("The branch (refs/heads/…) on which the result lands; null: the result stays on its own branch"),
    named: z
      .literal(true)
      .exactOptional()
      .describe("That branch was named, so if it is not checked out anywhere, only the branch moves"),
    snapshot: snapshot.exactOptional().describe("Absent if the directory had no uncommitted changes"),
    before: z.string().exactOptional().describe("After a retry: the branch with the previous attempt's work"),
    node: z.string().exactOptional().describe("With several nodes: the node that has these files"),
  }),
  /**
   * A checkpoint: the Task's commit, or its files between commits, kept where all nodes can read it so that another
   * node can continue from there.
   */
  "checkpoint.kept": z.object({
    commit: gitID,
    tree: gitID,
    base: gitID,
    pack: blobRef.nullable().describe("What the commit adds to the base; null: it is the base"),
    upTo: z
      .number()
      .int()
      .exactOptional()
      .describe("Kept while agents work: the version up to which calls had ended when the files were read"),
    whole: z
      .literal(true)
      .exactOptional()
      .describe("The pack also has what the repository no longer reaches of the base, as after a force-push"),
    forks: z
      .array(z.object({ name: z.string(), commit: gitID, tree: gitID, upTo: z.number().int() }))
      .exactOptional()
      .describe("The files of agents that work in their own copies, each as it was at a version"),
  }),
  /** The node that had the Task's files is gone, and another node continues from the newest checkpoint. */
  "workspace.moved": z.object({
    from: z.string(),
    to: z.string(),
    commit: gitID
      .nullable()
      .describe("The newest checkpoint's commit; null: there is none, and the work starts at its base"),
    lost: z.number().int().describe("The number of later calls that may have changed files"),
    forks: z
      .array(z.object({ name: z.string(), commit: gitID }))
      .exactOptional()
      .describe("The agents that go on in their own copies, each from this commit of its files"),
  }),
  /**
   * How the project's ignored dependency folders are provided to the Task's commands; recorded again when that changes.
   */
  "dependencies.given": z.object({ folders: z.array(given) }),
  /** The project requests MCP servers. It gets them only if the operator has granted this file. */
  "mcp.asked": z.object({
    file: z.string(),
    digest: z.string().describe("SHA-256 of the file; empty if it could not be read"),
    granted: z.boolean(),
    names: z.array(z.string()),
    servers: longText.describe("JSON: each server, as described in the file"),
    problems: z
      .record(z.string(), z.string())
      .describe("Why other servers cannot be used; under the empty name, why the file cannot"),
  }),
  /**
   * The environment of this project's commands. `granted`: the settings are the operator's own, or a file of the
   * project that the operator has granted; any other file has no effect.
   */
  "environment.given": z.object({
    from: z.enum(["operator", "project"]),
    digest: z.string().describe("SHA-256 of the project's file; empty: there is none, or it could not be read"),
    granted: z.boolean(),
    settings: longText.describe("JSON: what it says; secrets by name"),
    variables: z.array(z.string()),
    secrets: z.array(z.string()),
    network: z
      .union([z.enum(["none", "all"]), z.array(z.string())])
      .nullable()
      .describe("null: the service's setting"),
    setup: z.string().nullable().describe("null: the service's setting"),
    image: z.string().optional().describe("Name of the container image that the commands run in; absent: this machine"),
    problem: z.string().nullable().describe("Why the file cannot be used"),
  }),
  /**
   * The tools of an MCP server, listed once: they stay the same for the whole Task, because what a model was told must
   * stay true. A problem is checked again in the next attempt.
   */
  "mcp.listed": z.object({
    server: z.string(),
    count: z.number().int(),
    tools: listedTools,
    problem: z.string().nullable(),
  }),
  /** The operator's `workspace.setup`, which runs before the first command. */
  "setup.started": z.object(setup),
  "setup.finished": z.object({
    ...setup,
    state: z.enum(["passed", "failed"]),
    exitCode: z.number().nullable(),
    durationMs: z.number(),
    log: blobRef,
    tail: z.string(),
    reason: z.string().nullable(),
  }),
  /** The model was asked for the commit message, because the agent's final text contained none. */
  "commit.described": z.object({
    said: z.object({ title: z.string(), body: z.string() }).nullable().describe("null: the answer could not be used"),
    model: z.string(),
    usage: modelUsage,
    durationMs: z.number(),
  }),
  "tree.committed": z.object({
    commit: gitID,
    tree: gitID,
    parent: gitID,
    files: z.number(),
    insertions: z.number(),
    deletions: z.number(),
    /** Entries left out because they cannot be committed, with the reason. */
    omitted: z.array(omission),
    tested: z.literal(true).exactOptional().describe("It changes code and tests"),
  }),
  /** The commit changes files that a `deny write(…)` rule forbids to change, so it does not land. */
  "change.denied": z.object({
    commit: gitID,
    tree: gitID,
    files: z.array(
      z.object({
        path: z.string().describe("Relative to the project; its first 400 characters"),
        rule: z.string(),
        origin: z.enum(["operator", "project", "service"]),
      }),
    ),
    more: z.number().describe("The number of files beyond the first 100"),
  }),
  /** The project's own checks, for a request that names none. Those that pass on the base must pass at the end. */
  "checks.found": z.object({ checks: z.array(checkSpec) }),
  /** The Mission that gave the Task its checks replaces them. A check that was changed has another id. */
  "checks.replaced": z.object({ checks: z.array(checkSpec) }),
  "check.started": z.object({
    checkID: z.string(),
    on: z.enum(["base", "work"]),
    round: z.number(),
    commit: gitID.nullable(),
    tree: gitID.nullable(),
  }),
  "check.finished": z.object({
    checkID: z.string(),
    on: z.enum(["base", "work"]),
    round: z.number(),
    commit: gitID.nullable(),
    tree: gitID.nullable(),
    state: z.enum(["passed", "failed", "error"]),
    exitCode: z.number().nullable(),
    durationMs: z.number(),
    log: blobRef,
    tail: z.string().describe("The last lines of the output"),
    reason: z.string().nullable().describe("Why it did not pass: exit code, timeout, output does not match"),
    redefined: z
      .array(z.string())
      .exactOptional()
      .describe(
        "Parts of its definition that the Task changed: it also ran with the earlier version, and both runs count",
      ),
    flaky: z.literal(true).exactOptional().describe("It failed, then passed when run again on the same tree"),
    unfinished: z
      .literal(true)
      .exactOptional()
      .describe("It was stopped before it had a result, for example by its timeout"),
    ranFor: z.string().exactOptional().describe("The Task whose run on the same tree gave this result"),
  }),
  /**
   * The tests that the change adds or changes ran on the base. If they fail there and pass with the change, they prove
   * it.
   */
  "contrast.finished": contrast.extend({
    commit: gitID,
    tree: gitID,
    baseCommit: gitID,
    durationMs: z.number(),
    log: blobRef,
  }),
  /** The change was rebased onto the head of the project's branch, without uncommitted work. The checks run again. */
  "workspace.rebased": z.object({
    baseCommit: gitID,
    baseTree: gitID,
    of: baseOf,
    commit: gitID,
    tree: gitID,
    left: z
      .array(z.string())
      .exactOptional()
      .describe("Changes that affect only uncommitted lines, so no commit can contain them"),
  }),
  /** The project changed the same places. The change was returned to the agent, on top of a new snapshot. */
  "landing.conflicted": z.object({
    round: z.number(),
    paths: z.array(z.string()),
    baseCommit: gitID,
    baseTree: gitID,
    of: baseOf,
    snapshot: snapshot.exactOptional(),
    commit: gitID.describe("The change on the new base, with conflict markers where both sides changed the same lines"),
    tree: gitID,
  }),
  /** The point of no return: from here on the landing is only rolled forward. */
  "landing.started": z.object({
    commit: gitID,
    tree: gitID,
    from: gitID,
    ref: z.string(),
    paths: z.union([z.array(landedPath), z.object({ blob: blobRef })]),
    pushed: gitID
      .exactOptional()
      .describe(
        "The commit as the remote has it, with the names of submodules and large files; absent: `commit` itself",
      ),
    alone: z
      .literal(true)
      .exactOptional()
      .describe("Only the branch moves and no file changes, because it is not checked out anywhere"),
  }),
  /**
   * The landing was taken back before the ref was updated, because the branch moved or the Task failed. Everything is
   * as before.
   */
  "landing.withdrawn": z.object({
    reason: z.string(),
    edited: z
      .array(z.string())
      .exactOptional()
      .describe("Files that the user saved during the landing; the landing is planned again and merges them"),
  }),
  "landing.finished": z.object({
    commit: gitID,
    tree: gitID,
    ref: z.string(),
    /** Paths that the user edited during the landing: their bytes stay, as an edit on top of the commit. */
    kept: z.array(z.string()),
    /** Paths whose uncommitted edits by the user were merged with the change. */
    merged: z.array(z.string()).exactOptional(),
    pushed: gitID
      .exactOptional()
      .describe(
        "The commit as the remote has it, with the names of submodules and large files; absent: `commit` itself",
      ),
  }),
  /**
   * The pull request of the landed work was opened or updated, or its state changed. Written after its branch was
   * pushed; the forge is first asked whether an earlier attempt succeeded.
   */
  "landing.proposed": pullRequest.omit({}).extend({
    commit: gitID.describe("The commit of its branch to which it was updated"),
  }),
  /** Files that can make Git run programs were changed while a command of this Task ran: the Task ends. */
  "git.tampered": z.object({
    files: z.array(
      z.object({
        path: z.string(),
        change: z.enum(["added", "changed", "removed"]),
        restored: z.boolean().describe("It was restored to its state before the command"),
        kept: z.string().nullable().describe("Where the changed version is kept"),
      }),
    ),
  }),
} as const;

export type Given = z.infer<typeof given>;
export type Snapshot = z.infer<typeof snapshot>;
export type LandedPath = z.infer<typeof landedPath>;
