import { basename, dirname, join } from "node:path";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { isHarmlessConfig, ownStrategies } from "./harmless-setting.ts";
import { isSame, type Seen, statsOf } from "./seen.ts";
import { type Look, type Node, type Place, pointsTo } from "./node.ts";

/** A change of a path between two looks. `now` undefined: it is gone. */
export type Change = { path: string; node: Node; old: Seen | undefined; now: Seen | undefined };

/** Steps of a rebase that run no program: all but `exec`. */
const step =
  /^(?:$|#|(?:pick|p|reword|r|edit|e|squash|s|fixup|f|drop|d|label|l|reset|t|merge|m|update-ref|u|revert)\s|(?:break|b|noop)$)/;

const headForm = /^(?:ref: refs\/[^\s~^:?*[\\]+|[0-9a-f]{40}|[0-9a-f]{64})\s*$/;

const textOf = (seen: Seen): string | undefined => (seen.kind === "file" ? seen.bytes?.toString("latin1") : undefined);

const bytesOf = (seen: Seen | undefined): Buffer | undefined => (seen?.kind === "file" ? seen.bytes : undefined);

/** Two looks at a repository whose outermost Git directory is `root`. */
export type Looks = { root: string; before: Look; after: Look };

/** Whether the change may well be the user's: it makes nothing run and sends nothing elsewhere. */
export const isHarmless = (change: Change, looks: Looks): boolean => {
  const { path, node, old, now } = change;
  const { role, place } = node;
  if (isSame(old, now)) return true;
  // Nothing can run in a worktree that is gone.
  if (now === undefined && isGone(place)) return true;
  const { root } = looks;
  const isNew = !looks.before.nodes.has(place.gitDir);
  switch (role) {
    case "folder":
      return now === undefined ? old?.kind === "folder" : now.kind === "folder" && old?.kind !== "link";
    case "config": {
      const after = bytesOf(now);
      if (after === undefined || (old !== undefined && bytesOf(old) === undefined)) return false;
      const module = place.kind === "module" ? { gitDir: place.gitDir, top: dirname(root) } : undefined;
      return isHarmlessConfig(bytesOf(old), after, { isNew, module });
    }
    case "hook":
      return isHarmlessHook(change);
    case "head":
      return now !== undefined && headForm.test(textOf(now) ?? "");
    case "pointer":
      return isHarmlessPointer(change, looks);
    case "link":
      // As `git worktree add` writes it.
      return isNew && place.kind === "linked" && now !== undefined && isNewLink(path, textOf(now));
    case "todo": {
      if (now === undefined) return true;
      const had = new Set((old === undefined ? "" : (textOf(old) ?? "")).split("\n"));
      return (
        textOf(now)
          ?.split("\n")
          .every((line) => had.has(line) || step.test(line.trim())) ?? false
      );
    }
    case "strategy":
      return now === undefined || ownStrategies.test(textOf(now)?.trim() ?? "-");
    case "plain":
      return false;
  }
};

const isGone = ({ kind, gitDir }: Place): boolean =>
  (kind === "linked" || kind === "nested") && statsOf(gitDir)?.isDirectory() !== true;

const isNewLink = (path: string, text: string | undefined): boolean =>
  basename(path) === "commondir" ? text === "../..\n" : /^[^\n]*\/\.git\n$/.test(text ?? "");

/**
 * A new file in the Git directory's own `hooks` is harmless if it is not executable; elsewhere, other hooks may read
 * it. A changed one is harmless only if its content is the same.
 */
const isHarmlessHook = ({ path, node, old, now }: Change): boolean => {
  if (now?.kind === "folder") return old === undefined;
  if (now?.kind !== "file" || now.bytes === undefined || (now.mode & 0o111) !== 0) return false;
  if (old === undefined) return dirname(path) === join(node.place.gitDir, "hooks");
  return old.kind === "file" && old.bytes?.equals(now.bytes) === true;
};

/** A `.git` file is harmless if it leads to a Git directory that is watched as well. */
const isHarmlessPointer = ({ path, node, old, now }: Change, { root, after }: Looks): boolean => {
  const isGitlink = node.place.kind === "nested" || node.place.kind === "module";
  if (now === undefined) return isGitlink || statsOf(dirname(path)) === undefined;
  // The files in a folder are judged by themselves.
  if (now.kind === "folder") return old === undefined || old.kind === "folder";
  const target = pointsTo(path, now);
  const isWatched = target !== undefined && isWithin(root, target) && after.nodes.get(target)?.place.gitDir === target;
  return isWatched && (isGitlink || old === undefined);
};
