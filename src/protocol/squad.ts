import { z } from "zod";
import { squadRef } from "./task/status.ts";

/** Requests and answers of the squad routes. Source: completion.md "Squads". */

const scope = z.enum(["builtin", "user", "project"]);
/** Scopes into which packages can be installed. */
const installScope = z.enum(["user", "project"]);
const digest = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .describe("the digest of a package, 64 hex digits");

/** Exactly one of `path`, `zip` and `git`. */
const source = {
  path: z.string().min(1).max(4096).optional().describe("Absolute path of a package's folder on the service's machine"),
  zip: z.base64().max(2_800_000).optional().describe("A ZIP of the package, in base64"),
  git: z
    .strictObject({
      path: z.string().min(1).max(4096).describe("Absolute path of the package's folder in a local repository"),
      ref: z
        .string()
        .regex(/^[\w][\w./@~^-]{0,199}$/)
        .describe("a branch, a tag or a commit"),
    })
    .optional(),
};

const oneSource = (body: { path?: unknown; zip?: unknown; git?: unknown }, context: z.core.$RefinementCtx): void => {
  const given = (["path", "zip", "git"] as const).filter((name) => body[name] !== undefined);
  if (given.length === 1) return;
  const message = `Expected one of path, zip and git, got ${given.length === 0 ? "none" : given.join(" and ")}`;
  context.addIssue({ code: "custom", message });
};

export const squadValidate = z
  .strictObject({ ...source, scope: installScope.optional().describe("Default user") })
  .superRefine(oneSource)
  .meta({ id: "SquadValidate" });

export const squadInstall = z
  .strictObject({
    ...source,
    scope: installScope,
    expectedDigest: digest.optional().describe("The digest that an upgrade replaces; absent: none is installed"),
  })
  .superRefine(oneSource)
  .meta({ id: "SquadInstall" });

export const squadRemove = z.object({
  scope: installScope.optional().describe("Default: the project's before the user's"),
  expectedDigest: digest.optional(),
});

const issue = z
  .object({
    scope,
    squad: z.string().describe("The folder's name; empty for the scope as a whole"),
    file: z.string().describe("Empty for the package as a whole"),
    line: z.number().int().optional(),
    column: z.number().int().optional(),
    code: z.string(),
    message: z.string(),
  })
  .meta({ id: "SquadIssue" });

const agent = z.object({
  name: z.string(),
  description: z.string(),
  tools: z.array(z.string()),
  delegates: z.array(z.string()),
  model: z.string().nullable(),
  runtime: z.string().nullable().describe("acp:<name>: a program of the configuration; null: the service"),
});
const skill = z.object({ name: z.string(), description: z.string() });

const summary = squadRef
  .extend({
    name: z.string(),
    summary: z.string(),
    notFor: z.string(),
    pillars: z.array(z.enum(["code", "work"])),
    owns: z.object({ domains: z.array(z.string()), phases: z.array(z.string()) }),
    agents: z.array(agent).describe("The Orchestrator first"),
    skills: z.array(skill),
  })
  .meta({ id: "Squad" });

export const squadCatalog = z
  .object({
    healthy: z.boolean().describe("Read completely, with no issues"),
    complete: z.boolean(),
    revision: z.string().describe("Changes with every package and issue"),
    squads: z.array(summary),
    issues: z.array(issue),
    warnings: z.array(issue),
  })
  .meta({ id: "SquadCatalog" });

export const squadDetail = summary
  .extend({
    agents: z.array(agent.extend({ instructions: z.string() })),
    skills: z.array(skill.extend({ text: z.string() })),
    readme: z.string().nullable(),
    files: z.array(z.object({ path: z.string(), bytes: z.number().int() })),
  })
  .meta({ id: "SquadDetail" });

export const squadValidation = z
  .object({
    valid: z.boolean(),
    issues: z.array(issue.omit({ scope: true, squad: true })),
    squad: summary.nullable().describe("null unless valid"),
  })
  .meta({ id: "SquadValidation" });

export const squadInstalled = z
  .object({
    squad: squadRef,
    replaced: z.string().nullable().describe("Digest of the previous package; if it is the same, nothing was written"),
  })
  .meta({ id: "SquadInstalled" });

export const squadRemoved = z
  .object({ id: z.string(), scope: installScope, removed: z.literal(true) })
  .meta({ id: "SquadRemoved" });

const candidate = squadRef.extend({ name: z.string(), reasons: z.array(z.string()) });

export const squadRecommendation = z
  .object({
    phase: z.string(),
    productPillar: z.enum(["code", "work"]),
    revision: z.string().describe("The revision of the catalog it was read from"),
    owners: z
      .array(candidate)
      .describe("Squads that fully own the phase, by their own `owns`; the first is recommended"),
    related: z.array(candidate).describe("Squads whose words resemble the phase; none of them owns it"),
  })
  .meta({ id: "SquadRecommendation" });

export type SquadSummary = z.infer<typeof summary>;
export type SquadDetail = z.infer<typeof squadDetail>;
export type SquadCatalog = z.infer<typeof squadCatalog>;
export type SquadRecommendation = z.infer<typeof squadRecommendation>;
