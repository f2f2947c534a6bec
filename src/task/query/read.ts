import { specsOf } from "../../domain/evidence/check.ts";
import { columnsOf } from "../../domain/evidence/slice.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { boardOf } from "../../domain/view/board.ts";
import { messagesFrom, messageTypes } from "../../domain/view/message.ts";
import { statusOf } from "../../domain/view/status.ts";
import { phaseOf, waitOf } from "../../domain/view/summary.ts";
import { timelineOf } from "../../domain/view/timeline.ts";
import { ServiceError } from "../../error.ts";
import { isID } from "../../id.ts";
import type { MessagePage, TaskBoard } from "../../protocol/task/board.ts";
import type { Artifact, TaskDetail, TaskStatus, TaskSummary } from "../../protocol/task/status.ts";
import { openBlob } from "../../store/blob/piece.ts";
import { loadJSON, loadText } from "../../store/blob/text.ts";
import type { Disk } from "../../store/disk/disk.ts";
import type { BlobRead, ListQuery, Store } from "../../store/store.ts";
import { commonDirOf, type Repositories } from "../../repository/repository.ts";
import type { Workspaces } from "../../workspace/workspace.ts";
import type { CommitRange } from "../tasks.ts";
import { bringTakenOver, committedOf, reachCommits } from "./elsewhere.ts";
import { loadMessage, messagesIn, type MessageQuery, outputOfCall } from "./message.ts";
import { withQueuePlaces } from "./queue-place.ts";
import { soFarOf, withSoFar } from "./progress.ts";

/** Queries on Tasks; nothing here writes. */

export type ReadsDeps = {
  store: Store;
  workspaces: Pick<Workspaces, "open" | "holds" | "kept" | "branches">;
  inspect: Workspaces["inspect"];
  repositories: Pick<Repositories, "local" | "has" | "fetch" | "unpack">;
  /** undefined: nothing that holds only at the moment is shown, as in an archive. */
  disk?: Pick<Disk, "shortage">;
  now: () => Date;
};

const boardMessages = 50;

const boardTimeline = 50;

/** How long a diff waits for the remote when another node carried out the Task, in milliseconds. */
const reachMs = 60_000;

