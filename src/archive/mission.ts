import {
  type ArchivedFile,
  archiveSchema,
  type FlowFile,
  type MissionManifest,
  missionFlowOf,
} from "../domain/view/archive.ts";
import { frameOf } from "../domain/view/frame.ts";
import type { Head } from "../domain/evidence/ledger.ts";
import type { MissionState } from "../domain/state/mission.ts";
import { branchOf } from "../domain/mission/whole/merge.ts";
import { rowOf } from "../domain/mission/status.ts";
import type { Frame } from "../protocol/event/frame.ts";
import type { MissionStatus } from "../protocol/mission/status.ts";
import { ServiceError } from "../error.ts";
import { mapStrings } from "../redact.ts";
import { commonDirOf } from "../repository/repository.ts";
import { allMessagesIn } from "../task/query/message.ts";
import { createGit } from "../workspace/git/git.ts";
import { createCommitReader, listCommitFiles } from "../workspace/object/commit-file.ts";
import type { ArchiveDeps } from "./archive.ts";
import { addArtifacts } from "./artifact.ts";
import { type Omitted, roomOf } from "./entry.ts";
import { addFiles, addFlow, eachOf, eventsOf, flowFolder, ledgerOf } from "./execution-flow.ts";
import { addLogs } from "./log.ts";
import { addProject, onDisk, type Source } from "./project.ts";
import type { Zip } from "./zip.ts";

/**
 * A Mission's archive: the tracked files of its project (of the Mission's own branch, otherwise of the directory on
 * disk), its execution flow, and the flows of its Tasks.
 */
export const addMission = async (
  zip: Zip,
  state: MissionState,
  status: MissionStatus,
  deps: ArchiveDeps,
  signal: AbortSignal,
): Promise<MissionManifest> => {
  const { store, workspaces } = deps;
  const { missionID, sessionID, directory } = state;
  const own = state.repository === null ? await ofOwnBranch(state, workspaces, signal) : undefined;
  const source =
    own ??
    (await (state.repository === null
      ? inDirectory(state, workspaces, signal)
      : ofBranch(state, commonDirOf(deps.repositories, state), signal)));
  using _reader = source.reader;
  const { flow, events, head } = await flowOf(state, status, deps);
  const files = await addFiles(zip, flowFolder, flow);
  const omitted: Omitted[] = [];
  // The logs and artifacts of all Tasks share one limit.
  const around = { ...deps, room: roomOf(deps.limits) };
  const add = (added: { files: ArchivedFile[]; omitted: Omitted[] }) => {
    files.push(...added.files);
    omitted.push(...added.omitted);
  };
  add(await addLogs(zip, flowFolder, events, around));
  const ledgers: Record<string, Head> = {};
  for (const { taskID } of state.tasks) {
    signal.throwIfAborted();
    const task = await store.state(taskID);
    if (task === undefined) {
      omitted.push({ path: `${flowFolder}tasks/${taskID}`, reason: "the Task was deleted" });
      continue;
    }
    const folder = `${flowFolder}tasks/${taskID}/`;
    const added = await addFlow(zip, task, folder, deps);
    files.push(...added.files);
    ledgers[taskID] = added.head;
    add(await addLogs(zip, folder, added.events, around));
    add(await addArtifacts(zip, folder, task, around));
  }
  const project = await addProject(zip, source, deps.limits, signal);
  return {
    schemaVersion: archiveSchema,
    missionID,
    sessionID,
    project: directory,
    commit: source.commit,
    source: state.repository === null && own === undefined ? "directory" : "commit",
    ...branchIn(state, own),
    complete: project.complete,
    ledger: head,
    ledgers,
    files: [...files, ...project.files],
    omitted: [...omitted, ...project.omitted],
    warnings: project.warnings,
  };
};

const inDirectory = async (
  { sessionID, directory }: MissionState,
  workspaces: ArchiveDeps["workspaces"],
  signal: AbortSignal,
): Promise<Source> => {
  const opened = await workspaces.open(sessionID, {
    kind: "directory",
    root: directory,
    worktree: null,
    branch: null,
    baseCommit: null,
    baseTree: null,
    targetRef: null,
  });
  return onDisk(opened.root, opened.git, directory, signal);
};

const branchIn = (state: MissionState, own: Source | undefined): { branch?: string } => {
  const name = state.repository === null && own === undefined ? null : branchOf(state);
  return name === null ? {} : { branch: name };
};

/**
 * The files at the head of the Mission's branch in the directory's repository; undefined: it has no branch, or the
 * branch is gone.
 */
const ofOwnBranch = async (
  { directory, branch }: MissionState,
  workspaces: ArchiveDeps["workspaces"],
  signal: AbortSignal,
): Promise<Source | undefined> => {
  if (branch === null) return undefined;
  const { git: place, project } = await workspaces.inspect(directory);
  const commit = await workspaces.branches(project).headOf(`refs/heads/${branch.name}`);
  if (place === undefined || commit === null) return undefined;
  const git = createGit(place.toplevel);
  const listed = await listCommitFiles(git, commit, place.prefix, signal);
  return { commit, listed, untracked: new Set(), fresh: [], reader: createCommitReader(git, listed, signal) };
};

/** The files of the newest commit that landed on the Mission's branch, from the mirror. */
const ofBranch = async (state: MissionState, mirror: string, signal: AbortSignal): Promise<Source> => {
  const landed = state.tasks.flatMap(({ ends }) => ends.flatMap(({ landedCommit }) => landedCommit ?? []));
  if (landed.length === 0)
    throw new ServiceError("not_a_git_worktree", `Nothing has landed on ${branchOf(state)} yet.`);
  const git = createGit(mirror, { toplevel: mirror, gitDir: mirror });
  // All of these commits are on one line of history.
  const newest = await git.run(["rev-list", "--topo-order", "--max-count=1", ...new Set(landed)], { signal });
  const commit = newest.stdout.toString("latin1").trim();
  const listed = await listCommitFiles(git, commit, "", signal);
  return { commit, listed, untracked: new Set(), fresh: [], reader: createCommitReader(git, listed, signal) };
};

const flowOf = async (
  state: MissionState,
  status: MissionStatus,
  { store, redact }: ArchiveDeps,
): Promise<{ flow: FlowFile[]; events: Frame[]; head: Head }> => {
  const { missionID, sessionID, version } = state;
  const [recorded, messages] = await Promise.all([
    eventsOf(store, sessionID, version),
    allMessagesIn(store, sessionID, state.open),
  ]);
  const { directory, project, tasks } = state;
  const events = await eachOf(recorded, (event) => frameOf(mapStrings(event, redact), missionID));
  const { ledger, head } = await ledgerOf(sessionID, events);
  const flow = missionFlowOf({
    mission: mapStrings({ ...rowOf(state), directory, project, tasks }, redact),
    // The time of the Mission's last change serves as the current time.
    status: mapStrings({ ...status, generatedAt: state.updatedAt }, redact),
    messages: await eachOf(messages, (message) => mapStrings(message, redact)),
    events,
    ledger,
  });
  return { flow, events, head };
};
