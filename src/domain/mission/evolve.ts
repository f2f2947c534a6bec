import type { AttachmentRef } from "../../protocol/text.ts";
import { timeUntil, workedAt } from "../session/work-time.ts";
import type { Recorded } from "../event.ts";
import { withModel } from "../session/session.ts";
import { beginStream, isWaiting, noRepetition, waitsForAnswers } from "../state/stream.ts";
import { evolveSession } from "../session/evolve.ts";
import { type Dispatched, endedOf, type MissionState } from "../state/mission.ts";
import { projectOf } from "../state/project.ts";
import { afterApproval } from "./approval.ts";
import { afterDispatch, afterEnd } from "./whole/merge.ts";
import { foldHandOff } from "./hand-on.ts";
import { isAwake } from "./next.ts";
import { inOrder, withPhase } from "./plan.ts";
import { withNow } from "./now.ts";
import { doesNotWake, isQuietEdit, waitsForPlan } from "./quiet-event.ts";
import { afterVerdict } from "./whole/verdict.ts";

/** A Mission as a fold of its events. Pure: no clock, no I/O, no randomness. */

/** Raise this whenever the fold or `MissionState` changes in meaning, so that stored snapshots are folded anew. */
export const missionRevision = 33;

/** The name of the Mission's agent, and the kind of its session. */
export const missionAgent = "mission";

export const evolveMission = (before: MissionState | undefined, event: Recorded): MissionState => {
  if (before === undefined) {
    if (event.type !== "mission.created")
      throw new Error(`Expected mission.created as the first event of ${event.stream}, got ${event.type}`);
    return withNow(createdState(event), event.at);
  }
  const state = fold(
    {
      ...before,
      version: event.version,
      position: event.position,
      updatedAt: event.at,
      workedAt: workedAt(before, event),
    },
    before,
    event,
  );
  return withNow({ ...state, lifecycle: isAwake(state) ? "active" : "completed" }, event.at);
};

