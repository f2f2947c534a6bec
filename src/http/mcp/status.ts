import { z } from "zod";
import { type MissionStatus, phaseState } from "../../protocol/mission/status.ts";
import { type PendingAsk, pendingAsk, type TaskStatus } from "../../protocol/task/status.ts";
import { lifecycleStatus, phase } from "../../protocol/field.ts";

/** Statuses of Tasks and Missions, reduced to what a model needs to decide; the HTTP routes return the rest. */

const longestText = 2_000;
const longestNote = 500;
const longestOutput = 16 * 1024;
const mostGoals = 20;
const mostPhases = 50;

const clip = (text: string, longest = longestText): string =>
  text.length > longest ? `${text.slice(0, longest)}… (${text.length - longest} characters more)` : text;

const nextPollSeconds = z
  .number()
  .int()
  .nullable()
  .describe("Ask again after so many seconds; null: nothing will change on its own");
const next = z.string().describe("What to do now");
const waitingFor = z
  .array(
    pendingAsk.pick({ id: true, kind: true, prompt: true }).extend({
      options: z.array(z.string()),
      default: z.string().nullable(),
      expiresAt: z.string().nullable(),
    }),
  )
  .describe("What waits for an answer, and until when; then the default stands");
const problem = z
  .object({ code: z.string(), message: z.string(), retryable: z.boolean(), remedy: z.string().nullable() })
  .nullable();

export const mcpTaskStatus = z.object({
  taskID: z.string(),
  title: z.string(),
  state: lifecycleStatus.describe("active until it ends. completed: every required check passed on what landed"),
  phase,
  attempt: z.number().int(),
  next,
  nextPollSeconds,
  waitingFor,
  queue: z.string().nullable().describe("Why it has not started, or does not continue"),
  goals: z
    .array(z.object({ title: z.string(), state: z.string(), notes: z.string().optional() }))
    .describe("Its parts: open, running, accepted, rejected by review, or dropped"),
  goalsLeftOut: z.number().int(),
  checks: z.array(
    z.object({
      name: z.string(),
      state: z.enum(["pending", "running", "passed", "failed", "error"]),
      required: z.boolean(),
      exitCode: z.number().int().nullable(),
      stale: z.boolean().describe("The result is of an earlier state of the files"),
    }),
  ),
  error: problem.describe("Why it failed or was cancelled, and what helps"),
  summary: z.string().nullable().describe("The Task's last message, once it has ended"),
  output: z.unknown().describe("As outputSchema wants it; null: none, or over 16 KiB"),
  git: z.object({
    landedCommit: z.string().nullable().describe("The commit on the project's branch"),
    branch: z.string().nullable().describe("The branch with its work, even if nothing landed"),
    changed: z.string().nullable(),
  }),
  costUSD: z.number().nullable().describe("null: the price is unknown"),
  directory: z.string(),
});

export type McpTaskStatus = z.infer<typeof mcpTaskStatus>;

export const mcpTaskStatusOf = (task: TaskStatus, summary: string | undefined, now: Date): McpTaskStatus => {
  const { git, goals, errorInfo } = task;
  // Open goals first, because the list is cut when it is too long.
  const sorted = goals.toSorted((one, other) => rank(one) - rank(other));
  return {
    taskID: task.taskID,
    title: task.title,
    state: task.lifecycleStatus,
    phase: task.phase,
    attempt: task.attempt,
    next: nextOfTask(task),
    nextPollSeconds: task.lifecycleStatus === "active" ? pauseOf(task, now) : null,
    waitingFor: asksOf(task.pending),
    queue: task.queue === null ? null : `${task.queue.reason} (place ${task.queue.position})`,
    goals: sorted.slice(0, mostGoals).map((goal) => ({
      title: clip(goal.contract.title, longestNote),
      state: stateOfGoal(goal),
      ...(goal.review.verdict === "rejected" && goal.review.notes !== null
        ? { notes: clip(goal.review.notes, longestNote) }
        : {}),
    })),
    goalsLeftOut: Math.max(0, goals.length - mostGoals),
    checks: task.checks.map(({ name, state, required, exitCode, stale }) => ({
      name,
      state,
      required,
      exitCode,
      stale,
    })),
    error: problemOf(task.error, errorInfo),
    summary: summary === undefined || summary === "" ? null : clip(summary),
    output: JSON.stringify(task.output).length > longestOutput ? null : task.output,
    git: {
      landedCommit: git.landedCommit,
      branch: git.branch,
      changed:
        git.diffStat === null
          ? null
          : `${git.diffStat.files} files, +${git.diffStat.insertions} -${git.diffStat.deletions}`,
    },
    costUSD: task.usage.costUSD,
    directory: task.directory,
  };
};

