import type { Content } from "./change.ts";

/** The files that a patch is about, in memory: as they are, and as they would be. */

export type Tree = Map<string, Content | null>;
export type Fitted = { ok: true; tree: Tree } | { ok: false; why: string };
