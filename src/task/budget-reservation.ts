import type { DomainEvent, StreamID } from "../domain/event.ts";
import { grantOf, grantText } from "../domain/mission/grant.ts";
import { minutesOf } from "../domain/mission/budget.ts";
import { withCurrentRows } from "../domain/mission/status.ts";
import type { MissionState } from "../domain/state/mission.ts";
import { isActive, type TaskState } from "../domain/state/task.ts";
import { ServiceError } from "../error.ts";
import type { MissionBudget } from "../protocol/mission/status.ts";
import type { Store, Write } from "../store/store.ts";
import type { TasksDeps } from "./tasks.ts";
import { unheardMinutes } from "./unreported-end.ts";

/**
 * Reserves what a Task of a Mission may use when it continues after its end or gets another budget. The reservation is
 * written to the Mission's log in the same commit as the change itself. Refuses with `budget_reached` when the
 * Mission's cap leaves nothing.
 */

/** What to add to the commit: `events` to the Task's log, `also` to the Mission's. */
export type Reservation = { events: DomainEvent[]; also: Write["appends"] };

const nothing: Reservation = { events: [], also: [] };

export type Reserve = ReturnType<typeof createReserve>;

export const createReserve = ({
  store,
  limits,
}: Pick<TasksDeps, "limits"> & { store: Pick<Store, "mission" | "dispatched" | "state" | "read"> }) => {
  /**
   * The Mission's state brought up to date with its Tasks' rows. While a Mission is aborted it hears of no ends, so
   * they are added here: what those attempts used counts as used, the rest of their reservation is free again.
   */
  const seen = async (stream: StreamID): Promise<MissionState | undefined> => {
    const mission = await store.mission(stream);
    if (mission === undefined || mission.cap === null) return mission;
    const rows = new Map((await store.dispatched(stream)).map((row) => [row.taskID, row]));
    return withCurrentRows(mission, rows, await unheardMinutes(store, mission, rows));
  };

  const reserve = async (
    task: TaskState,
    { wanted, exact, callID }: { wanted: MissionBudget | undefined; exact: boolean; callID: string | undefined },
  ): Promise<Reservation> => {
    const mission = task.mission === null ? undefined : await seen(task.mission.sessionID);
    const known = mission?.tasks.find(({ taskID }) => taskID === task.taskID);
    // Its Mission is gone: nobody counts what the Task uses.
    if (mission === undefined || known === undefined) return nothing;
    const running = isActive(task);
    const used = { usage: task.usage, minutes: minutesOf(known) };
    const own = task.budget as MissionBudget | null;
    const byUser = callID === undefined;
    const granted =
      mission.cap === null && (byUser || (wanted === undefined && running))
        ? { ok: true as const, budget: exact ? (wanted ?? null) : own }
        : grantOf(mission, known, {
            own,
            wanted,
            used,
            running,
            kept: byUser ? 0 : limits.reservePercent,
            exact,
          });
    if (!granted.ok)
      throw new ServiceError("budget_reached", `${grantText(granted)}.`, {
        details: { taskID: task.taskID, name: granted.name, left: granted.left, cap: granted.cap },
      });
    const { budget } = granted;
    const call = callID === undefined ? {} : { callID };
    const at = { sessionID: mission.sessionID, taskID: task.taskID, ...call };
    const fact: DomainEvent = running
      ? { type: "task.reserved", data: { ...at, reserved: budget } }
      : { type: "task.reopened", data: { ...at, attempt: task.attempt + 1, reserved: budget } };
    return {
      events: same(budget, own) || exact ? [] : [{ type: "task.updated", data: { budget } }],
      also: [{ stream: mission.sessionID, expected: mission.version, events: [fact] }],
    };
  };

  return {
    /** For a Task that continues after its end. `wanted`: the budget it gets; undefined: its own budget stays. */
    again: (task: TaskState, wanted?: MissionBudget, callID?: string) =>
      reserve(task, { wanted, exact: false, callID }),
    /** For a Task whose budget changes. An ended Task reserves nothing now; it does when it continues. */
    changed: async (task: TaskState, budget: MissionBudget | null): Promise<Reservation> =>
      isActive(task) ? reserve(task, { wanted: budget ?? {}, exact: true, callID: undefined }) : nothing,
  };
};

const same = (one: MissionBudget | null, other: MissionBudget | null): boolean =>
  (["maxCostUSD", "maxTokens", "maxSteps", "maxMinutes"] as const).every((name) => one?.[name] === other?.[name]);
