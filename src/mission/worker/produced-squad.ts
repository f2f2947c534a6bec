import type { DomainEvent } from "../../domain/event.ts";
import type { Dispatched } from "../../domain/state/mission.ts";
import type { Scan } from "../../squad/catalog/catalog.ts";
import { productionProblems } from "../../squad/production.ts";
import { messageOf } from "../../error.ts";
import { NoFiles } from "../../tool/tool.ts";
import type { MissionRun } from "../run.ts";
import { catalogDirectory } from "../branch.ts";
import { refresh } from "../repository.ts";

/**
 * Verifies a produced squad by reading the catalog again. The squad is used only if it is there as it was staged (id,
 * version and full digest), in the project's scope, healthy, not shadowed, and within the limits.
 */
export const verifyProducedSquad = async (run: MissionRun, task: Dispatched): Promise<DomainEvent> => {
  const made = (await run.store.state(task.taskID))?.installed?.squad ?? null;
  const at = { sessionID: run.stream, taskID: task.taskID, phase: task.phase };
  if (made === null || task.production === null)
    return refusal({ ...at, squad: null, reason: "the Task ended without an installed squad." });
  const { plan } = run.state();
  const scan = await newestCatalog(run);
  if (typeof scan === "string") return refusal({ ...at, squad: made, reason: `${scan}.` });
  const phase = plan.find(({ id }) => id === task.phase)?.phase;
  const reason = problemOf(scan, made, { id: task.production.squad, phase });
  return reason === undefined
    ? { type: "squad.reconciled", data: { ...at, squad: made } }
    : refusal({ ...at, squad: made, reason });
};

/** A string says why the catalog cannot be read. */
const newestCatalog = async (run: MissionRun): Promise<Scan | string> => {
  const away = await refresh(run);
  if (away !== undefined) return away.replace(/\.$/, "");
  try {
    return await run.catalog.scan(await catalogDirectory(run, true));
  } catch (error) {
    if (error instanceof NoFiles) return messageOf(error).replace(/\.$/, "");
    throw error;
  }
};

type Refused = Extract<DomainEvent, { type: "squad.refused" }>["data"];

const refusal = (data: Refused): DomainEvent => ({ type: "squad.refused", data });

const problemOf = (
  scan: Scan,
  made: { id: string; version: string; digest: string; scope: string },
  wanted: { id: string; phase: string | undefined },
): string | undefined => {
  const found = scan.squads.find(({ squad }) => squad.id === made.id);
  const broken = scan.issues.find(({ squad }) => squad === made.id);
  if (broken !== undefined) return `its package is broken: ${broken.file}: ${broken.message}.`;
  if (found === undefined) return `expected ${made.id} in the catalog, found nothing of that id.`;
  if (found.scope !== "project" || made.scope !== "project")
    return `expected it in the project's own squads, found it in the scope ${found.scope}.`;
  if (found.squad.version !== made.version)
    return `expected version ${made.version}, found ${found.squad.version}: it was changed since it was made.`;
  if (found.digest !== made.digest)
    return `expected the digest ${made.digest}, found ${found.digest}: it was changed since it was made.`;
  if (wanted.phase === undefined) return "its phase is no longer in the plan.";
  const [problem] = productionProblems(found.squad, { id: wanted.id, phase: wanted.phase });
  if (problem !== undefined) return `${problem}.`;
  if (!scan.healthy)
    return `expected a healthy and complete catalog, got ${scan.issues.length} issues; the first: ${scan.issues[0]?.squad} ${scan.issues[0]?.file}: ${scan.issues[0]?.message}.`;
  return undefined;
};
