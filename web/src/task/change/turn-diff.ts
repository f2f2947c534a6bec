import { formatPatch, structuredPatch } from "diff";
import type { Turn } from "../conversation/fold.ts";

/**
 * The changes of one turn, from the arguments of the calls that write files. Changes that commands made are only in the
 * commit's diff.
 */

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

const between = (path: string, before: string, after: string, created: boolean): string => {
  const patch = structuredPatch(`a/${path}`, `b/${path}`, before, after, "", "", { context: 3 });
  if (patch.hunks.length === 0) return "";
  const body = formatPatch(patch)
    .split("\n")
    .filter((line) => !line.startsWith("====") && !line.startsWith("Index:"));
  const head = created ? [`new file mode 100644`] : [];
  return [`diff --git a/${path} b/${path}`, ...head, ...body].join("\n");
};

const ofCall = ({ tool, input }: Turn["calls"][number]): string => {
  if (typeof input !== "object" || input === null) return "";
  const given = input as Record<string, unknown>;
  const path = text(given["path"]);
  switch (tool) {
    case "write": {
      const content = text(given["content"]);
      return path === undefined || content === undefined ? "" : between(path, "", content, true);
    }
    case "edit": {
      const edits = Array.isArray(given["edits"]) ? (given["edits"] as { old?: unknown; new?: unknown }[]) : [];
      if (path === undefined) return "";
      return edits.map((edit) => between(path, text(edit.old) ?? "", text(edit.new) ?? "", false)).join("\n");
    }
    case "apply_patch": {
      const patch = text(given["patch"]) ?? "";
      return /^(?:diff --git|--- )/m.test(patch) ? patch : "";
    }
    default:
      return "";
  }
};

const known = new WeakMap<Turn, string>();

export const patchesOf = (turn: Turn): string => {
  const kept = known.get(turn);
  if (kept !== undefined) return kept;
  const made = turn.calls
    .filter(({ state }) => state === "ok")
    .map(ofCall)
    .filter((patch) => patch !== "")
    .join("\n");
  known.set(turn, made);
  return made;
};
