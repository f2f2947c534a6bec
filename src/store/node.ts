import type { StreamID } from "../domain/event.ts";
import { ServiceError } from "../error.ts";

/** Several services of one database, each with a data folder of its own: nodes. A store without a name has none. */

/**
 * What a node says of itself. `room`: how many more runs it would begin; `diskFree`: bytes; `tier`: of its sandbox;
 * `draining`: it begins nothing more.
 */
export type NodeReport = {
  role: Role;
  running: number;
  room: number;
  diskFree: number;
  tier: number;
  draining: boolean;
};

/** `all`: it answers requests and runs what is due; `api`: it runs nothing; `worker`: it answers about itself alone. */
export type Role = "all" | "api" | "worker";

export type Node = Omit<NodeReport, "draining"> & {
  name: string;
  version: string;
  host: string;
  /** `stopped`: in good order. `lost`: not heard of for ten seconds. */
  state: "up" | "draining" | "stopped" | "lost";
  startedAt: string;
  seenAt: string;
};

/** Where a stream's files are, if not here. `movable`: another node takes it up where that one is lost. */
export type Placed = { node: string; seenAt: string | null; isUp: boolean; movable: boolean };

/**
 * A directory in which something was begun. `node`: whose it is; null: each keeps such files for this repository by itself.
 * `git`: it has commits.
 */
export type KnownDirectory = {
  node: string | null;
  project: string;
  git: boolean;
  repository: { url: string; ref: string | null } | null;
};

export interface Nodes {
  /** This one's name. */
  readonly name: string;
  /** Calls the listener when another node has made a stream due. May be lost, and may be of a stream that is not run here. */
  onDue(listener: (stream: StreamID, due: { at: Date; rank: number }) => void): Disposable;
  /** What is known of the directories of this path, on any node. */
  directories(path: string): Promise<KnownDirectory[]>;
  /** Those of the streams whose files are another node's, which alone runs them. */
  elsewhere(streams: readonly StreamID[]): Promise<Map<StreamID, Placed>>;
  /** The nodes that begin what is due: those that are there, but for the ones that drain or have the role `api`. */
  takers(): Promise<Set<string>>;
  /** Those of the streams that belong to no node: whichever takes them up has them. */
  unplaced(streams: readonly StreamID[]): Promise<Set<StreamID>>;
  /** Streams whose files are still here though nobody needs them: another node erased the stream, or took it over. */
  unneeded(): Promise<StreamID[]>;
  /** The files of such a stream are removed. */
  removed(stream: StreamID): Promise<void>;
}

/** Rejects with `node_away` if the stream's files are another node's. */
export const mustBeHere = async (nodes: Nodes | undefined, stream: StreamID): Promise<void> => {
  const placed = (await nodes?.elsewhere([stream]))?.get(stream);
  if (placed === undefined) return;
  const { node, seenAt, isUp } = placed;
  throw new ServiceError(
    "node_away",
    `Expected the node ${node}, which has the files of ${stream}, got ${nodes?.name}.${isUp ? "" : ` ${node} ${lastSeen(seenAt)}.`}`,
    { details: { node, seenAt, up: isUp } },
  );
};

/** When a node that is away was there, in words. */
export const lastSeen = (seenAt: string | null): string =>
  seenAt === null ? "is not known" : `was last heard of at ${seenAt}`;
