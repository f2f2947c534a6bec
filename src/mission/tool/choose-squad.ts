import { z } from "zod";
import type { MissionState } from "../../domain/state/mission.ts";
import { hasFailedAt, isBarred, producedFor, productionsOf } from "../../domain/mission/plan.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { PlannedPhase } from "../../protocol/mission/status.ts";
import type { Scan } from "../../squad/catalog/catalog.ts";
import { type Recommendation, recommend } from "../../squad/catalog/recommend.ts";
import type { CatalogEntry } from "../../squad/catalog/scope.ts";
import { failed, ok } from "../../tool/result.ts";
import { NoFiles, type Tool, type ToolResult } from "../../tool/tool.ts";
import { mayProduce, type MissionRun } from "../run.ts";
import { catalogDirectory } from "../branch.ts";

/**
 * Chooses the squad for a phase, from a healthy and complete catalog only: a squad that owns the phase; otherwise,
 * where squad production is authorised, one that has to be produced first; otherwise a general squad. Never a squad
 * outside a set that the user chose.
 */

export type SquadChoice =
  /** `general`: why this squad is used although it does not own the phase. */
  { ok: true; found: CatalogEntry; general?: string } | { ok: false; why: string };

export const recommendedSquads = async (
  run: MissionRun,
  phase: string,
): Promise<{ scan: Scan; found: Recommendation } | { why: string }> => {
  const { productPillar } = run.state();
  try {
    const scan = await run.catalog.scan(await catalogDirectory(run));
    return { scan, found: recommend(scan, phase, productPillar) };
  } catch (error) {
    if (error instanceof NoFiles || (error instanceof ServiceError && !error.retryable))
      return { why: messageOf(error) };
    throw error;
  }
};

/** Why no squad may be produced for this phase; undefined: one may. */
export const whyNoProduction = (run: MissionRun, phase: PlannedPhase): string | undefined => {
  const bar = whyNoSquads(run);
  if (bar !== undefined) return bar;
  const tried = productionsOf(run.state(), phase.id).length;
  return tried >= productionTries ? `a squad was tried ${tried} times for this phase` : undefined;
};

/** Why no squad may be produced for any phase; undefined: squads may be produced. */
export const whyNoSquads = (run: MissionRun): string | undefined => {
  const state = run.state();
  if (state.squads.length > 0)
    return `the user chose the squads ${state.squads.join(", ")}, and a new squad would extend that list`;
  if (mayProduce(state, run.production)) return undefined;
  return run.production === false
    ? "the operator has forbidden creating squads"
    : state.allowSquadProduction === false
      ? "the user has forbidden creating squads"
      : "creating squads is not allowed here";
};

/** Productions that are tried for one phase: as many as attempts at a phase's own Task. */
export const productionTries = 3;

export const chooseSquad = async (
  run: MissionRun,
  phase: PlannedPhase,
  { squad: wanted, general: reason }: { squad?: string | undefined; general?: string | undefined },
): Promise<SquadChoice> => {
  const state = run.state();
  const made = producedFor(state, phase.id);
  const catalog = await recommendedSquads(run, phase.phase);
  if ("why" in catalog) return no(`${catalog.why} Nothing is dispatched from such a catalog; the user has to fix it`);
  const { scan, found } = catalog;
  const bar = whyNoProduction(run, phase);
  const isLeft = (id: string) => (wanted ?? reason) !== undefined && wanted !== id && hasFailedAt(state, phase.id, id);
  if (made !== undefined && isInSet(state, made.id) && !isLeft(made.id)) {
    const standing = scan.squads.find(({ squad }) => squad.id === made.id);
    if (standing?.digest === made.digest && standing.squad.version === made.version)
      return wanted === undefined || wanted === made.id
        ? { ok: true, found: standing }
        : no(`The squad ${made.id} was made for phase ${phase.id}: dispatch to it, got ${wanted}`);
    if (bar === undefined && reason === undefined)
      return no(
        `The squad ${made.id} was ${made.version} (${made.digest}) when it was made, and is ${standing === undefined ? "gone" : `${standing.squad.version} (${standing.digest})`} now. It is not used: have a new one made, under another id`,
      );
  }
  const usable = found.owners.map((owner) => owner.found).filter((one) => isUsable(state, one));
  const owners = usable.filter(({ squad }) => !isLeft(squad.id));
  const [first] = owners;
  if (first !== undefined) {
    if (wanted === undefined) return { ok: true, found: first };
    const owner = owners.find(({ squad }) => squad.id === wanted);
    return owner === undefined
      ? no(`The phase "${phase.phase}" is owned by ${idsOf(owners)}: dispatch to that, got ${wanted}`)
      : { ok: true, found: owner };
  }
  const left = [made?.id, ...usable.map(({ squad }) => squad.id)].find((id) => id !== undefined && isLeft(id));
  if (bar === undefined && reason === undefined && left === undefined && !isGivenUp(state, phase))
    return no(
      `No squad owns the phase "${phase.phase}", and squad production is authorised: have one made with produce_squad first. Only a step without a domain of its own goes to a general squad, with the reason in \`general\``,
    );
  const picked = general(run, scan, wanted, bar);
  if (!picked.ok) return picked;
  const why =
    left === undefined
      ? (bar ?? reason ?? "no squad could be created for it")
      : (reason ?? `the squad ${left}, which was made for it, failed`);
  return { ...picked, general: why };
};

