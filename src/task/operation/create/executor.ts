import { type AgentSpec, isReviewer, type ModelRef, type SquadRef } from "../../../domain/agent.ts";
import { ServiceError } from "../../../error.ts";
import type { TaskCreate } from "../../../protocol/task/request.ts";
import { retryAfterFetch } from "../../../repository/fetched.ts";
import type { MissionDispatch, TasksDeps } from "../../tasks.ts";
import { invalidField } from "../check-spec.ts";
import type { TaskPlace } from "./place.ts";

/** Who carries out a Task: its squad, pinned to a revision, and the model. */

export type Executor = Awaited<ReturnType<typeof chooseExecutor>>;

export const chooseExecutor = async (
  { squads, repositories, defaults, resolveModel }: TasksDeps,
  { project, kept }: Pick<TaskPlace, "project" | "kept">,
  body: TaskCreate,
  origin: MissionDispatch | undefined,
) => {
  const wanted = body.promptProfile ?? defaults.squad;
  const squad =
    origin?.catalog === undefined
      ? await retryAfterFetch(repositories, kept, () =>
          squads.pin(wanted, project.elsewhere === undefined ? project.directory : undefined),
        )
      : await squads.pin(wanted, origin.catalog);
  if (origin?.expected !== undefined) checkRevision(squad, origin.expected);
  const { orchestrator, agents, pillars } = await squads.load(squad);
  // A production names the squad that makes squads, whatever the Mission's pillar is.
  if (origin?.production === undefined && !pillars.includes(body.productPillar))
    throw new ServiceError(
      "squad_not_available",
      `Expected a squad for ${body.productPillar}, got ${squad.id}, which is for ${pillars.join(" and ")}.`,
    );
  const model = modelFor(orchestrator, body.model, origin?.model, resolveModel);
  if (orchestrator.runtime !== undefined) refuseModelFields(body);
  const judged = (body.checks ?? []).findIndex((check) => typeof check === "object" && check.kind === "review");
  if (judged >= 0 && !agents.some(isReviewer))
    throw invalidField(
      `checks[${judged}].kind`,
      `Expected a squad with a reviewer for a check of the kind review, got ${squad.id}`,
    );
  return { squad, model, orchestrator };
};

/** Refuses fields that only make sense for a configured model: an external agent brings its own model and tools. */
const refuseModelFields = ({ effort, outputSchema }: TaskCreate): void => {
  if (effort !== undefined)
    throw invalidField(
      "effort",
      `Expected no effort with an external agent, which brings its own model, got "${effort}"`,
    );
  if (outputSchema !== undefined)
    throw invalidField("outputSchema", "Expected none with an external agent, whose tools are its own");
};

const checkRevision = (squad: SquadRef, { version, digest }: Pick<SquadRef, "version" | "digest">): void => {
  if (squad.digest === digest && squad.version === version) return;
  throw new ServiceError(
    "squad_changed",
    `Expected the squad ${squad.id} as ${version} (${digest}), got ${squad.version} (${squad.digest}): it was changed since.`,
    { details: { digest: squad.digest } },
  );
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
