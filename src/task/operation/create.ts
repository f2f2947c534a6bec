import { type AgentSpec, isReviewer, type ModelRef, type SquadRef } from "../../domain/agent.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { titleOf } from "../../domain/task/title.ts";
import { dueNow } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import { newID } from "../../id.ts";
import type { Approvable, OwnLimits } from "../../protocol/field.ts";
import type { TaskCreate } from "../../protocol/task/request.ts";
import { orFetched } from "../../repository/fetched.ts";
import type { RemoteLanding, Repositories } from "../../repository/repository.ts";
import { keepText } from "../../store/blob/text.ts";
import { readSchema } from "../../tool/output/read-schema.ts";
import type { Project } from "../../workspace/workspace.ts";
import { cloneRemote } from "../clone-remote.ts";
import { MissionMovedOn, type TaskCreated, type Tasks, type TasksDeps } from "../tasks.ts";
import { keepAttachments } from "./attachment.ts";
import { checkSpecs, invalidField } from "./check-spec.ts";
import { idempotencyRecord, replay } from "./idempotency.ts";
import { withBaselines } from "./visual-baseline.ts";

/**
 * Creates a Task: fills in what the request leaves open, refuses what cannot be carried out, and writes everything in
 * one commit.
 */
export const createTask =
  (deps: TasksDeps): Tasks["create"] =>
  async (directory, body, once, origin, replyTo) => {
    const { store, engine, workspaces, limits } = deps;
    const told = body.callbackURL === undefined ? undefined : deps.callback(body.callbackURL);
    const callback = replyTo === undefined ? told : { url: replyTo, shown: replyTo };
    const named = body.repository;
    const wanted = named === undefined ? directory : deps.repositories.place(named.url, named.ref).directory;
    // A Mission dispatches where it runs.
    const project = await (origin === undefined ? deps.inspectNew(wanted) : workspaces.inspect(wanted));
    const kept = deps.repositories.at(project.directory);
    const repository = kept && { url: kept.url, ref: kept.ref };
    const place =
      kept === undefined
        ? placeOf(project, body, deps.defaults.landing)
        : remotePlace(body, deps.repositories.landing(kept), origin !== undefined);
    if (project.elsewhere !== undefined) expectNoFiles(project.elsewhere, body, place.landing);
    const remote =
      kept === undefined && place.landing === "pull-request" ? cloneRemote(project, deps.repositories) : undefined;
    const wantedSquad = body.promptProfile ?? deps.defaults.squad;
    const squad =
      origin?.catalog === undefined
        ? await orFetched(deps.repositories, kept, () =>
            deps.squads.pin(wantedSquad, project.elsewhere === undefined ? project.directory : undefined),
          )
        : await deps.squads.pin(wantedSquad, origin.catalog);
    if (origin?.expected !== undefined) checkRevision(squad, origin.expected);
    const { orchestrator, agents, pillars } = await deps.squads.load(squad);
    // The contract names the squad that makes squads, whatever the Mission's pillar is.
    if (origin?.production === undefined && !pillars.includes(body.productPillar))
      throw new ServiceError(
        "squad_not_available",
        `Expected a squad for ${body.productPillar}, got ${squad.id}, which is for ${pillars.join(" and ")}.`,
      );
    const model = modelFor(orchestrator, body.model, origin?.model, deps.resolveModel);
    if (body.effort !== undefined && orchestrator.runtime !== undefined)
      throw invalidField(
        "effort",
        `Expected no effort with an external agent, which brings its own model, got "${body.effort}"`,
      );
    if (body.outputSchema !== undefined && orchestrator.runtime !== undefined)
      throw invalidField("outputSchema", "Expected none with an external agent, whose tools are its own");
    const outputSchema = await readSchema(body.outputSchema);
    await expectRoom(deps);

    const judged = (body.checks ?? []).findIndex((check) => typeof check === "object" && check.kind === "review");
    if (judged >= 0 && !agents.some(isReviewer))
      throw invalidField(
        `checks[${judged}].kind`,
        `Expected a squad with a reviewer for a check of the kind review, got ${squad.id}`,
      );

    const taskID = newID("task");
    const given = origin?.attachments ?? [];
    const checks =
      origin?.merge?.checks.slice() ??
      (await withBaselines(checkSpecs(body.checks ?? []), body.checks ?? [], {
        attachments: [
          ...(body.attachments ?? []).map(({ filename, data }) => ({
            filename,
            load: async () => Buffer.from(data, "base64"),
          })),
          ...given.map(({ filename, sha256 }) => ({ filename, load: () => store.blobs.get(sha256) })),
        ],
        directory: project.directory,
        blobs: store.blobs,
        limits,
      }));
    const created: DomainEvent = {
      type: "task.created",
      data: {
        taskID,
        title: body.title ?? titleOf(body.request),
        titleBy: body.title === undefined ? "service" : "caller",
        request: await keepText(store.blobs, body.request),
        productPillar: body.productPillar,
        priority: body.priority ?? "normal",
        source: body.source ?? "api",
        directory: project.directory,
        project: project.project,
        ...(project.elsewhere === undefined ? {} : { node: project.elsewhere.node }),
        ...(repository === undefined ? {} : { repository }),
        ...(remote === undefined ? {} : { remote }),
        checks,
        ...(body.checks?.length === 0 ? { unchecked: true as const } : {}),
        attachments: [...(await keepAttachments(store.blobs, body.attachments ?? [])), ...given],
        metadata: body.metadata ?? {},
        squad,
        model,
        ...(body.effort === undefined ? {} : { effort: body.effort }),
        ...(origin?.reviewModel === undefined ? {} : { reviewModel: origin.reviewModel }),
        ...place,
        budget: body.budget ?? null,
        sessionID: newID("ses"),
        agent: orchestrator.name,
        ...(origin === undefined ? {} : { mission: origin.mission }),
        ...(origin?.phase == null ? {} : { phase: origin.phase }),
        ...(origin?.onto === undefined ? {} : { onto: origin.onto }),
        ...(origin?.merge === undefined ? {} : { mergeOf: origin.merge.of }),
        ...(origin?.judges === true ? { judges: true as const } : {}),
        ...(callback === undefined ? {} : { callbackURL: callback.shown }),
        ...approvals(origin?.approve ?? body.approve ?? [], place, orchestrator.runtime),
        ...(outputSchema === undefined ? {} : { outputSchema: await keepText(store.blobs, outputSchema) }),
        ...(body.contrast === false || origin?.merge !== undefined ? { contrast: false as const } : {}),
        ...(deps.terms === undefined ? {} : { terms: deps.terms(checks.some(({ kind }) => kind === "visual")) }),
        ...(body.limits === undefined ? {} : { limits: body.limits as OwnLimits }),
        ...(origin?.production === undefined ? {} : { production: origin.production }),
      },
    };
    const { id, version, digest } = squad;
    const reply: TaskCreated = {
      task_id: taskID,
      taskID,
      directory: project.directory,
      squad: { id, version, digest },
      ...place,
      ...(repository === undefined ? {} : { repository }),
    };
    const due = dueNow(deps.now(), created.data.priority);
    const handed: DomainEvent[] =
      origin?.handover === undefined
        ? []
        : [
            {
              type: "message.received",
              data: {
                messageID: `service-${taskID}`,
                sessionID: created.data.sessionID,
                source: "mission",
                text: await keepText(store.blobs, origin.handover),
                attachments: [],
                disposition: "steered",
              },
            },
          ];
    const also = origin?.also({ taskID, title: created.data.title, squad });
    const done = await store.commit({
      appends: [
        { stream: taskID, expected: 0, events: [created, ...handed] },
        ...(also === undefined ? [] : [also.append]),
      ],
      due: [{ stream: taskID, due }],
      ...(callback === undefined ? {} : { callbacks: [{ stream: taskID, url: callback.url }] }),
      ...(also?.fence === undefined ? {} : { fence: also.fence }),
      ...(once === undefined ? {} : { once: idempotencyRecord(once, 202, reply, false) }),
    });
    if (done.ok) {
      engine.nudge(taskID, due);
      return { status: 202, body: reply, replayed: false };
    }
    if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    if (origin !== undefined && done.reason !== "name") throw new MissionMovedOn(done.reason);
    throw new Error(`A new Task could not be written: ${done.reason}`);
  };

