import { createDiagnostics } from "../../check/diagnostic/diagnostics.ts";
import type { StreamID } from "../../domain/event.ts";
import { isActive, type TaskState } from "../../domain/state/task.ts";
import { evolve } from "../../domain/task/evolve.ts";
import { dueNow } from "../../engine/due.ts";
import { messageOf } from "../../error.ts";
import type { RunCheck } from "../../protocol/check.ts";
import type { Fetched } from "../../repository/repository.ts";
import { commitThroughClaim } from "../../store/claimed-stream.ts";
import { createPatience, waitingForSpace } from "../../store/disk/patience.ts";
import { retryingReads } from "../../store/outage.ts";
import type { Claim } from "../../store/store.ts";
import { createBackground } from "../../tool/command/background.ts";
import { createMcpConnections } from "../../tool/mcp/connections.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { forkKey } from "../../workspace/worktree/fork.ts";
import type { DiskBound, Run, RunDeps } from "../run.ts";
import { closingCalls } from "../session/closed-call.ts";
import { createConversations, openConversation } from "../session/conversation.ts";
import { learnUsual } from "../usual-duration.ts";
import { missionWake } from "../wake-mission.ts";
import { createRunCheckout } from "../workspace/check-files.ts";
import { createDiskBound, unbounded } from "../workspace/disk-bound.ts";
import { openWorkspace } from "../workspace/open.ts";
import { fetchBase } from "../workspace/repository.ts";
import { removableFilesOf } from "../workspace/retention.ts";
import { createBaseline } from "./baseline.ts";
import { checkersOf } from "./checkers.ts";
import { createCheckpoints } from "./checkpoint.ts";
import { noEnvironment } from "./environment.ts";
import { serversOf } from "./project-servers.ts";

/** Composes what the steps of a run share. */

/** `folded`: the Task as the log has it. `scope` closes what the run opens, in reverse order. */
export const composeRun = async (
  deps: RunDeps,
  claim: Claim,
  folded: TaskState,
  signal: AbortSignal,
  scope: AsyncDisposableStack,
): Promise<Run> => {
  const { stream } = claim;
  let state = folded;
  const isEnding = () => state.cancel?.mode === "stop";
  const patience = scope.use(
    createPatience({
      disk: deps.disk,
      record: (event) => record([event], { once: true }),
      isEnding,
      standAside: () => deps.engine.standAside(stream),
      signal,
      now: deps.now,
    }),
  );
  const store = retryingReads(waitingForSpace(deps.store, patience), signal);
  const chat = await openConversation(store, stream, state);
  const chats = createConversations(store, () => state, chat);

  const commit = commitThroughClaim(store, claim, {
    version: () => state.version,
    absorb(event) {
      const { now: before } = state;
      state = evolve(state, event);
      learnUsual(state.project, before, state.now, event.at);
      if (event.type !== "run.started" && state.crashes === 0) deps.suspects.clear(stream);
      chats.follow(event);
      run.baseline.begin();
      if (event.type === "tool.finished") run.checkpoints.keepIfDue();
    },
    wakes: (events) => missionWake(state, events, deps.now()),
    recorded: deps.recorded,
    urgent: isEnding,
    retry: patience.retry,
  });
  const record: typeof commit = (events, options) => commit(closingCalls(state, events), options);

  let own: readonly RunCheck[] = [];
  let commands: readonly string[] = [];
  const run: Run = {
    ...deps,
    store,
    stream,
    signal,
    space: patience.space,
    bound: boundOf(deps, state, () => state.steps),
    chat,
    chats,
    environment: noEnvironment,
    state: () => state,
    record,
    ...filesOf(() => run),
    ...landingTurnOf(() => run),
    closeSandboxes: async () => {
      await Promise.all([stream, ...forksOf(state)].map((key) => deps.processes.closeSandboxes(key)));
    },
    checkpoints: createCheckpoints(() => run),
    checkout: createRunCheckout(() => run, "work"),
    own: () => own,
    offerOwn(checks, found) {
      own = checks;
      commands = found;
    },
    commands: () => commands,
    baseline: createBaseline(() => run),
    slot: slotsOf(deps, stream, dueNow(deps.now(), state.priority).rank, signal),
    background: createBackground(claim.fence.epoch),
    mcp: createMcpConnections(
      serversOf(deps, () => state),
      signal,
    ),
    checkers: createDiagnostics(() => checkersOf(run), deps.diagnostics.room),
  };

  // Interrupts the run's commands when it is aborted: it may be waiting for a git that never returns. The listener is
  // removed at the end, because Node keeps a signal that is composed of others, and everything that its listeners
  // reference, for as long as it has a listener.
  const interrupt = () => deps.processes.interrupt(stream);
  signal.addEventListener("abort", interrupt, { once: true });
  scope.defer(() => signal.removeEventListener("abort", interrupt));
  scope.defer(() => withoutUnused(run));
  scope.defer(run.closeSandboxes);
  scope.use(run.checkout);
  scope.defer(run.workspaceMade);
  scope.defer(() => run.background.end());
  scope.defer(() => run.mcp.end());
  scope.defer(() => run.checkers.end());
  scope.defer(() => run.checkpoints.end());
  scope.use(run.baseline);
  scope.defer(run.leaveLandingTurn);
  return run;
};