/**
 * The squad for a phase that none owns and for which none is produced: the one named, otherwise the first of the set
 * that the user chose, otherwise the configured one.
 */
const general = (run: MissionRun, scan: Scan, wanted: string | undefined, bar: string | undefined): SquadChoice => {
  const { squads: set, productPillar } = run.state();
  const id = wanted ?? set[0] ?? run.squad;
  if (set.length > 0 && !set.includes(id)) return no(`The user chose the squads ${set.join(", ")}, got ${id}`);
  const found = scan.squads.find(({ squad }) => squad.id === id);
  if (found === undefined) return no(`Expected an installed squad (${idsOf(scan.squads)}), got ${id}`);
  if (isBarred(run.state(), { id, digest: found.digest }))
    return no(
      `The squad ${id} is not as it was made for this Mission, and is not used: ${bar === undefined ? "have a new one made, under another id" : `name another, or none; none can be made, because ${bar}`}`,
    );
  if (!found.squad.pillars.includes(productPillar))
    return no(`Expected a squad for ${productPillar}, got ${id}, which is for ${found.squad.pillars.join(" and ")}`);
  return { ok: true, found };
};

/** Whether a squad is in the set that the user chose, and was not changed since it was made for this Mission. */
const isUsable = (state: MissionState, { squad: { id }, digest }: CatalogEntry): boolean =>
  isInSet(state, id) && !isBarred(state, { id, digest });

const isInSet = ({ squads }: MissionState, id: string): boolean => squads.length === 0 || squads.includes(id);

/** A production for the phase has ended, and no usable squad resulted. */
const isGivenUp = (state: MissionState, phase: PlannedPhase): boolean => {
  const last = productionsOf(state, phase.id).at(-1);
  return last !== undefined && last.ends.length > 0 && producedFor(state, phase.id) === undefined;
};

const no = (why: string): SquadChoice => ({ ok: false, why: `${why}.` });

const idsOf = (found: readonly CatalogEntry[]): string => found.map(({ squad }) => squad.id).join(", ");

const input = z.strictObject({
  phase: z.string().min(1).max(129).describe("A phase's id, or a kind of work"),
});

export const recommendTool = (run: MissionRun): Tool<z.infer<typeof input>> => ({
  name: "recommend",
  description:
    "Says which installed squad owns a kind of work, by the catalog as it is now, and which only resemble one. " +
    "Phases of one kind have one answer.",
  input,
  effect: "none",
  // In order: a plan that is written earlier in the same reply counts.
  run: ({ phase: asked }): Promise<ToolResult> =>
    run.inOrder(async () => {
      const planned = run.state().plan.find(({ id }) => id === asked);
      const phase = planned?.phase ?? asked;
      const catalog = await recommendedSquads(run, phase);
      if ("why" in catalog) return failed(`${catalog.why} Nothing can be recommended from it.`);
      const { owners, related } = catalog.found;
      const set = run.state().squads;
      const listed = (some: typeof owners) =>
        some.map(({ found, found: { squad, digest }, reasons }) => ({
          id: squad.id,
          version: squad.version,
          digest,
          summary: squad.summary,
          notFor: squad.notFor,
          allowed: isUsable(run.state(), found),
          reasons,
        }));
      const bar = planned === undefined ? undefined : whyNoProduction(run, planned);
      return ok(
        JSON.stringify(
          {
            phase,
            owners: listed(owners),
            related: listed(related),
            general: set[0] ?? run.squad,
            production: planned === undefined ? undefined : bar === undefined ? "authorised" : bar,
          },
          null,
          1,
        ),
      );
    }),
});
