import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { asksClosedBy, endAsks } from "../domain/session/ask.ts";
import type { DomainEvent } from "../domain/event.ts";
import type { MissionState } from "../domain/state/mission.ts";
import { openAsks } from "../domain/state/stream.ts";
import { dueNow } from "../engine/due.ts";
import { ServiceError } from "../error.ts";
import { newID } from "../id.ts";
import type { CheckSpec } from "../protocol/check.ts";
import type { OwnLimits } from "../protocol/field.ts";
import type { MissionWake } from "../protocol/mission/request.ts";
import type { MissionBudget, MissionWoken } from "../protocol/mission/status.ts";
import { retryAfterFetch } from "../repository/fetched.ts";
import { keepText } from "../store/blob/text.ts";
import { invalidField } from "../task/operation/check-spec.ts";
import type { Project } from "../workspace/workspace.ts";
import { wholeChecks } from "./whole-checks.ts";
import { idempotencyRecord, replay } from "../task/operation/idempotency.ts";
import { keepAttachments } from "../task/operation/attachment.ts";
import { titleOf } from "../domain/task/title.ts";
import type { Missions, MissionsDeps } from "./missions.ts";

/**
 * Starts a Mission or gives it new direction. Of concurrent wakes with the same new id one creates the Mission, because
 * the store keeps its name unique; the others then wake that one.
 */
