import type { StreamID } from "../domain/event.ts";
import { ServiceError } from "../error.ts";

/** Nodes: several services of one database, each with its own data folder. A store without a name has none. */

/**
 * What a node reports of itself. `room`: how many more runs it would begin; `diskFree`: bytes; `tier`: of its sandbox;
 * `draining`: it begins no more runs.
 */
export type NodeReport = {
  role: Role;
  running: number;
  room: number;
  diskFree: number;
  tier: number;
  draining: boolean;
  configuration: Configuration | null;
  browser: boolean;
  hasSpace: boolean;
  /** Where it answers other nodes; null: nowhere. */
  url: string | null;
};

/** The parts of a configuration that affect a Task; a `Configuration` has their digests. */
export const configurationParts = ["squads", "permissions", "providers", "limits"] as const;
export type ConfigurationPart = (typeof configurationParts)[number];
export type Configuration = Record<ConfigurationPart, string>;

/** What a Task requires of the node that takes it up. `tier`: the node's sandbox must not be weaker. */
export type Terms = Configuration & { tier: number; browser: boolean };

/**
 * What a node offers to Tasks that any node may take up. `configuration` null: unknown, as with an older version, which
 * takes up every Task. `hasSpace`: on its disk, for a new Task.
 */
export type Offer = { configuration: Configuration | null; tier: number; browser: boolean; hasSpace: boolean };

/** The parts in which two configurations differ; none if one of them is unknown. */
export const differing = (one: Configuration | null, other: Configuration | null): ConfigurationPart[] =>
  one === null || other === null ? [] : configurationParts.filter((part) => one[part] !== other[part]);

/** Why a node does not take up a Task, in words; empty: it does. */
export const unmetTerms = (terms: Terms | null, { configuration, tier, browser, hasSpace }: Offer): string[] => [
  ...(hasSpace ? [] : ["no room on its disk"]),
  ...(terms === null ? [] : differing(terms, configuration).map((part) => `other ${part}`)),
  ...(terms !== null && tier > terms.tier ? ["a weaker sandbox"] : []),
  ...(terms?.browser === true && !browser ? ["no browser"] : []),
];

/** Why no node takes up a Task; undefined: one does, when it has room. */
export const reasonNotTaken = (terms: Terms | null, takers: ReadonlyMap<string, Offer>): string | undefined => {
  if (takers.size === 0) return "waits for a node that runs Tasks, and none is up: start one";
  const why = [...takers].map(([name, offer]) => [name, unmetTerms(terms, offer)] as const);
  if (why.some(([, lacks]) => lacks.length === 0)) return undefined;
  const each = why.map(([name, lacks]) => `${name} has ${lacks.join(", ")}`).join("; ");
  return `waits for a node like the one that accepted it: ${each}`;
};

/** Milliseconds after which a node that was not heard of is lost; its claims end with it. */
export const lostMs = 10_000;

/**
 * `all`: answers requests and runs what is due; `api`: only answers requests; `worker`: runs what is due, and answers
 * only requests about itself.
 */
export type Role = "all" | "api" | "worker";

export type Node = Omit<NodeReport, "draining"> & {
  name: string;
  version: string;
  host: string;
  /** `stopped`: it shut down cleanly. `lost`: not heard of for ten seconds. */
  state: "up" | "draining" | "stopped" | "lost";
  startedAt: string;
  seenAt: string;
};

/** A node as it is listed. `differs`: from the configuration of the node that is asked. */
export type ListedNode = Omit<Node, "configuration" | "url"> & { differs: ConfigurationPart[] };

/** `untaken`: Tasks that no node takes up, and why. */
export type NodeList = {
  self: string | null;
  nodes: ListedNode[];
  untaken: { taskID: string; reason: string }[];
};

export type SharedPackage = { digest: string; files: readonly { path: string; bytes: Buffer }[] };

/**
 * The packages for every project, which all nodes of a database share: the newest of each in full, or the fact that it
 * was removed.
 */
export interface SharedSquads {
  /**
   * By id. `digest` null: removed. `seen`: the digest on which this data folder and the database last agreed; null:
   * none.
   */
  list(): Promise<Map<string, { digest: string | null; seen: string | null }>>;
  /** undefined: there is none, or it was removed. */
  read(id: string): Promise<SharedPackage | undefined>;
  /**
   * Replaces the package with the digest `before` (null: none, or a removed one) by `after`, or removes it (`after`
   * null). Resolves to false if the package has another digest.
   */
  replace(id: string, before: string | null, after: SharedPackage | null): Promise<boolean>;
  /** Records that this data folder and the database agree on this digest; null: on having no package. */
  note(id: string, digest: string | null): Promise<void>;
}