/** The keys of the worktrees of a Task's forks. */
export const forksOf = ({ taskID, sessions }: TaskState): string[] =>
  sessions.flatMap(({ fork }) => (fork === null ? [] : [forkKey(taskID, fork.name)]));

const filesOf = (run: () => Run): Pick<Run, "workspace" | "base" | "workspaceMade" | "forgetWorkspace"> => {
  let opened: Promise<Workspace> | undefined;
  let base: Promise<Fetched> | undefined;
  return {
    workspace() {
      if (opened !== undefined) return opened;
      const opening = openWorkspace(run());
      opened = opening;
      // The cause may be temporary, such as a git that was killed or a full disk: the next call tries again.
      opening.catch(() => {
        if (opened === opening) opened = undefined;
      });
      return opening;
    },
    base: () => (base ??= fetchBase(run())),
    workspaceMade: async () => {
      await opened?.catch(() => {});
    },
    forgetWorkspace() {
      opened = undefined;
      base = undefined;
    },
  };
};

const landingTurnOf = (run: () => Run): Pick<Run, "landingTurn" | "leaveLandingTurn"> => {
  let holds: Promise<void> | undefined;
  let held: Disposable | undefined;
  return {
    landingTurn() {
      const { workspaces, state, signal } = run();
      return (holds ??= workspaces.landingTurn(state().project, signal).then((turn) => {
        held = turn;
      }));
    },
    leaveLandingTurn() {
      held?.[Symbol.dispose]();
      held = undefined;
      holds = undefined;
    },
  };
};

const slotsOf =
  ({ slots, processes }: RunDeps, stream: StreamID, rank: number, signal: AbortSignal): Run["slot"] =>
  async (until = signal) => {
    const slot = await slots.take(rank, until);
    // A stalled command does not load the machine, so its slot is freed for others that wait.
    const timer = setInterval(() => {
      if (processes.isStalled(stream)) slot[Symbol.dispose]();
    }, 1000);
    timer.unref();
    return {
      [Symbol.dispose]() {
        clearInterval(timer);
        slot[Symbol.dispose]();
      },
    };
  };

/** A Task in the user's own directory has no bound: the files there are not the service's to measure. */
const boundOf = (
  { limits, workspaces, disk }: RunDeps,
  { taskID, isolation, workspace }: TaskState,
  steps: () => number,
): DiskBound =>
  isolation === "directory" || limits.taskDiskBytes === 0
    ? unbounded
    : createDiskBound({
        limit: limits.taskDiskBytes,
        measure: () => workspaces.usage(taskID),
        isUnknown: workspace !== null,
        free: disk.free,
        look: disk.look,
        steps,
      });

/**
 * Removes files that were still being created when the Task ended, and in which nobody has worked: with a large
 * project, and after a kill, there are many of them.
 */
const withoutUnused = async ({ state, workspaces, stream, log }: Run): Promise<void> => {
  const unused = (key: string) => (isActive(state()) ? undefined : removableFilesOf(state(), key));
  for (const key of [stream, ...forksOf(state())].filter((each) => unused(each) !== undefined))
    await workspaces
      .removeUnused(key, async () => unused(key))
      .catch((error: unknown) => {
        log.warn({ task: stream, error: messageOf(error) }, "files that nobody has worked in could not be removed yet");
      });
};
