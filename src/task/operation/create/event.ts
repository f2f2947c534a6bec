import type { DomainEvent } from "../../../domain/event.ts";
import { titleOf } from "../../../domain/task/title.ts";
import { newID } from "../../../id.ts";
import type { CheckSpec } from "../../../protocol/check.ts";
import type { EventData } from "../../../protocol/event/event.ts";
import type { Approvable, OwnLimits } from "../../../protocol/field.ts";
import type { TaskCreate } from "../../../protocol/task/request.ts";
import { keepText } from "../../../store/blob/text.ts";
import { readSchema } from "../../../tool/output/read-schema.ts";
import type { MissionDispatch, TasksDeps } from "../../tasks.ts";
import { keepAttachments } from "../attachment.ts";
import { checkSpecs, invalidField } from "../check-spec.ts";
import { withBaselines } from "../visual-baseline.ts";
import type { Executor } from "./executor.ts";
import type { TaskPlace } from "./place.ts";

/** The facts that a Task begins with. Texts and files are stored as blobs before an event names them. */

type Decided = TaskPlace &
  Executor & {
    taskID: string;
    body: TaskCreate;
    origin: MissionDispatch | undefined;
    /** The part of the address that may be shown. */
    callbackURL: string | undefined;
  };

export const createdOf = async (
  deps: Pick<TasksDeps, "store" | "limits" | "terms">,
  { taskID, body, origin, callbackURL, project, place, repository, remote, squad, model, orchestrator }: Decided,
): Promise<EventData["task.created"]> => {
  const { blobs } = deps.store;
  const { title, request, effort, budget, limits } = body;
  const approve = approvals(origin?.approve ?? body.approve ?? [], place, orchestrator.runtime);
  const outputSchema = await readSchema(body.outputSchema);
  const checks = origin?.merge?.checks.slice() ?? (await checksOf(deps, { body, origin, project }));
  return {
    taskID,
    title: title ?? titleOf(request),
    titleBy: title === undefined ? "service" : "caller",
    request: await keepText(blobs, request),
    productPillar: body.productPillar,
    priority: body.priority ?? "normal",
    source: body.source ?? "api",
    directory: project.directory,
    project: project.project,
    ...(project.elsewhere === undefined ? {} : { node: project.elsewhere.node }),
    ...(repository === undefined ? {} : { repository }),
    ...(remote === undefined ? {} : { remote }),
    checks,
    ...(body.checks?.length === 0 ? { unchecked: true } : {}),
    attachments: [...(await keepAttachments(blobs, body.attachments ?? [])), ...(origin?.attachments ?? [])],
    metadata: body.metadata ?? {},
    squad,
    model,
    ...(effort === undefined ? {} : { effort }),
    ...place,
    budget: budget ?? null,
    sessionID: newID("ses"),
    agent: orchestrator.name,
    ...(origin === undefined ? {} : ofMission(origin)),
    ...(callbackURL === undefined ? {} : { callbackURL }),
    ...(approve.length === 0 ? {} : { approve }),
    ...(outputSchema === undefined ? {} : { outputSchema: await keepText(blobs, outputSchema) }),
    ...(body.contrast === false || origin?.merge !== undefined ? { contrast: false } : {}),
    ...(deps.terms === undefined ? {} : { terms: deps.terms(checks.some(({ kind }) => kind === "visual")) }),
    ...(limits === undefined ? {} : { limits: limits as OwnLimits }),
  };
};

const ofMission = (origin: MissionDispatch): Partial<EventData["task.created"]> => ({
  mission: origin.mission,
  ...(origin.reviewModel === undefined ? {} : { reviewModel: origin.reviewModel }),
  ...(origin.phase == null ? {} : { phase: origin.phase }),
  ...(origin.onto === undefined ? {} : { onto: origin.onto }),
  ...(origin.merge === undefined ? {} : { mergeOf: origin.merge.of }),
  ...(origin.judges === true ? { judges: true } : {}),
  ...(origin.production === undefined ? {} : { production: origin.production }),
});

/** The Mission's message to the squad, in addition to the request. */
export const handoverOf = async (
  { blobs }: TasksDeps["store"],
  { taskID, sessionID }: Pick<EventData["task.created"], "taskID" | "sessionID">,
  text: string,
): Promise<DomainEvent> => ({
  type: "message.received",
  data: {
    messageID: `service-${taskID}`,
    sessionID,
    source: "mission",
    text: await keepText(blobs, text),
    attachments: [],
    disposition: "steered",
  },
});

const checksOf = (
  { store: { blobs }, limits }: Pick<TasksDeps, "store" | "limits">,
  { body, origin, project }: Pick<Decided, "body" | "origin" | "project">,
): Promise<CheckSpec[]> => {
  const wanted = body.checks ?? [];
  return withBaselines(checkSpecs(wanted), wanted, {
    attachments: [
      ...(body.attachments ?? []).map(({ filename, data }) => ({
        filename,
        load: async () => Buffer.from(data, "base64"),
      })),
      ...(origin?.attachments ?? []).map(({ filename, sha256 }) => ({ filename, load: () => blobs.get(sha256) })),
    ],
    directory: project.directory,
    blobs,
    limits,
  });
};

/** In place every edit is final at once: there is no landing to approve. */
const approvals = (
  wanted: readonly Approvable[],
  { isolation }: { isolation: "worktree" | "directory" },
  runtime: string | undefined,
): Approvable[] => {
  if (wanted.length === 0) return [];
  if (runtime !== undefined && wanted.includes("plan"))
    throw invalidField("approve", 'Expected no "plan" with an external agent, whose tools are its own');
  if (isolation === "directory" && wanted.includes("landing"))
    throw invalidField(
      "approve",
      'Expected no "landing" for a Task that works in place, whose edits are final at once',
    );
  return [...new Set(wanted)];
};