export type Words = readonly (string | number)[];

/**
 * The node that has a stream's files, if it is not this one. `movable`: another node takes the stream up if that node
 * is lost or begins nothing.
 */
export type Placed = { node: string; seenAt: string | null; isUp: boolean; movable: boolean };

/**
 * A directory in which something was begun. `node`: the node that owns it, on the machine `host`, and `isUp` whether
 * that node is there. `node` null: no single node owns it, as each keeps its own files of this repository. `git`: it
 * has commits.
 */
export type KnownDirectory = {
  node: string | null;
  host: string | null;
  isUp: boolean;
  project: string;
  git: boolean;
  repository: { url: string; ref: string | null } | null;
};

/**
 * The right to do something that one node at a time does. `isHeld`: false once the database cannot be reached, because
 * another node may then do it.
 */
export type Turn = AsyncDisposable & { isHeld(): boolean };

export interface Nodes {
  /** This node's name. */
  readonly name: string;
  /** Takes the turn of this name until disposed, or until this node ends; undefined: somebody else has it. */
  turn(name: string): Promise<Turn | undefined>;
  /**
   * Calls the listener when another node has made a stream due. A call may be lost, and may be for a stream that is not
   * run here.
   */
  onDue(listener: (stream: StreamID, due: { at: Date; rank: number }) => void): Disposable;
  /** What is known of directories with this path, on any node. */
  directories(path: string): Promise<KnownDirectory[]>;
  /** Those of the streams whose files another node has; only that node runs them. */
  elsewhere(streams: readonly StreamID[]): Promise<Map<StreamID, Placed>>;
  /**
   * Tells the other nodes something that the log does not have. A node that does not hear it will not learn of it
   * later.
   */
  tell(topic: string, words: Words): void;
  /** Calls the listener with what other nodes tell of a topic. The words are not validated. */
  onTold(topic: string, listener: (words: readonly unknown[]) => void): Disposable;
  /** Declares what this node offers from now on; until then, it takes up every Task. */
  offer(offer: () => Offer): void;
  /** The nodes that begin what is due: those that are up, are not draining, and do not have the role `api`. */
  takers(): Promise<Map<string, Offer>>;
  /**
   * Those of the streams that any node may take up, with their terms: they have no node yet, or one that is lost or
   * begins nothing.
   */
  unplaced(streams: readonly StreamID[]): Promise<Map<StreamID, Terms | null>>;
  /** Due streams that any node may take up, with their terms; at most a thousand. */
  untaken(): Promise<Map<StreamID, Terms | null>>;
  /** Streams whose files are still here though nobody needs them: another node erased the stream, or took it over. */
  unneeded(): Promise<StreamID[]>;
  /** Records that the files of such a stream are removed. */
  removed(stream: StreamID): Promise<void>;
  /** The browser sessions that were logged out at any node: their marks, and when they would have ended. */
  endedSessions(): Promise<[mark: string, until: number][]>;
  endSession(mark: string, until: number): Promise<void>;
}

/** Rejects with `node_away` if another node has the stream's files. */
export const expectLocalFiles = async (nodes: Nodes | undefined, stream: StreamID): Promise<void> => {
  const placed = (await nodes?.elsewhere([stream]))?.get(stream);
  if (placed !== undefined) throw nodeAwayError(nodes, stream, placed);
};

/** The error of a request that needs files which only another node has. */
export const nodeAwayError = (
  nodes: Pick<Nodes, "name"> | undefined,
  stream: StreamID,
  { node, seenAt, isUp }: Placed,
): ServiceError =>
  new ServiceError(
    "node_away",
    `Expected the node ${node}, which has the files of ${stream}, got ${nodes?.name}.${isUp ? "" : ` ${node} ${lastSeen(seenAt)}.`}`,
    { details: { node, seenAt, up: isUp } },
  );

/** When an absent node was last heard of, in words. */
export const lastSeen = (seenAt: string | null): string =>
  seenAt === null ? "is not known" : `was last heard of at ${seenAt}`;
