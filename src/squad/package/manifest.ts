import { z } from "zod";
import { effort } from "../../protocol/field.ts";

/**
 * Schemas of `squad.json` and of the front matter of a package's Markdown. `schemas/squad.json` is generated from here.
 */

/** All limits of a package, and of a folder of packages, in bytes and counts. */
export const packageLimits = {
  files: 64,
  fileBytes: 64 * 1024,
  bytes: 1024 * 1024,
  agents: 32,
  skills: 16,
  /** Per scope; a scan that finds more is incomplete. */
  packages: 1000,
  scopeBytes: 64 * 1024 * 1024,
  /** The size of an uploaded ZIP, and how many times larger than the ZIP its files may be. */
  zipBytes: 2 * 1024 * 1024,
  zipRatio: 100,
} as const;

/** Ids of this form are external agents of the configuration. */
export const reserved = /^acp-/;

const kebab = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
/** The expression published by semver.org. */
const semver =
  /^(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?$/;

const name = z.string().regex(kebab).max(64).describe("lowercase letters, digits and single hyphens");
const names = (most: number, of = name) =>
  z
    .array(of)
    .max(most)
    .superRefine((list, context) => {
      const twice = list.find((one, at) => list.indexOf(one) !== at);
      if (twice !== undefined) context.addIssue({ code: "custom", message: `Expected "${twice}" once, got it twice` });
    });
const text = (most: number) => z.string().trim().min(1).max(most);

const toolName = z
  .string()
  .regex(/^(?:[a-z][a-z0-9_]*|mcp__[a-z0-9][a-z0-9-]{0,31})$/)
  .max(64)
  .describe("a tool's name, or mcp__<server> for all tools of a server of the configuration");

/** A phase may be written as `domain/phase`. */
const phase = z
  .string()
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*(?:\/[a-z0-9]+(?:-[a-z0-9]+)*)?$/)
  .max(129)
  .describe("lowercase letters, digits and single hyphens, or domain/phase");

export const manifest = z
  .strictObject({
    $schema: z.string().max(300).optional(),
    id: name.describe("the folder's name: lowercase letters, digits and single hyphens"),
    version: z.string().max(64).regex(semver).describe("a semantic version (semver.org), such as 1.0.0"),
    name: text(80),
    summary: text(300).describe("One or two sentences: what it is for"),
    notFor: text(1000).describe("What it is not for, and when not to use it"),
    pillars: z
      .array(z.enum(["code", "work"]))
      .min(1)
      .max(2),
    owns: z
      .strictObject({
        domains: z.array(name).max(32).optional().describe("Every phase of these is this squad's"),
        phases: z.array(phase).max(64).optional(),
      })
      .describe("What the squad fully owns; nothing else makes it an owner"),
    agents: names(packageLimits.agents).describe("Names of the agents besides the Orchestrator: agents/<name>.md"),
    skills: names(packageLimits.skills).describe("Names of the skills: skills/<name>/SKILL.md"),
  })
  .meta({ title: "squad.json of a Sortie squad package" });

export type Manifest = z.infer<typeof manifest>;

/** The front matter of `agents/<name>.md`; the agent's instructions are the text below it. */
export const agentHead = z.strictObject({
  name,
  description: text(300),
  tools: names(64, toolName),
  delegates: names(packageLimits.agents).optional(),
  model: z
    .string()
    .max(200)
    .regex(/^[^/\s]+\/\S+$/)
    .describe("a model as provider/model")
    .optional(),
  effort: effort.describe("how much its model reasons").optional(),
  runtime: z
    .string()
    .regex(/^acp:[a-z0-9][a-z0-9-]{0,31}$/)
    .describe("an external agent as acp:<name>")
    .optional(),
});

/** The front matter of `SKILL.md`, by the Agent Skills standard (agentskills.io/specification). */
export const skillHead = z.strictObject({
  name,
  description: text(1024),
  license: text(200).optional(),
  compatibility: text(500).optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  "allowed-tools": z
    .never({
      error: "Expected no allowed-tools: an agent's own file and the operator's rules decide what it may do",
    })
    .optional(),
});

/** The published JSON schema of `squad.json`. */
export const manifestSchema = (): string => `${JSON.stringify(z.toJSONSchema(manifest, { io: "input" }), null, 2)}\n`;
