import { z } from "zod";
import { json, type Route } from "./route.ts";
import * as squad from "../squad.ts";
import { productPillar } from "../field.ts";

const params = z.object({ id: z.string() });

export const squadRoutes = {
  "squad.list": {
    method: "GET",
    path: "/squads",
    summary: "The squads that a project sees, and packages with problems",
    directory: "optional",
    answers: [json(squad.squadCatalog, "The catalog")],
  },
  "squad.recommend": {
    method: "GET",
    path: "/squads/recommend",
    summary: "The squads that fully own a phase",
    directory: "optional",
    query: z.object({
      phase: z.string().min(1).max(129).describe("Words, or domain/phase"),
      productPillar: productPillar.optional().describe("Default code"),
    }),
    refuses: ["squad_invalid"],
    answers: [json(squad.squadRecommendation, "Owners, best match first, with reasons")],
  },
  "squad.get": {
    method: "GET",
    path: "/squad/{id}",
    summary: "A squad with its texts, as the project sees it",
    directory: "optional",
    params: params,
    refuses: ["squad_not_found", "squad_invalid"],
    answers: [json(squad.squadDetail, "The squad")],
  },
  "squad.validate": {
    method: "POST",
    path: "/squad/validate",
    summary: "Validate a package",
    directory: "optional",
    body: squad.squadValidate,
    bodySize: "large",
    refuses: ["directory_required", "not_a_git_worktree"],
    answers: [json(squad.squadValidation, "Whether it could be installed")],
  },
  "squad.install": {
    method: "POST",
    path: "/squad/install",
    summary: "Install or upgrade a package atomically",
    directory: "optional",
    body: squad.squadInstall,
    bodySize: "large",
    refuses: ["directory_required", "squad_changed", "squad_invalid", "not_a_git_worktree"],
    answers: [json(squad.squadInstalled, "It stands")],
  },
  "squad.remove": {
    method: "DELETE",
    path: "/squad/{id}",
    summary: "Uninstall a squad; Tasks that started with it keep it",
    directory: "optional",
    params: params,
    query: squad.squadRemove,
    refuses: ["directory_required", "squad_not_found", "squad_changed"],
    answers: [json(squad.squadRemoved, "Removed")],
  },
} as const satisfies Record<string, Route>;
