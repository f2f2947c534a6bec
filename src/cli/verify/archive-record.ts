import { z } from "zod";
import { messageOf } from "../../error.ts";
import { logName, logOf } from "../../domain/evidence/ledger.ts";
import { type EventData, eventData, type EventType } from "../../protocol/event/event.ts";
import type { Frame } from "../../protocol/event/frame.ts";

/**
 * What an archive's events say, for comparison with its other files. The files are not trusted, so they are parsed with
 * schemas.
 */

export const flow = "execution-flow/";

export type ArchiveRecord = {
  /** Tree ids by commit. */
  trees: Map<string, string>;
  /** The last result of each check on the work, with its tree. */
  checks: Map<string, { state: string; tree: string | null }>;
  landed: { commit: string; ref: string } | undefined;
  /** Whether the project is the root of a plain repository. For a folder inside one, the events name no tree. */
  top: boolean;
  /** The Task's state after the last event. */
  lifecycleStatus: string;
  /** How its attempts ended, oldest first, and the commits that landed. */
  ends: string[];
  landings: Set<string>;
  /** What a Mission's log says about the ends of its Tasks. */
  told: EventData["task.ended"][];
  /** SHA-256 of logs by their path in the archive. */
  logs: Map<string, string>;
  /** SHA-256 of artifacts by their id. */
  artifacts: Map<string, string>;
};

export const emptyRecord = (): ArchiveRecord => ({
  trees: new Map(),
  checks: new Map(),
  landed: undefined,
  top: false,
  lifecycleStatus: "active",
  ends: [],
  landings: new Set(),
  told: [],
  logs: new Map(),
  artifacts: new Map(),
});

/** `folder`: the folder of the flow that the event belongs to. */
export const addEvent = (story: ArchiveRecord, frame: Frame, folder = flow): void => {
  const log = logOf(frame);
  if (log !== undefined) story.logs.set(logName(frame, folder), log.sha256);
  story.lifecycleStatus = frame.type === "task.settled" ? frame.data.lifecycleStatus : "active";
  switch (frame.type) {
    case "task.created":
      story.top = frame.data.project === `${frame.data.directory}/.git`;
      break;
    case "workspace.prepared": {
      const { baseCommit, baseTree } = frame.data;
      if (baseCommit !== null && baseTree !== null) story.trees.set(baseCommit, baseTree);
      break;
    }
    case "tree.committed":
    case "landing.conflicted":
      story.trees.set(frame.data.commit, frame.data.tree);
      break;
    case "workspace.rebased":
      story.trees.set(frame.data.baseCommit, frame.data.baseTree).set(frame.data.commit, frame.data.tree);
      break;
    case "landing.finished":
      story.trees.set(frame.data.commit, frame.data.tree);
      story.landed = frame.data;
      story.landings.add(frame.data.commit);
      break;
    case "task.settled":
      story.ends.push(frame.data.lifecycleStatus);
      break;
    case "task.ended":
      story.told.push(frame.data);
      break;
    case "check.finished":
      if (frame.data.on === "work") story.checks.set(frame.data.checkID, frame.data);
      break;
    case "artifact.recorded":
      story.artifacts.set(frame.data.artifactID, frame.data.sha256);
      break;
    default:
  }
};

const head = z.object({ entries: z.number().int(), head: z.string() });

const common = z.object({
  commit: z.string().nullable(),
  source: z.enum(["worktree", "directory", "commit"]),
  complete: z.boolean(),
  ledger: head,
  files: z.array(
    z.object({
      name: z.string(),
      path: z.string().optional(),
      bytes: z.number(),
      sha256: z.string(),
      mode: z.string().optional(),
      artifactID: z.string().optional(),
    }),
  ),
  omitted: z.array(z.object({ path: z.string(), reason: z.string() })),
});

const taskManifest = common.extend({ taskID: z.string() });
const missionManifest = common.extend({
  missionID: z.string(),
  sessionID: z.string(),
  ledgers: z.record(z.string(), head),
});

export type MissionManifest = z.infer<typeof missionManifest>;

/** The manifest of a Task, or of a Mission including those of its Tasks. */
export const manifestFile = z.unknown().transform((given, context): ManifestFile => {
  const isMission = typeof given === "object" && given !== null && "missionID" in given;
  const read = (isMission ? missionManifest : taskManifest).safeParse(given);
  if (read.success) return read.data;
  for (const { path, message } of read.error.issues)
    context.issues.push({ code: "custom", path: [...path], message, input: given });
  return z.NEVER;
});

export type ManifestFile = z.infer<typeof taskManifest> | MissionManifest;

/** One log in the archive with its ledger: a Task's, or the Mission's own. */
export type Flow = {
  id: string;
  folder: string;
  ledger: z.infer<typeof head>;
  /** The prefix of findings about it, when the archive has several flows. */
  about: string;
};

export const flowsIn = (manifest: ManifestFile): Flow[] =>
  "taskID" in manifest
    ? [{ id: manifest.taskID, folder: flow, ledger: manifest.ledger, about: "" }]
    : [
        { id: manifest.sessionID, folder: flow, ledger: manifest.ledger, about: "Mission: " },
        ...Object.entries(manifest.ledgers).map(([id, ledger]) => ({
          id,
          folder: `${flow}tasks/${id}/`,
          ledger,
          about: `${id}: `,
        })),
      ];

export const ledgerLine = z.looseObject({
  seq: z.number(),
  eventID: z.number(),
  kind: z.string(),
  prev: z.string(),
  hash: z.string(),
});

const eventLine = z.object({
  id: z.number(),
  type: z.string(),
  taskID: z.string().optional(),
  at: z.string(),
  data: z.unknown(),
});

/** Throws for anything that is not an event; the data of an unknown type is left unchecked. */
export const parseFrame = (line: string): Frame => {
  const event = eventLine.parse(JSON.parse(line));
  const known = Object.hasOwn(eventData, event.type) ? eventData[event.type as EventType] : undefined;
  const data = (known === undefined ? event.data : known.parse(event.data)) as EventData[EventType];
  return { ...event, data } as Frame;
};

/** What is wrong with an untrusted file, on one line. */
export const faultOf = (error: unknown): string =>
  error instanceof z.ZodError
    ? error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")
    : messageOf(error);