/** Refuses another Task where there is no room for one. */
export const expectRoom = async ({
  disk,
  store,
  limits,
}: Pick<TasksDeps, "disk" | "store" | "limits">): Promise<void> => {
  await disk.admit();
  if ((await store.waiting()) >= limits.waiting)
    throw new ServiceError("queue_full", `Expected fewer than ${limits.waiting} waiting Tasks.`);
};

const checkRevision = (squad: SquadRef, { version, digest }: Pick<SquadRef, "version" | "digest">): void => {
  if (squad.digest === digest && squad.version === version) return;
  throw new ServiceError(
    "squad_changed",
    `Expected the squad ${squad.id} as ${version} (${digest}), got ${squad.version} (${squad.digest}): it was changed since.`,
    { details: { digest: squad.digest } },
  );
};

const hasCommits = ({ git, elsewhere }: Project): boolean => elsewhere?.git ?? (git !== undefined && git.head !== null);

/** Where the Task works and where its result lands. */
const placeOf = (
  project: Project,
  body: TaskCreate,
  landing: "commit" | "branch",
): { isolation: "worktree" | "directory"; landing: RemoteLanding | "none" } => {
  const inPlace = body.isolation === "directory" || !hasCommits(project);
  if (!inPlace) return { isolation: "worktree", landing: body.landing ?? landing };
  if (body.landing !== undefined)
    throw new ServiceError(
      "invalid_request",
      body.isolation === "directory"
        ? `Expected no landing with isolation "directory" (edits are final at once), got "${body.landing}".`
        : `Expected no landing: ${project.directory} has no Git commit, so the Task works in place; got "${body.landing}".`,
      { issues: [{ path: "body.landing", message: "Expected to be absent", code: "custom" }] },
    );
  return { isolation: "directory", landing: "none" };
};

