import type { Frame } from "../protocol/event.ts";
import type { Message, TaskBoard, TaskDetail } from "../protocol/status.ts";
import { type Recorded, sessionOf } from "./event.ts";
import { checksOf } from "./checks.ts";
import type { CheckRun, TaskState } from "./task.ts";

/**
 * The execution flow of a Task as its archive carries it: what the API shows, as files. Nothing here knows the time, so
 * that the same Task gives the same bytes.
 */

/** Raised when a file of the archive changes in meaning. */
export const archiveSchema = 1;

export type FlowFile = { name: string; text: string };

export type FlowParts = {
  state: TaskState;
  task: TaskDetail;
  board: TaskBoard;
  messages: readonly Message[];
  events: readonly Recorded[];
};

export const flowOf = ({ state, task, board, messages, events }: FlowParts): FlowFile[] => [
  { name: "board.json", text: json(board) },
  { name: "checks.json", text: json(checksIn(state)) },
  { name: "events.jsonl", text: lines(events.map(frameOf)) },
  { name: "messages.jsonl", text: lines(messages) },
  { name: "task.json", text: json(task) },
];

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
const lines = (values: readonly unknown[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join("");

/** A fact as the event stream sends it. */
export const frameOf = (event: Recorded): Frame => {
  const { position, type, stream, at, data } = event;
  const sessionID = sessionOf(event);
  return { id: position, type, taskID: stream, ...(sessionID === undefined ? {} : { sessionID }), at, data } as Frame;
};

/** Every check with how it is run and the evidence of its last run, on the base and on the work. */
const checksIn = (state: TaskState) =>
  checksOf(state).map((check, index) => {
    const spec = state.checks[index];
    return {
      ...check,
      run: spec?.run,
      cwd: spec?.cwd ?? ".",
      timeoutSeconds: spec?.timeoutSeconds,
      expect: spec?.expect ?? { exitCode: 0 },
      evidence: { base: evidence(state.baseline[check.id]), work: evidence(state.results[check.id]) },
    };
  });

const evidence = (run: CheckRun | undefined) =>
  run === undefined
    ? null
    : {
        state: run.state,
        reason: run.reason,
        exitCode: run.exitCode,
        durationMs: run.durationMs,
        commit: run.commit,
        tree: run.tree,
        log: run.log,
        tail: run.tail,
      };

export type ArchivedFile = {
  name: string;
  /** The project's own path, where the name in the archive had to differ. */
  path?: string;
  bytes: number;
  sha256: string;
  mode?: string;
};

export type Manifest = {
  schemaVersion: number;
  taskID: string;
  project: string;
  /** The commit that the tree is, or is based on; null in a repository without one. */
  commit: string | null;
  /** `worktree`: bytes on disk, the Task's own; `directory`: the project's own files; `commit`: the repository's objects. */
  source: "worktree" | "directory" | "commit";
  complete: boolean;
  files: ArchivedFile[];
  omitted: { path: string; reason: string }[];
  warnings: { path: string; reason: string }[];
};

export const manifestText = (manifest: Manifest): string => json(manifest);
