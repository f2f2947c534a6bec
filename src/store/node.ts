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
  configuration: Configuration | null;
  browser: boolean;
  hasSpace: boolean;
  /** Where it answers other nodes; null: nowhere. */
  url: string | null;
};

/** The parts of a configuration that decide a Task, by their digests. */
export const configurationParts = ["squads", "permissions", "providers", "limits"] as const;
export type ConfigurationPart = (typeof configurationParts)[number];
export type Configuration = Record<ConfigurationPart, string>;

/** What a Task asks of the node that takes it up. `tier`: of a sandbox that is no weaker. */
export type Terms = Configuration & { tier: number; browser: boolean };

/**
 * What a node has for Tasks that any node may take up. `configuration` null: it is not known, as of an older version,
 * which takes whatever comes. `hasSpace`: on its disk, for a new Task.
 */
export type Offer = { configuration: Configuration | null; tier: number; browser: boolean; hasSpace: boolean };

/** The parts in which two configurations differ. */
export const differing = (one: Configuration | null, other: Configuration | null): ConfigurationPart[] =>
  one === null || other === null ? [] : configurationParts.filter((part) => one[part] !== other[part]);

/** Why a node does not take a Task up, in words; none: it does. */
export const lacking = (terms: Terms | null, { configuration, tier, browser, hasSpace }: Offer): string[] => [
  ...(hasSpace ? [] : ["no room on its disk"]),
  ...(terms === null ? [] : differing(terms, configuration).map((part) => `other ${part}`)),
  ...(terms !== null && tier > terms.tier ? ["a weaker sandbox"] : []),
  ...(terms?.browser === true && !browser ? ["no browser"] : []),
];

/** Why none of the nodes takes a Task up; undefined: one does, when it has room. */
export const untakenBy = (terms: Terms | null, takers: ReadonlyMap<string, Offer>): string | undefined => {
  if (takers.size === 0) return "waits for a node that runs Tasks, and none is up: start one";
  const why = [...takers].map(([name, offer]) => [name, lacking(terms, offer)] as const);
  if (why.some(([, lacks]) => lacks.length === 0)) return undefined;
  const each = why.map(([name, lacks]) => `${name} has ${lacks.join(", ")}`).join("; ");
  return `waits for a node like the one that accepted it: ${each}`;
};

/** A node that was not heard of for so long is lost, in milliseconds; its claims end with it. */
export const lostMs = 10_000;

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

/** As others are shown it. `differs`: from the configuration of the node that is asked. */
export type ListedNode = Omit<Node, "configuration" | "url"> & { differs: ConfigurationPart[] };

/** `untaken`: Tasks that no node takes, and why. */
export type NodeList = {
  self: string | null;
  nodes: ListedNode[];
  untaken: { taskID: string; reason: string }[];
};

export type SharedPackage = { digest: string; files: readonly { path: string; bytes: Buffer }[] };

/**
 * The packages for every project, which all nodes of a database have: the newest of each in full, or that it was
 * removed.
 */
export interface SharedSquads {
  /** By id. `digest` null: removed. `seen`: the digest that this data folder last had in common; null: it had none. */
  list(): Promise<Map<string, { digest: string | null; seen: string | null }>>;
  /** undefined: there is none, or it was removed. */
  read(id: string): Promise<SharedPackage | undefined>;
  /**
   * Replaces the package of this digest (null: none, or a removed one) by another, or removes it; false: it is another
   * one.
   */
  replace(id: string, before: string | null, after: SharedPackage | null): Promise<boolean>;
  /** This data folder now has in common what is of this digest; null: no package. */
  note(id: string, digest: string | null): Promise<void>;
}

export type Words = readonly (string | number)[];

/**
 * Where a stream's files are, if not here. `movable`: another node takes it up where that one is lost or begins
 * nothing.
 */
export type Placed = { node: string; seenAt: string | null; isUp: boolean; movable: boolean };

/**
 * A directory in which something was begun. `node`: whose it is, on which machine, and whether it is there; null: each
 * keeps such files for this repository by itself. `git`: it has commits.
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
 * Something that one node at a time does. `isHeld`: false once the database cannot be reached, as another may do it
 * then.
 */
export type Turn = AsyncDisposable & { isHeld(): boolean };

export interface Nodes {
  /** This one's name. */
  readonly name: string;
  /**
   * Has what goes by this name to itself until disposed, or until this node ends; undefined: somebody else is at it.
   */
  turn(name: string): Promise<Turn | undefined>;
  /**
   * Calls the listener when another node has made a stream due. May be lost, and may be of a stream that is not run
   * here.
   */
  onDue(listener: (stream: StreamID, due: { at: Date; rank: number }) => void): Disposable;
  /** What is known of the directories of this path, on any node. */
  directories(path: string): Promise<KnownDirectory[]>;
  /** Those of the streams whose files are another node's, which alone runs them. */
  elsewhere(streams: readonly StreamID[]): Promise<Map<StreamID, Placed>>;
  /** Tells the other nodes something that the log does not have. Lost where one of them does not hear it. */
  tell(topic: string, words: Words): void;
  /** Calls the listener with what other nodes tell of a topic, as it stands in the database. */
  onTold(topic: string, listener: (words: readonly unknown[]) => void): Disposable;
  /** Says what this node has from now on; before, it takes up whatever comes. */
  offer(offer: () => Offer): void;
  /** The nodes that begin what is due: those that are there, but for the ones that drain or have the role `api`. */
  takers(): Promise<Map<string, Offer>>;
  /**
   * Those of the streams that any node may take up, with what they ask for: of no node yet, or of one that is lost or
   * begins nothing.
   */
  unplaced(streams: readonly StreamID[]): Promise<Map<StreamID, Terms | null>>;
  /** What is due and may be taken up by any node, at most a thousand. */
  untaken(): Promise<Map<StreamID, Terms | null>>;
  /** Streams whose files are still here though nobody needs them: another node erased the stream, or took it over. */
  unneeded(): Promise<StreamID[]>;
  /** The files of such a stream are removed. */
  removed(stream: StreamID): Promise<void>;
  /** The sessions of browsers that were logged out at any node: their marks, and when they would have ended. */
  endedSessions(): Promise<[mark: string, until: number][]>;
  endSession(mark: string, until: number): Promise<void>;
}

/** Rejects with `node_away` if the stream's files are another node's. */
export const mustBeHere = async (nodes: Nodes | undefined, stream: StreamID): Promise<void> => {
  const placed = (await nodes?.elsewhere([stream]))?.get(stream);
  if (placed !== undefined) throw away(nodes, stream, placed);
};

/** What is said where only another node's files tell something. */
export const away = (
  nodes: Pick<Nodes, "name"> | undefined,
  stream: StreamID,
  { node, seenAt, isUp }: Placed,
): ServiceError =>
  new ServiceError(
    "node_away",
    `Expected the node ${node}, which has the files of ${stream}, got ${nodes?.name}.${isUp ? "" : ` ${node} ${lastSeen(seenAt)}.`}`,
    { details: { node, seenAt, up: isUp } },
  );

/** When a node that is away was there, in words. */
export const lastSeen = (seenAt: string | null): string =>
  seenAt === null ? "is not known" : `was last heard of at ${seenAt}`;
