import type { LandedPath } from "../../protocol/event/workspace.ts";
import { holdsOnly, inspectFile, readFileState } from "../file/inspect.ts";
import { replaceFile } from "../file/replace.ts";
import { landedContent, type LandedFile } from "./content.ts";
import type { LandRequest } from "./request.ts";

/** Compares a path on disk with what a landing's plan says of it, and writes a path. */

export type PathState = { mode: string; sha256: string; stamp: string } | "absent" | "special";

export const stateOf = async (root: string, path: string): Promise<PathState> => {
  const found = await inspectFile(root, path);
  switch (found.kind) {
    case "present":
      return found.content;
    case "special":
      return "special";
    // git tracks no folders. Anything in the way belongs to another path, of the plan or of the user.
    case "absent":
    case "blocked":
    case "folder":
      return "absent";
  }
};

const isLink = (mode: string) => mode === "120000";

/** Whether the file is as wanted. The executable bit counts only if nothing else changes: some file systems lose it. */
export const matchesState = (
  state: PathState,
  wanted: LandedPath["before"],
  { before, after }: LandedPath,
): boolean => {
  if (wanted === null || typeof state === "string") return wanted === null && state === "absent";
  const modeOnly = before?.sha256 === after?.sha256;
  const sameMode = modeOnly ? state.mode === wanted.mode : isLink(state.mode) === isLink(wanted.mode);
  return state.sha256 === wanted.sha256 && sameMode;
};

/** The stamp to pass to `replaceFile` if the file is as wanted, else undefined. */
export const stampIfMatches = (state: PathState, wanted: LandedPath["before"], path: LandedPath): string | undefined =>
  matchesState(state, wanted, path) ? (typeof state === "string" ? "-" : state.stamp) : undefined;

/**
 * Whether the path is free to be written. false: something of the user's is in the way, a file where a folder must be
 * or a folder that is not empty.
 */
export const hasRoom = async (root: string, path: string): Promise<boolean> => {
  const found = await readFileState(root, path, 0);
  return found.kind !== "blocked" && (found.kind !== "folder" || (await holdsOnly(root, path, new Set())));
};

/** Writes a path of the landing; false as from `hasRoom`, or as from `replaceFile`. */
export const writeFile = async (
  request: LandRequest,
  path: string,
  wanted: LandedFile,
  ready?: () => Promise<string | undefined>,
): Promise<boolean> => {
  const root = request.record.toplevel;
  if (!(await hasRoom(root, path))) return false;
  return replaceFile(root, path, await landedContent(request, path, wanted), request.taskID, ready);
};
