import { inThread } from "../../thread.ts";
import { FileRefused } from "../../workspace/file/files.ts";
import type { TreeGit } from "../../workspace/tree/tree-git.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { change, contentOf, type Fitted, type Tree } from "../file/change.ts";
import { failed, ok, shown } from "../result.ts";
import type { ToolContext, ToolResult } from "../tool.ts";
import { fit, type FitAnswer, type FitRequest, fitting } from "./patch-fit.ts";
import type { ApplyMode } from "./patch-read.ts";

/**
 * Applies a patch. All of it is computed in memory and in a temporary index; the files change only if everything fits,
 * and then through `files` like any other write.
 */

export const apply = async (
  workspace: Workspace,
  patch: string,
  mode: ApplyMode,
  signal: AbortSignal,
  touched?: ToolContext["touched"],
): Promise<ToolResult> => {
  const { git } = workspace;
  const asked = { patch, mode, git: git !== undefined };
  let request: FitRequest = asked;
  for (;;) {
    const answer = await fitted(request, signal);
    const before = answer.before;
    switch (answer.kind) {
      case "says":
        return answer.ok ? ok(answer.text) : failed(answer.text);
      case "refused":
        throw new FileRefused(answer.refusal.kind, answer.refusal.message);
      case "files": {
        const loaded = await load(workspace, answer.paths);
        if ("refused" in loaded) return failed(loaded.refused);
        request = { ...asked, before: loaded.tree };
        break;
      }
      case "three-way": {
        if (git === undefined || before === undefined)
          throw new Error("Expected a repository and the files, got none.");
        request = { ...asked, before, merged: await fitByGit(git, before, answer.text, answer.strip) };
        break;
      }
      case "change": {
        const changes = answer.changes.map(({ path, after }) => ({ path, before: before?.get(path) ?? null, after }));
        await change(workspace.files, changes);
        touched?.(
          changes.map(({ path, before: had, after }) => ({
            path,
            before: had?.bytes ?? null,
            ...(after === null ? { gone: true } : {}),
          })),
        );
        return ok(answer.summary);
      }
    }
  }
};

/** Largest patch with its files, in bytes together, that is fitted here rather than in a thread. */
const mostAtOnce = 128 * 1024;
/** Limit for all files together, in bytes. */
const mostBytes = 128 * 1024 * 1024;

const sizeOf = (tree: Tree | undefined): number =>
  [...(tree ?? [])].reduce((sum, [, content]) => sum + (content?.bytes.length ?? 0), 0);

const fitted = async (request: FitRequest, signal: AbortSignal): Promise<FitAnswer> => {
  const small = request.patch.length + sizeOf(request.before) <= mostAtOnce;
  const quick = small ? fit({ ...request, little: true }) : "too much";
  if (quick !== "too much") return quick;
  const give = [...(request.before ?? [])].flatMap(([, content]) => (content === null ? [] : [content.bytes]));
  const answer = await inThread(fitting, request, { signal, give });
  if (answer === "too much") throw new Error("Expected a patch without a bound on effort to have an end.");
  return answer;
};

const load = async (workspace: Workspace, paths: readonly string[]): Promise<{ tree: Tree } | { refused: string }> => {
  const tree: Tree = new Map();
  let left = mostBytes;
  for (const path of paths) {
    const content = await contentOf(workspace.files, path);
    left -= content?.bytes.length ?? 0;
    if (left < 0)
      return { refused: `Expected files of at most ${mostBytes} bytes together, got more; nothing was changed.` };
    tree.set(path, content);
  }
  return { tree };
};

const binaryPatch = /^GIT binary patch$/m;

/**
 * Fits the patch with `git apply --3way`, on a temporary index that holds only these files in their present state. The
 * work tree is the project's root, so that paths mean the same when the project is a folder of a repository.
 */
const fitByGit = async (git: TreeGit, before: Tree, text: string, strip: 0 | 1): Promise<Fitted> => {
  using index = git.temporary();
  const root = "--work-tree=.";
  const env = { GIT_INDEX_FILE: index.path };
  const writes = { writes: true };
  const entries: string[] = [];
  for (const [path, content] of before) {
    if (content === null) continue;
    const object = await git.run([root, "hash-object", "-w", "--stdin"], { input: content.bytes, ...writes });
    entries.push(`${content.executable ? "100755" : "100644"} ${object.stdout.toString().trim()} 0\t${path}\0`);
  }
  await git.run([root, "update-index", "-z", "--index-info"], { env, input: entries.join(""), ...writes });
  const args = ["apply", "--cached", "--3way", "--whitespace=nowarn", `-p${strip}`, "-"];
  const applied = await git.run([root, ...args], { env, input: text, ok: [0, 1, 128], ...writes });

  const tree: Tree = new Map([...before.keys()].map((path) => [path, null]));
  const conflicts = new Set<string>();
  const listed = await git.run([root, "ls-files", "-s", "-z"], { env });
  for (const entry of listed.stdout.toString("utf8").split("\0")) {
    const [, kind = "", object = "", stage, path = ""] = /^(\d+) (\w+) (\d)\t(.*)$/s.exec(entry) ?? [];
    if (stage === undefined) continue;
    if (stage !== "0") conflicts.add(path);
    else if (applied.exitCode === 0)
      tree.set(path, {
        bytes: (await git.run([root, "cat-file", "blob", object])).stdout,
        executable: kind === "100755",
      });
  }
  if (!binaryPatch.test(text) && applied.stderr.includes("Falling back to direct application"))
    return { ok: false, why: "Three-way, it does not apply: the versions it was made from are not known here." };
  if (conflicts.size > 0)
    return { ok: false, why: `Three-way, it conflicts in ${[...conflicts].map(shown).join(", ")}.` };
  if (applied.exitCode !== 0)
    return {
      ok: false,
      why: `git apply: ${applied.stderr
        .trim()
        .replaceAll(/^error: /gm, "")
        .slice(0, 2000)}`,
    };
  return { ok: true, tree };
};