type Goal = TaskStatus["goals"][number];

const rank = (goal: Goal): number => ({ open: 0, accepted: 1, dropped: 2 })[goal.settlement.state];

const stateOfGoal = ({ settlement, review, execution }: Goal): string => {
  if (settlement.state !== "open") return settlement.state;
  if (review.verdict === "rejected" && !review.stale) return "rejected by review";
  return execution.state === "running" ? "running" : "open";
};

const asksOf = (pending: readonly PendingAsk[]) =>
  pending.map(({ id, kind, prompt, options, default: fallback, expiresAt }) => ({
    id,
    kind,
    prompt: clip(prompt),
    options,
    default: fallback,
    expiresAt,
  }));

const problemOf = (message: string | undefined, info: TaskStatus["errorInfo"]): z.infer<typeof problem> =>
  message === undefined
    ? null
    : {
        code: info?.code ?? "unknown",
        message: clip(message),
        retryable: info?.retryable ?? false,
        remedy: info?.remedy ?? null,
      };

/** Seconds until the next poll: few while the Task may end soon, more the longer it runs. */
const pauseOf = ({ startedAt, createdAt, pending, queue }: TaskStatus, now: Date): number => {
  if (pending.length > 0 || queue?.notBefore != null) return 30;
  const minutes = (now.getTime() - Date.parse(startedAt ?? createdAt)) / 60_000;
  return minutes < 1 ? 2 : minutes < 5 ? 10 : 30;
};

const nextOfTask = ({ taskID, lifecycleStatus: state, pending, git, errorInfo }: TaskStatus): string => {
  switch (state) {
    case "active":
      return pending.length === 0
        ? "It works on its own. Go on with something else, or call task_status with waitSeconds."
        : answerWords(pending, `sortie task answer ${taskID}`, "task_message");
    case "completed":
      if (git.landedCommit !== null)
        return `Done: commit ${git.landedCommit} is on the project's branch. Read it there; for more, send a task_message.`;
      return git.diffStat === null || git.diffStat.files === 0
        ? "Done, and no file was changed. Read `summary`."
        : `Done: the work is on the branch ${git.branch}, for somebody to merge.`;
    case "failed":
      return errorInfo?.remedy != null
        ? `It failed. ${errorInfo.remedy} A task_message then continues from its current state.`
        : "It failed; nothing landed. A task_message that says what to do differently continues from its current state.";
    case "cancelled":
      return "It was cancelled; nothing landed. A task_message makes it continue.";
  }
};

/** Only people give permissions and approvals: an agent that asked for the work never gets to answer them. */
const answerWords = (pending: readonly PendingAsk[], command: string, tool: string): string => {
  const asked = pending.find(({ kind }) => kind !== "question");
  return asked === undefined
    ? `It asks a question. If you know the answer, send it with ${tool}; otherwise ask your user.`
    : `It asks for ${asked.kind === "permission" ? "a permission" : "an approval"}, which only a person may give: have your user answer on the service's page, or with \`${command} --ask ${asked.id} --allow\` (or --deny).`;
};

// ---- Missions ------------------------------------------------------------------------------------------------------

const missionState = z.enum([
  "working",
  "asking",
  "waiting",
  "paused",
  "stalled",
  "idle",
  "done",
  "blocked",
  "failed",
  "aborted",
]);

