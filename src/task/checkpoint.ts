import type { Checkpoint } from "../domain/state/task.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Repositories, RepositoryPlace } from "../repository/repository.ts";
import type { Store } from "../store/store.ts";
import { repositoryPlace } from "./repository-place.ts";
import type { Run } from "./run.ts";

/**
 * What of a Task's work is kept where other nodes reach it, which go on from there when this one is gone. Decisions
 * 0274 and 0299.
 */

/** A change that takes more is not kept, as all nodes share the room for it. */
const mostBytes = 28 * 1024 * 1024;

type Kept = EventData["checkpoint.kept"];

/**
 * Stores the commits, as far as the base does not have them. `told`: what the event says of that. `bytes`: that it
 * takes. undefined: they are too many.
 */
export const storeCommits = async (
  run: Pick<Run, "state" | "store" | "stream" | "repositories" | "log">,
  wanted: { commits: readonly string[]; base: string; thin?: boolean },
  signal: AbortSignal,
): Promise<{ told: Pick<Kept, "pack" | "whole">; bytes: number } | undefined> => {
  await using packed = await run.repositories.packed(repositoryPlace(run), { ...wanted, mostBytes }, signal);
  if (packed === undefined) {
    run.log.warn({ task: run.stream, mostBytes }, "what was changed is too large to be kept for other nodes");
    return undefined;
  }
  const pack = await run.store.blobs.write(packed.pieces, true);
  return { told: { pack, ...(packed.whole ? { whole: true } : {}) }, bytes: packed.bytes };
};

/**
 * Keeps the Task's commit, and what is to be pushed in its place, where other nodes reach it. Does nothing where there
 * are none, and for a commit that is kept already.
 */
export const keepCheckpoint = async (run: Run, pushed?: string): Promise<void> => {
  const { repository, tree, workspace, checkpoint, sessions } = run.state();
  const base = workspace?.baseCommit;
  if (run.store.nodes === undefined || repository === null || tree === null || base == null) return;
  const { commit, tree: treeID } = tree;
  if (checkpoint?.commit === commit && checkpoint.base === base && (pushed === undefined || pushed === commit)) return;
  // Those that others work in go on being kept.
  const isOpen = (name: string) => sessions.some(({ fork, end }) => fork?.name === name && end === null);
  const forks = checkpoint?.base === base ? (checkpoint.forks ?? []).filter(({ name }) => isOpen(name)) : [];
  const commits = [...new Set([commit, pushed ?? commit, ...forks.map((fork) => fork.commit)])];
  const isBase = commit === base && forks.length === 0;
  const stored = isBase ? { told: { pack: null } } : await storeCommits(run, { commits, base }, run.signal);
  if (stored === undefined) return;
  await recordCheckpoint(run, { commit, tree: treeID, base, forks }, stored.told);
  await run.checkpoints.release();
};

export const recordCheckpoint = (
  run: Pick<Run, "record">,
  { forks = [], ...kept }: Omit<Kept, "pack" | "whole">,
  told: Pick<Kept, "pack" | "whole">,
): Promise<boolean> =>
  run.record([{ type: "checkpoint.kept", data: { ...kept, ...told, ...(forks.length > 0 ? { forks } : {}) } }]);

/**
 * Brings the newest checkpoint into the mirror, which has what the remote has now; where it is damaged, or the remote
 * no longer has what it is based on, the one before. null: neither is to be had.
 */
export const fetchCheckpoint = async (
  run: Pick<Run, "state" | "repositories" | "store" | "signal">,
): Promise<Checkpoint | null> => {
  const { checkpoint } = run.state();
  const place = repositoryPlace(run);
  for (const kept of [checkpoint, checkpoint?.before ?? null])
    if (kept !== null && (await bringCheckpoint(run, place, kept, run.signal))) return kept;
  return null;
};

/** Whether the mirror has a checkpoint's commit and its base, once its pack was read. */
export const bringCheckpoint = async (
  { repositories, store }: { repositories: Pick<Repositories, "has" | "unpack">; store: Pick<Store, "blobs"> },
  place: RepositoryPlace,
  { commit, base, pack, whole, forks = [] }: Checkpoint,
  signal: AbortSignal,
): Promise<boolean> => {
  const has = async (ids: readonly string[]) =>
    (await Promise.all(ids.map((id) => repositories.has(place, id)))).every((found) => found);
  const isThere = () => has([commit, base]);
  if (await has([commit, base, ...forks.map((fork) => fork.commit)])) return true;
  if (pack === null || !(whole === true || (await repositories.has(place, base)))) return await isThere();
  const kept = await store.blobs.read(pack.sha256);
  if (kept !== undefined) await repositories.unpack(place, kept.pieces, signal);
  return isThere();
};
