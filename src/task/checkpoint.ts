import type { Checkpoint } from "../domain/state/task.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Repositories, RepositoryPlace } from "../repository/repository.ts";
import type { Store } from "../store/store.ts";
import { repositoryPlace } from "./repository-place.ts";
import type { Run } from "./run.ts";

/**
 * Checkpoints: keeps a Task's commits where all nodes reach them, so that another node can continue from there when
 * this one is gone. Decisions 0274 and 0299.
 */

/** A larger pack is not kept, because all nodes share the space for checkpoints. */
const mostBytes = 28 * 1024 * 1024;

type Kept = EventData["checkpoint.kept"];

/**
 * Packs the commits that the base does not contain, and stores the pack as a blob. `told`: the fields of the
 * `checkpoint.kept` event that describe the pack. `bytes`: the size of the pack. undefined: the pack would exceed
 * `mostBytes`, which is logged; nothing was stored.
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
 * Keeps the Task's commit where other nodes reach it, together with `pushed`, the commit that is to be pushed in its
 * stead, if any. Does nothing when there are no other nodes, or when the commit is kept already.
 */
export const keepCheckpoint = async (run: Run, pushed?: string): Promise<void> => {
  const { repository, tree, workspace, checkpoint, sessions } = run.state();
  const base = workspace?.baseCommit;
  if (run.store.nodes === undefined || repository === null || tree === null || base == null) return;
  const { commit, tree: treeID } = tree;
  if (checkpoint?.commit === commit && checkpoint.base === base && (pushed === undefined || pushed === commit)) return;
  // Forks in which a session is still working stay part of the checkpoint.
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
 * Brings the newest checkpoint into the mirror, which already has what the remote has now. Falls back to the checkpoint
 * before it when the newest one is damaged or the remote no longer has its base. null: neither can be restored.
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

/**
 * Reads the checkpoint's pack into the mirror, if it is needed. Resolves to whether the mirror then has the
 * checkpoint's commit and its base.
 */
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