const fold = (state: MissionState, before: MissionState, event: Recorded): MissionState => {
  switch (event.type) {
    case "mission.created":
      throw new Error(`Expected one mission.created in ${event.stream}, got a second at version ${event.version}`);
    case "mission.woken": {
      const { productPillar, model, squads, allowSquadProduction, budget, checks, models, by } = event.data;
      const { approve, merge, priority, metadata, callbackURL, limits } = event.data;
      const agent = models?.agent ?? model;
      return {
        ...state,
        aborted: null,
        archived: by === "user" ? false : state.archived,
        ...(by === "user" || agent !== undefined ? withModel(state, state.sessionID, agent ?? state.wanted) : {}),
        wanted: agent ?? state.wanted,
        named: model ?? state.named,
        models: { tasks: models?.tasks ?? state.models.tasks, review: models?.review ?? state.models.review },
        productPillar: productPillar ?? state.productPillar,
        squads: squads ?? state.squads,
        allowSquadProduction: allowSquadProduction ?? state.allowSquadProduction,
        cap: budget === undefined ? state.cap : budget,
        ...(checks === undefined ? {} : { checks, unchecked: checks.length === 0, acceptance: null }),
        approve: approve ?? state.approve,
        merge: merge ?? state.merge,
        priority: priority ?? state.priority,
        metadata: metadata ?? state.metadata,
        limits: limits ?? state.limits,
        callbackURL: callbackURL === undefined ? state.callbackURL : callbackURL,
        refusedBy: null,
        paused: null,
        ...(by === "time" ? heard(state, event) : {}),
      };
    }
    case "mission.updated":
      return {
        ...state,
        title: event.data.title ?? state.title,
        titleBy: event.data.title === undefined ? state.titleBy : "caller",
        archived: event.data.archived ?? state.archived,
      };
    case "mission.aborted":
      return {
        ...state,
        aborted: { ...event.data, at: event.at },
        open: [],
        asks: [],
        retry: null,
        deferred: null,
        pause: null,
        quotaSince: null,
        told: null,
        judging: null,
      };
    case "mission.judging": {
      const { sessionID: _, ...judging } = event.data;
      return { ...state, judging, reminded: false };
    }
    case "mission.finished":
      return {
        ...state,
        judging: null,
        finished: event.data,
        proposes: event.data.outcome === "done" && hasLanded(state),
      };
    case "mission.proposed": {
      const { pullRequest, commit } = event.data;
      return {
        ...state,
        pullRequest: pullRequest ?? state.pullRequest,
        proposed: commit ?? state.proposed,
        proposes: false,
      };
    }
    case "mission.verified":
      return event.data.of === "acceptance"
        ? { ...state, acceptance: event.data }
        : { ...state, verification: event.data };
    case "mission.branched": {
      const { branch: name, commit, of } = event.data;
      return { ...state, branch: { name, commit, of, used: false } };
    }
    case "mission.unmerged": {
      const { reason } = event.data;
      return { ...state, mergeProblem: reason, unmerged: state.unmerged && reason !== null };
    }
    case "mission.reminded":
      return { ...heard(state, event), reminded: true };
    case "mission.paused":
      return { ...state, paused: event.data, messages: state.messages + 1 };
    case "mission.stalled":
      return { ...state, told: "stalled" };
    case "mission.waiting":
      return { ...state, told: "waiting" };
    case "phase.written":
      return replanned(state, event, withPhase(state.plan, event.data.phase));
    case "phase.dropped":
      return replanned(
        state,
        event,
        state.plan.filter(({ id }) => id !== event.data.phase),
      );
    case "plan.ordered":
      return replanned(state, event, inOrder(state.plan, event.data.phases));
    case "plan.written":
      return replanned(state, event, event.data.phases);
    case "task.dispatched": {
      const { sessionID: _, lookAt = null, ...data } = event.data;
      return {
        ...state,
        ...afterDispatch(state, event.data),
        judged: state.judged + (data.judges === undefined ? 0 : 1),
        tasks: [...state.tasks, { ...data, lookAt, ends: [], attempt: 1, reconciled: null }],
        reminded: false,
      };
    }
    case "task.asked": {
      const { taskID, askID } = event.data;
      return { ...heard(state, event), questions: [...state.questions, { taskID, askID }] };
    }
    case "task.watched":
      return { ...state, tasks: changed(state, event.data.taskID, () => ({ lookAt: event.data.lookAt })) };
    case "task.overdue":
      return { ...heard(state, event), tasks: changed(state, event.data.taskID, () => ({ lookAt: null })) };
    case "task.answered": {
      const { askID, said } = event.data;
      return {
        ...(said === undefined ? state : { ...overheard(state), words: event.version }),
        questions: state.questions.filter((question) => question.askID !== askID),
      };
    }
    case "task.messaged":
      return { ...overheard(state), words: event.version };
    case "task.reopened":
      return {
        ...state,
        tasks: changed(state, event.data.taskID, (task) => ({
          attempt: event.data.attempt ?? endedOf(task) + 1,
          ...(state.finished === null ? {} : { outdates: state.finished.callID }),
          reserved: event.data.reserved === undefined ? task.reserved : event.data.reserved,
        })),
      };
    case "task.reserved":
      return { ...state, tasks: changed(state, event.data.taskID, () => ({ reserved: event.data.reserved })) };
    case "task.ended":
      return {
        ...(doesNotWake(state, event.data) ? overheard(state) : heard(state, event)),
        ...afterEnd(state, event.data),
        ...afterVerdict(state, event.data),
        ...((event.data.cancelledByUser?.reason ?? "") === "" ? {} : { words: event.version }),
        questions: state.questions.filter(({ taskID }) => taskID !== event.data.taskID),
        // The Task's reservation may have become free.
        paused: null,
        tasks: changed(state, event.data.taskID, ({ ends, attempt }) => ({
          ends: [...ends, event.data],
          lookAt: null,
          attempt: Math.max(attempt, event.data.attempt),
        })),
      };
    case "squad.reconciled":
      return {
        ...(waitsForPlan(state) ? overheard(state) : heard(state, event)),
        tasks: changed(state, event.data.taskID, () => ({ reconciled: event.data.squad })),
      };
    case "squad.refused":
      return {
        ...heard(state, event),
        tasks: changed(state, event.data.taskID, () => ({ reconciled: { refused: event.data.reason } })),
      };
    case "message.received":
      return {
        ...heard(state, event),
        refusedBy: null,
        attachments: together(state.attachments, event.data.attachments),
        deferred: null,
        failure: null,
        repetition: noRepetition,
        reminded: false,
        ...(event.data.source === "service" ? {} : { judged: 0, words: event.version }),
        asked: { question: 0, permission: 0 },
      };
    case "run.started":
      return {
        ...state,
        deferred: null,
        pause: null,
        time: { ms: timeUntil(before, before.workedAt), since: waitsForAnswers(before) ? null : event.at },
        sandbox: event.data.sandbox,
        worker: event.data.worker,
        crashes: crashesWith(before, event.data.worker),
        stopped: false,
      };
    case "reply.finished": {
      const { failure, durationMs, calls } = event.data;
      const answeredMs = state.answeredMs + durationMs;
      return {
        ...evolveSession(state, event),
        answeredMs,
        handedOn: calls.length > 0 ? null : false,
        told: failure === null ? null : state.told,
        failure: failure === null ? null : { failure, at: event.at },
        // A failed turn no longer waits for anything.
        ...(failure === null ? {} : { pause: null }),
      };
    }
    case "tool.finished":
      return { ...evolveSession(state, event), handedOn: foldHandOff(state.handedOn, event.data) };
    case "run.stopped":
    case "run.paused":
    case "run.resumed":
    case "reply.retried":
    case "task.deferred":
    case "model.switched":
    case "tool.started":
    case "conversation.compacted":
    case "ask.reminded":
    case "permission.decided":
      return evolveSession(state, event);
    case "ask.opened":
    case "ask.answered":
      return { ...evolveSession(state, event), ...afterApproval(state, event), ...afterAnswer(event) };
    case "note.written":
    case "budget.warned":
      return state;
    default:
      throw new Error(`Expected a Mission's fact in ${event.stream}, got ${event.type}`);
  }
};