export const createWake =
  (deps: MissionsDeps, stateOf: (directory: string, missionID: string) => Promise<MissionState>): Missions["wake"] =>
  async (directory, body, once, by = "person") => {
    const { store, engine, now } = deps;
    const place = await deps.inspectNew(directory);
    const kept = deps.repositories.at(place.directory);
    const missionID = body.missionID ?? randomBytes(8).toString("hex");
    const model = body.model === undefined ? undefined : deps.resolveModel(body.model);
    const among = place.elsewhere === undefined ? place.directory : undefined;
    await retryAfterFetch(deps.repositories, kept, () => checkSquads(deps, body.squads ?? [], among));
    const given = {
      text: body.text === undefined ? undefined : await keepText(store.blobs, body.text),
      attachments: await keepAttachments(store.blobs, body.attachments ?? []),
    };
    const told = body.callbackURL == null ? undefined : deps.callback(body.callbackURL);
    const checks = body.checks === undefined ? undefined : await wholeChecks(deps, body, place);
    const settings = {
      by: "user" as const,
      ...(body.productPillar === undefined ? {} : { productPillar: body.productPillar }),
      ...(model === undefined ? {} : { model }),
      ...(body.models === undefined ? {} : { models: resolved(deps, body.models) }),
      ...(body.squads === undefined ? {} : { squads: body.squads }),
      ...(body.allowSquadProduction === undefined ? {} : { allowSquadProduction: body.allowSquadProduction }),
      ...(checks === undefined ? {} : { checks }),
      ...(body.approve === undefined ? {} : { approve: [...new Set(body.approve)] }),
      ...(body.merge === undefined ? {} : { merge: body.merge }),
      ...(body.priority === undefined ? {} : { priority: body.priority }),
      ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
      ...(body.limits === undefined ? {} : { limits: body.limits as OwnLimits }),
      ...(body.callbackURL === undefined ? {} : { callbackURL: told?.shown ?? null }),
      ...(body.budget === undefined ? {} : { budget: body.budget as MissionBudget | null }),
    };
    const landing = body.landing ?? "commit";
    expectLanding(body, kept !== undefined, place);
    const woken = (sessionID: string): DomainEvent => ({ type: "mission.woken", data: { sessionID, ...settings } });
    const message = (sessionID: string): DomainEvent => ({
      type: "message.received",
      data: {
        messageID: newID("msg"),
        sessionID,
        ...(given.text === undefined ? { source: "service", text: withoutText } : { source: "user", text: given.text }),
        attachments: given.attachments,
        disposition: "steered",
      },
    });

    const begun = async (sessionID: string): Promise<DomainEvent> => {
      if (body.text === undefined) {
        const message = "Expected a text for a new Mission, got none";
        const issues = [{ path: "body.text", message, code: "custom" }];
        throw new ServiceError("invalid_request", `body.text: ${message}`, { issues });
      }
      await deps.disk.admit();
      return {
        type: "mission.created",
        data: {
          missionID,
          sessionID,
          title: body.title ?? titleOf(body.text),
          titleBy: body.title === undefined ? "service" : "caller",
          directory: place.directory,
          project: place.project,
          ...(place.elsewhere === undefined ? {} : { node: place.elsewhere.node }),
          productPillar: body.productPillar ?? "code",
          model: settings.models?.agent ?? model ?? deps.resolveModel(undefined),
          ...(landing === "commit" || kept !== undefined ? {} : { landing }),
          ...(kept === undefined ? {} : { repository: { url: kept.url, ref: kept.ref, branch: branchOf() } }),
        },
      };
    };

    /**
     * The name of the Mission's branch, as long as nobody else has it: that is checked before the first Task is
     * dispatched.
     */
    const branchOf = (): string =>
      deps.repositories.branchFor({ taskID: missionID, title: body.title ?? titleOf(body.text ?? ""), at: now() });

    for (;;) {
      const [known] = await store.missionsNamed(missionID, place.project);
      const state = known === undefined ? undefined : await stateOf(place.directory, missionID).catch(gone);
      if (known !== undefined && state === undefined) continue;
      const ref = body.repository?.ref;
      if (state?.repository != null && ref !== undefined && kept?.ref !== state.repository.ref) {
        const message = `Expected the ref that the Mission began with (${state.repository.ref ?? "none"}), got ${ref}`;
        const issues = [{ path: "body.repository.ref", message, code: "custom" }];
        throw new ServiceError("invalid_request", `body.repository.ref: ${message}`, { issues });
      }
      expectSame(body, state);
      if (by === "agent" && state !== undefined) expectLeft(body, checks, state);
      const stream = state?.sessionID ?? newID("ses");
      const closed = state === undefined ? [] : closedBy(body, state);
      const waits = state !== undefined && openAsks(state).length > closed.length;
      const says = body.text !== undefined || given.attachments.length > 0 || !waits;
      const events = [
        ...(state === undefined ? [await begun(stream)] : closed),
        woken(stream),
        ...(says ? [message(stream)] : []),
      ];
      const answer: MissionWoken = { missionID, sessionID: stream, created: state === undefined };
      const due = dueNow(now(), body.priority ?? state?.priority ?? "normal");
      const done = await store.commit({
        appends: [{ stream, expected: state?.version ?? 0, events }],
        due: [{ stream, due }],
        ...(told === undefined ? {} : { callbacks: [{ stream, url: told.url }] }),
        ...(once === undefined ? {} : { once: idempotencyRecord(once, 200, answer, false) }),
      });
      if (done.ok) {
        engine.nudge(stream, due);
        return { status: 200, body: answer, replayed: false };
      }
      if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    }
  };

const resolved = (
  { resolveModel }: Pick<MissionsDeps, "resolveModel">,
  { agent, tasks, review }: NonNullable<MissionWake["models"]>,
): Extract<DomainEvent, { type: "mission.woken" }>["data"]["models"] & object => ({
  ...(agent === undefined ? {} : { agent: resolveModel(agent) }),
  ...(tasks === undefined ? {} : { tasks: resolveModel(tasks) }),
  ...(review === undefined ? {} : { review: resolveModel(review) }),
});

/**
 * The asks that a wake closes. A wake with a text supersedes them all. A wake without one answers nothing: it closes
 * only an approval of the plan that is no longer wanted, and the Mission goes on waiting for the other answers.
 */
const closedBy = ({ text, approve }: MissionWake, state: MissionState): DomainEvent[] => {
  if (text !== undefined) return asksClosedBy(state, "steered");
  const unwanted = approve !== undefined && !approve.includes("plan");
  return endAsks(
    openAsks(state).filter(({ kind }) => kind === "approval" && unwanted),
    "message",
  );
};

const withoutText =
  "The user woke you without a text. Look where the Mission stands with `task_status`, and go on; say what you need if you cannot.";

