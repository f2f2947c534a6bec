import { isReviewer } from "../../domain/agent.ts";
import { serviceSource } from "../../protocol/event/source.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { asksClosedBy } from "../../domain/session/ask.ts";
import { rootOf } from "../../domain/state/stream.ts";
import { isActive, type TaskState } from "../../domain/state/task.ts";
import { dueNow } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import { newID } from "../../id.ts";
import type { MessageAccepted } from "../../protocol/task/accepted.ts";
import type { TaskCreate, TaskMessage } from "../../protocol/task/request.ts";
import { keepText } from "../../store/blob/text.ts";
import type { Write } from "../../store/store.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import { tellMessage } from "../tell-mission.ts";
import { keepAttachments } from "./attachment.ts";
import { checkSpecs, invalidField } from "./check-spec.ts";
import type { Change } from "./commit-change.ts";
import { interruptAll } from "./interrupt.ts";
import type { Reserve } from "../budget-reservation.ts";
import { withBaselines } from "./visual-baseline.ts";
import { delegatesReading, readersOf } from "./reader.ts";

/** Adds an instruction to a Task; an ended Task is restarted. `restarted` is called after a restart was committed. */
export const createMessage =
  (
    deps: Pick<TasksDeps, "store" | "squads" | "limits" | "now">,
    { own, change }: Change,
    reserve: Reserve,
    restarted: (taskID: string) => void,
  ): Tasks["message"] =>
  async (directory, taskID, body, once, mission) => {
    const { store, now } = deps;
    refuseBusy(await own(directory, taskID), body);
    const messageID = newID("msg");
    const text = await keepText(store.blobs, body.text);
    const attachments = await keepAttachments(store.blobs, body.attachments ?? []);
    const replaced = mission?.checks === undefined ? [] : [await replacedChecks(deps, taskID, mission.checks)];
    const byUser = serviceSource(body.source) === undefined ? {} : { byUser: true as const };
    const accepted = await change<MessageAccepted>(taskID, once, async (state) => {
      refuseBusy(state, body);
      const active = isActive(state);
      const { budget, callID } = mission ?? {};
      const reserved = active && budget === undefined ? undefined : await reserve.again(state, budget, callID);
      const interrupt = active && body.onBusy === "interrupt" && state.landingStarted === null;
      const disposition = !active
        ? "restarted"
        : interrupt
          ? "interrupted"
          : body.onBusy === "queue" || state.landingStarted !== null
            ? "queued"
            : "steered";
      const sessionID = rootOf(state);
      const ended = asksClosedBy(state, disposition);
      const closed = ended.flatMap((event) => (event.type === "ask.answered" ? event.data.askID : []));
      return {
        status: 202,
        body: {
          taskID,
          messageID,
          accepted: true,
          disposition,
          readers: readersOf(state, disposition),
          status: "running",
          lifecycleStatus: "active",
          eventID: 0,
        },
        also: together([
          ...(reserved?.also ?? []),
          ...(mission === undefined
            ? await tellMessage(store, state, closed, { messageID, text: body.text, disposition })
            : []),
        ]),
        events: [
          ...(reserved?.events ?? []),
          ...replaced,
          {
            type: "message.received",
            data: { messageID, sessionID, source: body.source, text, attachments, disposition, ...byUser },
          },
          ...delegatesReading(state, disposition).map(
            (session): DomainEvent => ({
              type: "message.passed",
              data: { messageID, sessionID: session.sessionID, source: body.source, text, attachments },
            }),
          ),
          // The delegating agent reads the message only once the calls it waits for have ended, so those are
          // interrupted.
          ...(interrupt ? interruptAll(state, body.source) : []),
          ...ended,
        ],
        ...(active && !interrupt && ended.length === 0 && (state.deferred === null || disposition === "queued")
          ? {}
          : { due: dueNow(now(), state.priority) }),
        revoke: interrupt,
      };
    });
    if (accepted.body.disposition === "restarted") restarted(taskID);
    return accepted;
  };

/** Merges appends to the same stream into one, at the version of the first: all were decided at the same version. */
const together = (appends: Write["appends"]): Write["appends"] =>
  [...Map.groupBy(appends, ({ stream }) => stream).values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [{ ...first, events: [first, ...others].flatMap(({ events }) => events) }],
  );

/**
 * The Task's checks from now on. A check that changes gets a new id, so that no result of the old one counts for it,
 * not even the result of a run that is under way.
 */
const replacedChecks = async (
  { store, squads, limits }: Pick<TasksDeps, "store" | "squads" | "limits">,
  taskID: string,
  given: NonNullable<TaskCreate["checks"]>,
): Promise<DomainEvent> => {
  const state = await store.state(taskID);
  if (state === undefined) throw new ServiceError("task_not_found", `Expected the id of a Task, got ${taskID}.`);
  const judged = given.findIndex((check) => typeof check === "object" && check.kind === "review");
  if (judged >= 0 && !(await squads.load(state.squad)).agents.some(isReviewer))
    throw invalidField(`checks[${judged}].kind`, `Expected a squad with a reviewer, got ${state.squad.id}`);
  const specs = await withBaselines(checkSpecs(given), given, {
    attachments: state.attachments.map(({ filename, sha256 }) => ({ filename, load: () => store.blobs.get(sha256) })),
    directory: state.directory,
    blobs: store.blobs,
    limits,
  });
  const taken = new Set([...state.checks.map(({ id }) => id), ...Object.keys(state.results)]);
  const fresh = (id: string, at = 2): string => (taken.has(`${id}-${at}`) ? fresh(id, at + 1) : `${id}-${at}`);
  const checks = specs.map((spec) => {
    const same = state.checks.some((known) => JSON.stringify(known) === JSON.stringify(spec));
    return same || !taken.has(spec.id) ? spec : { ...spec, id: fresh(spec.id) };
  });
  return { type: "checks.replaced", data: { checks } };
};

const refuseBusy = (state: TaskState, body: TaskMessage): void => {
  if (isActive(state) && body.onBusy === "reject")
    throw new ServiceError("task_busy", `Expected ${state.taskID} to be inactive (onBusy: reject), it is running.`);
};
