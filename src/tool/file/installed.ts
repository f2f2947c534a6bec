import { relative } from "node:path";
import { componentsOf } from "../../workspace/file/files.ts";
import { shown } from "../result.ts";
import type { ToolContext } from "../tool.ts";

/**
 * Advice for a path in a dependency folder that commands see and the file tools do not, because it is mounted for
 * commands only; undefined for every other path.
 */
export const installedNote = (
  { workspace, has }: Pick<ToolContext, "workspace" | "has">,
  path: string,
): string | undefined => {
  const { worktree, root } = workspace.prepared;
  if (worktree === null || workspace.dependencies.length === 0) return undefined;
  const parts = [...componentsOf(relative(worktree, root)), ...componentsOf(workspace.files.inside(path))];
  const folder = workspace.dependencies.find(
    (given) => (given.how === "layer" || given.how === "read-only") && isBelow(parts, componentsOf(given.path)),
  );
  if (folder === undefined) return undefined;
  const look = has("shell")
    ? "look at it with `shell`, e.g. `ls`, `sed -n 1,200p` or `grep -rn`."
    : "you have none, so what has to be looked up there is for your answer to name.";
  return `${shown(folder.path)} is installed, and there for commands alone: ${look}`;
};

const isBelow = (parts: readonly string[], folder: readonly string[]): boolean =>
  folder.length > 0 && folder.every((name, at) => parts[at] === name);