export const createReads = ({ store, workspaces, inspect, repositories, disk, now }: ReadsDeps) => {
  const state = async (taskID: string): Promise<TaskState> => {
    const found = isID("task", taskID) ? await store.state(taskID) : undefined;
    if (found === undefined) throw new ServiceError("task_not_found", "No Task has this id.");
    return found;
  };

  /** The commits that the Task made and those it began from, in all rounds. */
  const commitsOf = async (taskID: string): Promise<ReadonlySet<string>> => {
    const events = await store.read(taskID, { types: ["workspace.prepared", "workspace.rebased", "tree.committed"] });
    return new Set(
      events.flatMap(({ type, data }) => {
        if (type === "tree.committed") return [data.commit, data.parent];
        if (type === "workspace.rebased") return [data.commit, data.baseCommit];
        return type === "workspace.prepared" && data.baseCommit !== null ? [data.baseCommit] : [];
      }),
    );
  };

  const statusFrom = async (task: TaskState): Promise<TaskStatus> => {
    const { taskID, now: doing, summary } = task;
    const known = { taskID, phase: phaseOf(task), queue: waitOf(task), now: doing };
    const [{ phase, queue, now: does } = known] = await withQueuePlaces(store, [known], now(), disk?.shortage());
    const said = summary === null ? null : await loadText(store.blobs, summary);
    const doesNow = disk === undefined ? does : soFarOf(store.live, task, does);
    const output = await loadJSON(store.blobs, task.output?.value ?? null);
    return statusOf(task, { phase, queue, now: doesNow, summary: said, output: output ?? null });
  };

  const diff = async (task: TaskState, between: CommitRange | undefined): Promise<string> => {
    if (between !== undefined) {
      const commits = await commitsOf(task.taskID);
      for (const commit of [between.from, between.to])
        if (!commits.has(commit))
          throw new ServiceError(
            "commit_not_found",
            `Expected a commit of the Task, as its tree.committed events have them, got ${JSON.stringify(commit)}.`,
          );
    }
    if (task.workspace === null) return "";
    const committed = committedOf(task);
    const [base = "", head = base] = committed.commits;
    const { from, to } = between ?? { from: base, to: head };
    const wanted = between === undefined ? committed : { ...committed, commits: [from, to], dirty: false };
    const deps = { store, repositories };
    const stop = AbortSignal.timeout(reachMs);
    const fromCommits = async (range: CommitRange): Promise<string> => {
      if (range.from === range.to) return "";
      const shown = await workspaces.branches(commonDirOf(repositories, task)).diff(range.from, range.to);
      if (shown !== null) return shown;
      throw new ServiceError(
        "commit_not_found",
        `Expected ${range.from} and ${range.to} in the repository of ${task.directory}.`,
      );
    };
    if ((await reachCommits(deps, wanted, stop)) === "commits") return fromCommits({ from, to });
    if (task.moved !== null || !workspaces.holds(task.taskID, task.workspace)) {
      const kept = await bringTakenOver(deps, task, stop);
      return fromCommits(between ?? kept);
    }
    const workspace = await workspaces.open(task.taskID, task.workspace);
    if (between !== undefined) return workspace.diff(between.to, between.from);
    return workspace.diff(task.touched ? null : (task.tree?.commit ?? null));
  };

  return {
    state,

    async list(directory: string, query: Omit<ListQuery, "project">, signal?: AbortSignal): Promise<TaskSummary[]> {
      const { project } = await inspect(directory);
      const tasks = await store.list({ ...query, project }, signal);
      return withSoFar(store.live, project, await withQueuePlaces(store, tasks, now(), disk?.shortage()));
    },

    status: async (taskID: string): Promise<TaskStatus> => statusFrom(await state(taskID)),

    async get(taskID: string): Promise<TaskDetail> {
      const task = await state(taskID);
      const [kept] = disk === undefined ? [] : workspaces.kept(taskID);
      return {
        ...(await statusFrom(task)),
        request: await loadText(store.blobs, task.request),
        attachments: task.attachments,
        requestedChecks: task.checks,
        outputSchema: ((await loadJSON(store.blobs, task.output?.schema ?? null)) ??
          null) as TaskDetail["outputSchema"],
        limits: task.limits,
        ...(kept === undefined ? {} : { worktreeKept: { reason: kept.reason, since: kept.since } }),
      };
    },

    async board(taskID: string): Promise<TaskBoard> {
      const task = await state(taskID);
      const [events, recent, status, request] = await Promise.all([
        store.read(taskID, { types: messageTypes, last: true, limit: boardMessages * 6 }),
        store.read(taskID, { last: true, limit: boardTimeline }),
        statusFrom(task),
        loadText(store.blobs, task.request),
      ]);
      return boardOf({
        status,
        columns: columnsOf(task),
        request,
        messages: await Promise.all(
          messagesFrom(events)
            .slice(-boardMessages)
            .map((message) => loadMessage(store, message)),
        ),
        total: task.messages,
        artifacts: task.artifacts,
        timeline: timelineOf(recent),
        generatedAt: now().toISOString(),
      });
    },

    async messages(taskID: string, page: MessageQuery, signal?: AbortSignal): Promise<MessagePage> {
      const task = await state(taskID);
      return { ...(await messagesIn(store, taskID, { ...page, open: task.open }, signal)), total: task.messages };
    },

    diff: async (taskID: string, between?: CommitRange): Promise<string> => diff(await state(taskID), between),

    async artifact(taskID: string, artifactID: string): Promise<{ artifact: Artifact; content: BlobRead }> {
      const task = await state(taskID);
      const artifact = task.artifacts.find((kept) => kept.artifactID === artifactID);
      const content = artifact && (await openBlob(store.blobs, artifact));
      if (artifact !== undefined && content !== undefined) return { artifact, content };
      throw new ServiceError(
        "artifact_not_found",
        artifact === undefined
          ? "Expected the id of one of the Task's artifacts, as its board lists them, got another."
          : `Expected the ${artifact.bytes} bytes of ${artifactID} in the data folder, got nothing there.`,
      );
    },

    async callOutput(taskID: string, callID: string): Promise<BlobRead> {
      await state(taskID);
      const output = await outputOfCall(store, taskID, callID);
      if (output !== undefined) return output;
      throw new ServiceError(
        "call_not_found",
        `Expected the id of one of the Task's calls that has ended, as its conversation has them, got ${JSON.stringify(callID)}.`,
      );
    },

    async checkLog(taskID: string, checkID: string): Promise<BlobRead> {
      const task = await state(taskID);
      const run = task.results[checkID] ?? task.baseline[checkID];
      const log = run === undefined ? undefined : await openBlob(store.blobs, run.log);
      if (log !== undefined) return log;
      throw new ServiceError(
        "check_not_found",
        specsOf(task).some((check) => check.id === checkID)
          ? `Check ${checkID} has no log yet.`
          : `Expected one of the Task's checks (${
              specsOf(task)
                .map((check) => check.id)
                .join(", ") || "it has none"
            }), got ${JSON.stringify(checkID)}.`,
      );
    },
  };
};
