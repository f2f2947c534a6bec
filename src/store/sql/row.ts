import { createHash } from "node:crypto";
import type { DomainEvent, Recorded } from "../../domain/event.ts";
import { missionRevision } from "../../domain/mission/evolve.ts";
import { rowOf } from "../../domain/mission/status.ts";
import { projectOf } from "../../domain/state/project.ts";
import { openAsks } from "../../domain/state/stream.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { taskRevision } from "../../domain/task/evolve.ts";
import { summarise } from "../../domain/view/summary.ts";
import type { TaskSummary } from "../../protocol/task/status.ts";
import type { Json } from "../store.ts";
import { hashesIn } from "./blob-name.ts";
import { evolveFold, type Fold, isMissionFold, revisionOf, streamOf } from "./fold.ts";
import type { Tables } from "./schema.ts";

/** The rows that are derived from a fold, and how to restore a fold from them. */

/** A snapshot is written whenever a stream's version passes a multiple of this, and at the stream's end. */
const snapshotEvery = 64;

export const snapshotDue = (before: number, state: Fold): boolean =>
  state.lifecycle !== "active" || Math.floor(state.version / snapshotEvery) > Math.floor(before / snapshotEvery);

export const eventRow = (event: Recorded): Tables["events"] => ({
  position: event.position,
  stream: event.stream,
  version: event.version,
  type: event.type,
  at: event.at,
  data: JSON.stringify(event.data),
});

export const eventOf = (row: Tables["events"]): Recorded =>
  ({
    type: row.type,
    data: JSON.parse(row.data),
    position: row.position,
    stream: row.stream,
    version: row.version,
    at: row.at,
  }) as Recorded;

/** The blobs that these rows of events name. */
export const blobNames = (rows: readonly Pick<Tables["events"], "stream" | "data">[]): Tables["blob_names"][] =>
  rows.flatMap(({ stream, data }) => hashesIn(data).map((sha256) => ({ sha256, stream })));

export const record = (event: DomainEvent, place: Omit<Recorded, "type" | "data">): Recorded => ({
  ...event,
  ...place,
});

/**
 * The fold of a snapshot, if it was written by the current revision of `evolve`; later events still have to be folded
 * in.
 */
export const fromSnapshot = (snapshot: Tables["snapshots"] | undefined): Fold | undefined =>
  snapshot?.revision === revisionOf(snapshot?.stream ?? "") ? inProject(JSON.parse(snapshot.state) as Fold) : undefined;

/** In a snapshot of an earlier version, the project may have another identity. */
const inProject = (state: Fold): Fold => {
  state.project = projectOf(state);
  return state;
};

export const foldRows = (from: Fold | undefined, rows: readonly Tables["events"][]): Fold | undefined =>
  rows.reduce<Fold | undefined>((state, row) => evolveFold(state, eventOf(row)), from);

export const snapshotRow = (state: Fold): Tables["snapshots"] => ({
  stream: streamOf(state),
  version: state.version,
  revision: revisionOf(streamOf(state)),
  state: JSON.stringify(state),
});

export const taskRow = (state: TaskState): Tables["tasks"] => {
  const summary = summarise(state);
  return {
    stream: state.taskID,
    project: hash(state.project),
    updated: summary.updated,
    lifecycle: state.lifecycle,
    pillar: state.productPillar,
    squad: state.squad.id,
    priority: state.priority,
    archived: state.archived ? 1 : 0,
    revision: taskRevision,
    summary: JSON.stringify(summary),
    mission: state.mission?.sessionID ?? null,
    mission_id: state.mission?.missionID ?? null,
    call: state.mission?.callID ?? null,
    production: state.production?.phase ?? null,
    position: state.position,
    ...overviewOf(summary),
  };
};

/** What a Task counts as in the overview. */
export const overviewOf = ({
  lifecycleStatus,
  phase,
  pendingCount,
  archived,
  settledAt,
}: Pick<TaskSummary, "lifecycleStatus" | "phase" | "pendingCount" | "archived" | "settledAt">): Pick<
  Tables["tasks"],
  "overview" | "settled"
> => {
  if (lifecycleStatus === "active")
    return { overview: pendingCount > 0 ? "need" : phase === "queued" ? "queue" : "run", settled: null };
  return lifecycleStatus === "failed" && !archived && settledAt !== null
    ? { overview: "failed", settled: Date.parse(settledAt) }
    : { overview: null, settled: null };
};

/** The unique name of a Mission: its id within its project. */
export const nameOf = (project: string, missionID: string): string => hash(project, missionID);

export const missionRow = (state: MissionState): Tables["missions"] => ({
  stream: state.sessionID,
  name: nameOf(state.project, state.missionID),
  project: hash(state.project),
  mission_id: state.missionID,
  updated: Date.parse(state.updatedAt),
  archived: state.archived ? 1 : 0,
  revision: missionRevision,
  summary: JSON.stringify(rowOf(state)),
  asks: openAsks(state).length,
  priority: state.priority,
});

export const searchText = (state: Fold): string => {
  if (isMissionFold(state)) return storableText(`${state.title}\n${state.missionID}\n${state.directory}`).toLowerCase();
  const request = typeof state.request === "string" ? state.request : state.request.head;
  return storableText(`${state.title}\n${state.taskID}\n${request}`).toLowerCase();
};

export const metadataRows = (state: Fold): Tables["metadata"][] =>
  Object.entries(state.metadata).map(([key, value]) => ({
    stream: streamOf(state),
    key: storableText(key),
    value: storableText(textOf(value)),
  }));

/** Whether the event decides what metadata its stream has. */
export const namesMetadata = (event: DomainEvent): boolean =>
  event.type === "task.created" || (event.type === "mission.woken" && event.data.metadata !== undefined);

/** Strings unchanged, everything else as JSON. */
const textOf = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));

/** A text that both databases can store in a column: PostgreSQL rejects NUL and lone surrogates. */
export const storableText = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD");

export const hash = (...parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex");

export const answerID = (scope: string, key: string): string => hash(scope, key);