/** Refuses with `invalid_request` a landing, merge or approval that no Mission of this project can have. */
const expectLanding = (
  { landing, merge, approve = [] }: MissionWake,
  mirrored: boolean,
  { git, elsewhere }: Project,
): void => {
  if (mirrored && landing === "commit")
    throw invalidField("landing", 'Expected "branch" with a repository, whose branch is not pushed to, got "commit"');
  if (mirrored && merge !== undefined)
    throw invalidField("merge", `Expected no merge with a repository, where its branch is proposed, got "${merge}"`);
  if (mirrored || (elsewhere === undefined ? git?.head != null : elsewhere.git)) return;
  if (landing === "branch")
    throw invalidField("landing", 'Expected a Git project with a commit for the landing "branch", got none');
  if (approve.includes("landing"))
    throw invalidField(
      "approve",
      'Expected no "landing" without a Git project with a commit: its Tasks work in place, and their edits are final at once',
    );
};

/**
 * Refuses another landing than the Mission began with: where its Tasks begin cannot change under them. A merge needs a
 * branch of the Mission's own.
 */
const expectSame = ({ landing, merge }: MissionWake, state: MissionState | undefined): void => {
  const known = state?.landing ?? landing ?? "commit";
  if (landing !== undefined && landing !== known)
    throw invalidField("landing", `Expected the landing that the Mission began with (${known}), got ${landing}`);
  if (merge !== undefined && known !== "branch")
    throw invalidField(
      "merge",
      `Expected no merge with the landing "commit", whose phases land separately, got "${merge}"`,
    );
};

/** Refuses what only a person may decide, when an agent asks for it. */
const expectLeft = (
  { approve, merge, budget }: MissionWake,
  checks: readonly CheckSpec[] | undefined,
  state: MissionState,
): void => {
  const gone = state.approve.filter((of) => approve !== undefined && !approve.includes(of));
  if (gone.length > 0)
    throw invalidField(
      "approve",
      `Expected ${state.approve.join(", ")} to stay in it: only a person takes an approval away, with \`sortie mission wake\` or over HTTP; got none of ${gone.join(", ")}`,
    );
  if (merge === "auto" && state.merge === "manual")
    throw invalidField("merge", 'Expected "manual", because a person merges the branch of this Mission, got "auto"');
  const dropped = state.checks.filter((one) => checks?.some((other) => isSame(one, other)) === false);
  if (dropped.length > 0)
    throw invalidField(
      "checks",
      `Expected the checks of the Mission to stay in it: only a person takes one away, with \`sortie mission wake\` or over HTTP; got none like ${dropped.map(({ name }) => JSON.stringify(name)).join(", ")}`,
    );
  if (checks?.length === 0 && !state.unchecked)
    throw invalidField(
      "checks",
      "Expected none, or some that the whole is to pass: only a person has a Mission end that nobody looked at, with `sortie mission wake` or over HTTP; got []",
    );
  const uncapped = Object.entries(state.cap ?? {}).flatMap(([name, most]) =>
    budget !== undefined && most !== undefined && budget?.[name as keyof MissionBudget] === undefined ? [name] : [],
  );
  if (uncapped.length > 0)
    throw invalidField(
      "budget",
      `Expected ${uncapped.join(", ")} in it, higher where more is to be spent: only a person removes a limit, with \`sortie mission wake\` or over HTTP; got none`,
    );
};

/** Whether two checks are equal except for their ids, which come from their order. */
const isSame = ({ id: _one, ...one }: CheckSpec, { id: _other, ...other }: CheckSpec): boolean =>
  isDeepStrictEqual(one, JSON.parse(JSON.stringify(other)));

/** The Mission was deleted in the meantime, so the wake starts a new one. */
const gone = (error: unknown): undefined => {
  if (error instanceof ServiceError && error.code === "mission_not_found") return undefined;
  throw error;
};

const checkSquads = async (
  deps: MissionsDeps,
  squads: readonly string[],
  directory: string | undefined,
): Promise<void> => {
  for (const id of squads)
    if ((await deps.catalog.find(id, directory)) === undefined)
      throw new ServiceError(
        "squad_not_available",
        `Expected body.squads to name installed squads, got ${JSON.stringify(id)}.`,
      );
};