/**
 * The new count of crashes. A process that begins its own run again, as after an outage of the database, has not died
 * of it.
 */
const crashesWith = (before: MissionState, worker: string): number => {
  if (before.stopped || before.open.every(({ callID }) => isWaiting(before, callID))) return 0;
  return before.worker === worker ? before.crashes : before.crashes + 1;
};

/** A person's answer counts as their newest words, too. */
const afterAnswer = ({
  type,
  data,
  version,
}: Recorded & { type: "ask.opened" | "ask.answered" }): Partial<MissionState> =>
  type === "ask.answered" && data.by === "caller" ? { words: version } : {};

/** Whether the Mission's branch contains something that could be proposed. */
const hasLanded = ({ repository, tasks }: MissionState): boolean =>
  repository !== null && tasks.some(({ ends }) => ends.some(({ landedCommit }) => landedCommit !== null));

/** Folds in a message for the agent, which resumes work even if the Mission was finished. */
const heard = (state: MissionState, { version }: Recorded): MissionState => ({
  ...state,
  input: version,
  finished: null,
  judging: null,
  proposes: false,
  mergeProblem: null,
  told: null,
  messages: state.messages + 1,
});

type Replanned = Recorded & { type: "phase.written" | "phase.dropped" | "plan.ordered" | "plan.written" };

/** The fold after a change of the plan. The agent is told of a person's change. */
const replanned = (state: MissionState, event: Replanned, plan: MissionState["plan"]): MissionState => {
  const { version } = event;
  const changed = { ...state, plan, planRevision: version, reminded: false };
  if (event.data.callID !== null) return changed;
  const told = isQuietEdit(changed) ? overheard(changed) : heard(changed, event);
  return { ...told, planEdited: version, words: version, judged: 0 };
};

/** Folds in a message that does not wake the agent: it is read with the next one that does. */
const overheard = (state: MissionState): MissionState => ({ ...state, messages: state.messages + 1 });

/** Merges attachments; a file replaces an older one with the same name. */
const together = (known: readonly AttachmentRef[], given: readonly AttachmentRef[]): AttachmentRef[] => {
  const names = new Map([...known, ...given].map((file) => [file.filename, file]));
  for (const { filename } of given) {
    const newest = names.get(filename);
    names.delete(filename);
    if (newest !== undefined) names.set(filename, newest);
  }
  return [...names.values()].slice(-attachmentsKept);
};

/** How many files of wakes stay available to Tasks; older ones are dropped. */
const attachmentsKept = 64;

const changed = (
  state: MissionState,
  taskID: string,
  change: (task: Dispatched) => Partial<Dispatched>,
): Dispatched[] => state.tasks.map((task) => (task.taskID === taskID ? { ...task, ...change(task) } : task));

const createdState = (event: Recorded & { type: "mission.created" }): MissionState => {
  const { data, at, version, position } = event;
  return {
    ...beginStream({ sessionID: data.sessionID, agent: missionAgent, kind: "mission", model: data.model, at }),
    missionID: data.missionID,
    sessionID: data.sessionID,
    version,
    position,
    title: data.title,
    titleBy: data.titleBy,
    directory: data.directory,
    project: projectOf(data),
    repository: data.repository ?? null,
    pullRequest: null,
    proposed: null,
    proposes: false,
    landing: data.landing ?? (data.repository === undefined ? "commit" : "branch"),
    merge: "manual",
    branch: null,
    unmerged: false,
    mergeProblem: null,
    productPillar: data.productPillar,
    priority: "normal",
    metadata: {},
    callbackURL: null,
    limits: {},
    budget: null,
    named: null,
    models: { tasks: null, review: null },
    squads: [],
    allowSquadProduction: null,
    cap: null,
    checks: [],
    acceptance: null,
    verification: null,
    approve: [],
    approvedPlan: null,
    planDenied: false,
    askedPlan: null,
    refusedBy: null,
    answeredMs: 0,
    archived: false,
    createdAt: at,
    lifecycle: "completed",
    aborted: null,
    attachments: [],
    plan: [],
    planRevision: 0,
    planEdited: 0,
    tasks: [],
    questions: [],
    unchecked: false,
    judging: null,
    verdict: null,
    words: 0,
    judged: 0,
    finished: null,
    reminded: false,
    handedOn: false,
    paused: null,
    told: null,
    failure: null,
  };
};
