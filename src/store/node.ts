import type { StreamID } from "../domain/event.ts";
import { ServiceError } from "../error.ts";

/** Several services of one database, each with a data folder of its own: nodes. A store without a name has none. */

/**
 * What a node says of itself. `room`: how many more runs it would begin; `diskFree`: bytes; `tier`: of its sandbox;
 * `draining`: it begins nothing more.
 */
export type NodeReport = { running: number; room: number; diskFree: number; tier: number; draining: boolean };

export type Node = Omit<NodeReport, "draining"> & {
  name: string;
  version: string;
  host: string;
  /** `stopped`: in good order. `lost`: not heard of for ten seconds. */
  state: "up" | "draining" | "stopped" | "lost";
  startedAt: string;
  seenAt: string;
};

/** Where a stream's files are, if not here. */
export type Placed = { node: string; seenAt: string | null; isUp: boolean };

export interface Nodes {
  /** This one's name. */
  readonly name: string;
  /** Those of the streams whose files are another node's, which alone runs them. */
  elsewhere(streams: readonly StreamID[]): Promise<Map<StreamID, Placed>>;
  /** Erased streams whose files are still here; another node erased them. */
  erased(): Promise<StreamID[]>;
  /** The files of an erased stream are removed. */
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
