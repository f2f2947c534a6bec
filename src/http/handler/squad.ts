import type { SquadDetail, SquadRecommendation, SquadSummary } from "../../protocol/squad.ts";
import type { OperationID, Routes } from "../../protocol/route/table.ts";
import type { Catalog, Scan } from "../../squad/catalog/catalog.ts";
import { invalid, type Manager, notFound } from "../../squad/install/manager.ts";
import { type Candidate, recommend } from "../../squad/catalog/recommend.ts";
import type { CatalogEntry } from "../../squad/catalog/scope.ts";
import type { Agent } from "../../squad/squad.ts";
import type { Store } from "../../store/store.ts";
import type { Handler } from "../request/call.ts";
import { type RunOnce, createAnswerOnce } from "../request/idempotency.ts";
import { json } from "../response/response.ts";

/** The squad routes: the catalog, installing and removing packages, recommendations. */

export type SquadDeps = {
  catalog: Pick<Catalog, "find" | "scan">;
  manager: Pick<Manager, "validate" | "install" | "uninstall">;
  /**
   * The real path of a project's directory; rejects with `directory_invalid` or `directory_not_allowed`. `lacks`: why
   * the files of the repository that belongs in this directory are missing.
   */
  admit(directory: string): Promise<{ directory: string; lacks?: string | undefined }>;
};

type SquadRoute = Extract<OperationID, `squad.${string}`>;
type Deps = SquadDeps & { store: Pick<Store, "commit" | "once" | "nodes">; runOnce: RunOnce };

export const createSquadHandlers = (deps: Deps): { [ID in SquadRoute]: Handler<Routes[ID]> } => {
  const { catalog, manager, store, runOnce } = deps;
  const scan = async (directory: string | undefined): Promise<Scan> => {
    const place = directory === undefined ? undefined : await deps.admit(directory);
    const found = await catalog.scan(place?.directory);
    if (place?.lacks === undefined) return found;
    const issue = { scope: "project" as const, squad: "", file: "", code: "not_fetched", message: place.lacks };
    const revision = `${found.revision}-not-fetched`;
    return { ...found, revision, healthy: false, complete: false, issues: [...found.issues, issue] };
  };

  const answered = createAnswerOnce(store, runOnce);

  return {
    "squad.list": async ({ entry, directory }) => {
      const { squads, ...health } = await scan(directory);
      return json(entry, 200, { ...health, squads: squads.map(summaryOf) });
    },

    "squad.recommend": async ({ entry, directory, query }) => {
      const pillar = query.productPillar ?? "code";
      const found = await scan(directory);
      const { phase, owners, related } = recommend(found, query.phase, pillar);
      const { revision } = found;
      const answer: SquadRecommendation = {
        phase,
        productPillar: pillar,
        revision,
        owners: owners.map(candidateOf),
        related: related.map(candidateOf),
      };
      return json(entry, 200, answer);
    },

    "squad.get": async ({ entry, params, directory }) => {
      const place = directory === undefined ? undefined : await deps.admit(directory);
      const found = await catalog.find(params.id, place?.directory);
      if (found !== undefined) return json(entry, 200, detailOf(found));
      const { issues } = await catalog.scan(place?.directory);
      const broken = issues.filter(({ squad }) => squad === params.id);
      if (broken.length === 0) throw notFound(params.id);
      throw invalid(broken);
    },

    "squad.validate": ({ entry, body, once }) =>
      answered(entry, once, async () => {
        const checked = await manager.validate(body, body.scope ?? "user");
        return checked.ok
          ? { valid: true, issues: [], squad: summaryOf(checked.found) }
          : { valid: false, issues: checked.issues, squad: null };
      }),

    "squad.install": ({ entry, body, directory, once }) =>
      answered(entry, once, () => manager.install(body, body.scope, directory, body.expectedDigest)),

    "squad.remove": async ({ entry, params: { id }, directory, query }) => {
      const scope = await manager.uninstall(id, query.scope, directory, query.expectedDigest);
      return json(entry, 200, { id, scope, removed: true });
    },
  };
};

const refOf = ({ squad: { id, version }, digest, scope }: CatalogEntry) => ({ id, version, digest, scope });

const agentOf = ({ name, description, tools, delegates, model, runtime }: Agent) => ({
  name,
  description,
  tools: [...tools],
  delegates: [...delegates],
  model: model ?? null,
  runtime: runtime ?? null,
});

const summaryOf = (found: CatalogEntry): SquadSummary => {
  const { name, summary, notFor, pillars, owns, orchestrator, agents, skills } = found.squad;
  return {
    ...refOf(found),
    name,
    summary,
    notFor,
    pillars: [...pillars],
    owns: { domains: [...owns.domains], phases: [...owns.phases] },
    agents: [orchestrator, ...agents].map(agentOf),
    skills: skills.map(({ name, description }) => ({ name, description })),
  };
};

const detailOf = (found: CatalogEntry): SquadDetail => {
  const { squad, files = [] } = found;
  return {
    ...summaryOf(found),
    agents: [squad.orchestrator, ...squad.agents].map((agent) => ({
      ...agentOf(agent),
      instructions: agent.instructions,
    })),
    skills: [...squad.skills],
    readme: files.find(({ path }) => path === "README.md")?.bytes.toString("utf8") ?? null,
    files: files.map(({ path, bytes }) => ({ path, bytes: bytes.length })),
  };
};

const candidateOf = ({ found, reasons }: Candidate) => ({ ...refOf(found), name: found.squad.name, reasons });
