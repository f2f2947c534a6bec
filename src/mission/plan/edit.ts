import { askedPlan, isPlanDue } from "../../domain/mission/approval.ts";
import { answer } from "../../domain/session/ask.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { evolveMission } from "../../domain/mission/evolve.ts";
import type { MissionState } from "../../domain/state/mission.ts";
import { ServiceError } from "../../error.ts";
import { newID } from "../../id.ts";
import type { MissionPlan } from "../../protocol/mission/request.ts";
import type { MissionPlanned } from "../../protocol/mission/status.ts";
import { invalidField } from "../../task/operation/check-spec.ts";
import type { Answerer } from "../../task/tasks.ts";
import type { MissionsDeps } from "../missions.ts";
import { planAnswerEvents, planAsk, voidPlan } from "./approval.ts";
import { planRefusal, planEvents, phaseOf } from "./rules.ts";

/**
 * A person's change of the plan: the same events as the agent's tools write, under the same rules. An open approval
 * becomes void, because it is about another plan; the person may approve the new plan in the same commit.
 */
export const editPlan = async (
  { store, now }: Pick<MissionsDeps, "store" | "now">,
  state: MissionState,
  { phases, revision, approve = false, source = "api" }: MissionPlan,
  from: Answerer,
): Promise<{ events: DomainEvent[]; wakes: true; body: MissionPlanned }> => {
  const { missionID, sessionID, position } = state;
  const next = phases.map(phaseOf);
  const { facts, ...change } = planEvents(state.plan, next, { sessionID, callID: null, source, from });
  if (facts.length > 0 && revision !== state.planRevision)
    throw new ServiceError(
      "plan_changed",
      `Expected the plan of revision ${state.planRevision} to be changed, got ${revision}: it was changed meanwhile.`,
      { details: { missionID, planRevision: state.planRevision } },
    );
  if (approve && !state.approve.includes("plan"))
    throw invalidField("approve", "Expected none for a Mission that asks for no approval of its plan, got true");
  const problem = await planRefusal(store, state, next, "cancel that Task first");
  if (problem !== undefined) throw invalidField("phases", `${problem}. The plan is as it was`);

  const events = facts.length === 0 ? [] : [...voidPlan(state), ...facts];
  const changed = withEvents(state, events, now());
  const approved = approve && isPlanDue(changed) ? approvalOf(changed, { source, from }, now()) : [];
  const { planRevision } = changed;
  return {
    events: [...events, ...approved],
    wakes: true,
    body: { missionID, planRevision, ...change, approved: approve || !isPlanDue(changed), eventID: position },
  };
};

/** Approves the plan of `state`: opens the question about it if it is not open yet, and answers it with allow. */
const approvalOf = (state: MissionState, by: { source: string; from: Answerer }, now: Date): DomainEvent[] => {
  const known = askedPlan(state);
  const askID = known?.askID ?? newID("ask");
  const asks = known === undefined ? [...voidPlan(state), planAsk(state, askID)] : [];
  const asked = withEvents(state, asks, now);
  const decision = answer(asked, askID, { decision: "allow", ...by }, now);
  if (decision.kind !== "events") throw new Error(`Expected ${askID} to take an approval, got ${decision.kind}.`);
  return [...asks, ...decision.events, ...planAnswerEvents(asked, askID, { decision: "allow" })];
};

/** The state as it is after the commit of these events. */
const withEvents = (state: MissionState, events: readonly DomainEvent[], now: Date): MissionState =>
  events.reduce<MissionState>(
    (before, event) =>
      evolveMission(before, {
        ...event,
        stream: state.sessionID,
        version: before.version + 1,
        position: before.position + 1,
        at: now.toISOString(),
      }),
    state,
  );