export const mcpMissionStatus = z.object({
  missionID: z.string(),
  title: z.string(),
  state: missionState.describe(
    "done and blocked are its agent's own word; waiting: until wakeAt; paused: no budget left; stalled, idle: until woken; failed: it could not go on",
  ),
  next,
  nextPollSeconds,
  waitingFor,
  plan: z.array(
    z.object({
      id: z.string(),
      title: z.string(),
      state: phaseState,
      squad: z.string().nullable(),
      taskID: z.string().nullable().describe("For task_status"),
      error: z.string().optional(),
    }),
  ),
  phasesLeftOut: z.number().int(),
  tasks: z.object({ total: z.number().int(), running: z.number().int(), inactive: z.number().int() }),
  summary: z.string().nullable().describe("Its agent's last report"),
  verified: z.boolean().nullable().describe("Of done: its checks passed, or a verdict"),
  wakeAt: z.string().nullable(),
  error: problem.describe("Why its agent could not go on, and what helps"),
  costUSD: z.number().nullable().describe("Of the whole tree; null: the price is unknown"),
  directory: z.string(),
});

export type McpMissionStatus = z.infer<typeof mcpMissionStatus>;

export const mcpMissionStatusOf = (mission: MissionStatus): McpMissionStatus => {
  const state = stateOfMission(mission);
  const errors = new Map(mission.tasks.map(({ taskID, error }) => [taskID, error]));
  return {
    missionID: mission.missionID,
    title: mission.title,
    state,
    next: nextOfMission(state, mission),
    nextPollSeconds: state === "working" ? 10 : state === "asking" || state === "waiting" ? 30 : null,
    waitingFor: asksOf(mission.pending),
    plan: mission.plan.slice(0, mostPhases).map((one) => {
      const error = one.taskID === null ? undefined : errors.get(one.taskID);
      return {
        id: one.id,
        title: clip(one.title, longestNote),
        state: one.state,
        squad: one.squad?.id ?? null,
        taskID: one.taskID,
        ...(error === undefined ? {} : { error: clip(error, longestNote) }),
      };
    }),
    phasesLeftOut: Math.max(0, mission.plan.length - mostPhases),
    tasks: mission.taskCounts,
    summary: mission.finished === null ? null : clip(mission.finished.summary),
    verified: mission.verified,
    wakeAt: mission.finished?.wakeAt ?? null,
    error: problemOf(mission.error, mission.errorInfo),
    costUSD: mission.usage.costUSD,
    directory: mission.directory,
  };
};

const stateOfMission = (mission: MissionStatus): McpMissionStatus["state"] => {
  if (mission.aborted) return "aborted";
  if (mission.pending.length > 0) return "asking";
  if (mission.status === "running" || mission.agentStatus === "running") return "working";
  if (mission.error !== undefined) return "failed";
  if (mission.state === "paused" || mission.state === "stalled") return mission.state;
  if (mission.state === "blocked") return "blocked";
  return mission.finished?.outcome ?? "idle";
};

const nextOfMission = (state: McpMissionStatus["state"], mission: MissionStatus): string => {
  const { missionID, pending, finished, merge, merged, landingBranch } = mission;
  switch (state) {
    case "working":
      return "It works on its own. Go on with something else, or call mission_status with waitSeconds.";
    case "asking":
      return answerWords(pending, `sortie mission answer ${missionID}`, "mission_wake (same missionID)");
    case "waiting":
      return finished?.wakeAt == null
        ? "It waits for something from outside; read `summary`. mission_wake makes it go on."
        : `It continues automatically at ${finished.wakeAt}. mission_wake makes it continue now.`;
    case "paused":
      return "Its budget is used up. Only mission_wake with a higher budget makes it continue; ask your user first.";
    case "stalled":
      return "It is stalled: nothing runs and nothing is due. mission_wake with a text makes it continue.";
    case "idle":
      return "It is idle. mission_wake with a text gives it further instructions.";
    case "done":
      if (merge !== null && landingBranch !== null && merged?.state !== "merged")
        return `Its agent says that the goal is reached. The work is on the branch ${landingBranch}: your user merges it on the service's page, or with \`sortie mission merge ${missionID}\`.`;
      return "Its agent says that the goal is reached; the Tasks of the plan show what landed. mission_wake adds to it.";
    case "blocked":
      if (merged?.state === "failed")
        return `Its work is done and on the branch ${landingBranch}, and could not be merged: look at the Task ${merged.taskID} with task_status.`;
      return "Its agent cannot go on; read `summary`. mission_wake with what it needs makes it continue.";
    case "failed":
      return "Its agent could not go on; read `error`. mission_wake tries again.";
    case "aborted":
      return "It was stopped by somebody. Only mission_wake makes it continue; ask your user first.";
  }
};
