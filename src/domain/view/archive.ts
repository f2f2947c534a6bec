import { isCommand } from "../../protocol/check.ts";
import type { Frame } from "../../protocol/event/frame.ts";
import type { MissionStatus } from "../../protocol/mission/status.ts";
import type { Message, TaskBoard } from "../../protocol/task/board.ts";
import type { TaskDetail } from "../../protocol/task/status.ts";
import { checksOf, specsOf } from "../evidence/check.ts";
import type { Entry, Head } from "../evidence/ledger.ts";
import type { CheckRun, TaskState } from "../state/task.ts";

/**
 * The execution flow of a Task in its archive: the same content as the API, as files. Nothing here depends on the time,
 * so that the same Task gives the same bytes.
 */

/** Raise this when a file of the archive changes in meaning. */
export const archiveSchema = 1;

/** A file with one JSON value, or with one per line. */
export type FlowFile = { name: string } & ({ json: unknown } | { lines: readonly unknown[] });

export type FlowParts = {
  state: TaskState;
  task: TaskDetail;
  board: TaskBoard;
  messages: readonly Message[];
  events: readonly Frame[];
  ledger: readonly Entry[];
};

export const flowOf = ({ state, task, board, messages, events, ledger }: FlowParts): FlowFile[] => [
  { name: "board.json", json: board },
  { name: "checks.json", json: checksIn(state) },
  { name: "events.jsonl", lines: events },
  { name: "ledger.jsonl", lines: ledger },
  { name: "messages.jsonl", lines: messages },
  { name: "task.json", json: task },
];

/** Every check with its definition, and the evidence of its last run on the base and on the work. */
const checksIn = (state: TaskState) =>
  checksOf(state).map((check, index) => {
    const spec = specsOf(state)[index];
    return {
      ...(spec !== undefined && isCommand(spec) ? { cwd: ".", expect: { exitCode: 0 } } : {}),
      ...spec,
      ...check,
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
  /** The path in the project, if the name in the archive had to differ. */
  path?: string;
  bytes: number;
  sha256: string;
  mode?: string;
  /** Set for a file under execution-flow/artifacts. */
  artifactID?: string;
};

export type Manifest = {
  schemaVersion: number;
  taskID: string;
  project: string;
  /** The commit of the tree, or the one it is based on; null in a repository without commits. */
  commit: string | null;
  /**
   * `worktree`: the Task's files on disk; `directory`: the project's own files; `commit`: objects of the repository.
   */
  source: "worktree" | "directory" | "commit";
  complete: boolean;
  /** The number of entries in ledger.jsonl, and the hash of the last one. */
  ledger: Head;
  files: ArchivedFile[];
  omitted: { path: string; reason: string }[];
  warnings: { path: string; reason: string }[];
};

export type MissionManifest = Omit<Manifest, "taskID" | "ledger"> & {
  missionID: string;
  sessionID: string;
  /** The Mission's own branch, if it has one: its Tasks land there, and the files are those of its head. */
  branch?: string;
  /** The head of the Mission's own ledger, and of the ledger of each Task. */
  ledger: Head;
  ledgers: Record<string, Head>;
};

/** The execution flow of the Mission itself; the flows of its Tasks are separate files. */
export const missionFlowOf = (parts: {
  mission: object;
  status: MissionStatus;
  messages: readonly Message[];
  events: readonly Frame[];
  ledger: readonly Entry[];
}): FlowFile[] => [
  { name: "events.jsonl", lines: parts.events },
  { name: "ledger.jsonl", lines: parts.ledger },
  { name: "messages.jsonl", lines: parts.messages },
  { name: "mission.json", json: parts.mission },
  { name: "plan.json", json: parts.status.plan },
  { name: "status.json", json: parts.status },
];