/** In place every edit is final at once: there is no landing to approve. */
const approvals = (
  wanted: readonly Approvable[],
  { isolation }: { isolation: "worktree" | "directory" },
  runtime: string | undefined,
): { approve?: Approvable[] } => {
  if (wanted.length === 0) return {};
  if (runtime !== undefined && wanted.includes("plan"))
    throw invalidField("approve", 'Expected no "plan" with an external agent, whose tools are its own');
  if (isolation === "directory" && wanted.includes("landing"))
    throw invalidField(
      "approve",
      'Expected no "landing" for a Task that works in place, whose edits are final at once',
    );
  return { approve: [...new Set(wanted)] };
};

/** A repository is worked on in worktrees, and the operator says what may be done to its branches. */
const remotePlace = (
  { isolation, landing }: TaskCreate,
  { allowed, default: usual, proposes }: ReturnType<Repositories["landing"]>,
  /** It lands on a branch that is its Mission's own. */
  ofMission: boolean,
): { isolation: "worktree"; landing: RemoteLanding } => {
  if (isolation === "directory")
    throw invalidField("isolation", 'Expected "worktree" with a repository, which has no directory of yours');
  if (landing !== undefined && !ofMission && !allowed.includes(landing))
    throw invalidField(
      "landing",
      `Expected one of ${allowed.join(", ")} (repositories.landing of config.jsonc), got "${landing}"`,
    );
  if (landing === "pull-request" && proposes !== undefined)
    throw invalidField("landing", `Expected "branch" or "commit": no pull request can be opened, because ${proposes}`);
  return { isolation: "worktree", landing: landing ?? usual };
};

/** Refuses what can only be made out from the files, where another node has them. */
const expectNoFiles = ({ node }: { node: string }, { checks, attachments }: TaskCreate, landing: string): void => {
  const attached = new Set(attachments?.map(({ filename }) => filename));
  const reads = checks?.some(
    (check) =>
      typeof check === "object" &&
      check.kind === "visual" &&
      typeof check.baseline === "string" &&
      !attached.has(check.baseline),
  );
  const what =
    landing === "pull-request" ? 'landing "pull-request"' : reads === true ? "a baseline of the project" : undefined;
  if (what !== undefined)
    throw new ServiceError("node_away", `Expected the node ${node}, which has the directory, for ${what}: ask it.`, {
      details: { node },
    });
};

/** The model of the Task: an external agent brings its own; every other Task needs one that can be called. */
const modelFor = (
  { runtime, model }: AgentSpec,
  wanted: string | undefined,
  missions: ModelRef | undefined,
  resolve: (ref: string | undefined) => ModelRef,
): ModelRef => {
  if (runtime === undefined) return resolve(wanted ?? model ?? missions);
  const name = runtime.slice("acp:".length);
  if (wanted === undefined) return `acp/${name}`;
  throw invalidField(
    "model",
    `Expected no model with the external agent ${name}, which brings its own, got "${wanted}"`,
  );
};
