import { z } from "zod";

/**
 * A Task's acceptance checks: as requested, and as recorded with every default filled in. The kind decides which fields
 * a check has in addition to the common ones. Source: shared/spec/completion.md, `checks[]`.
 */

/** Commands that pass or fail by their exit code; the kind says what the command is for. */
export const commandKinds = ["command", "build", "test", "lint", "typecheck"] as const;
export const checkKinds = [...commandKinds, "file", "http", "visual", "review"] as const;

const relativePath = z
  .string()
  .min(1)
  .max(4096)
  .refine((path) => !path.startsWith("/") && !path.split("/").includes("..") && !path.includes("\0"), {
    error: (issue) => `Expected a path inside the project without "..", got ${JSON.stringify(issue.input)}`,
  });

const isPattern = (text: string): boolean => {
  try {
    return new RegExp(text, "m") instanceof RegExp;
  } catch {
    return false;
  }
};

const pattern = z
  .string()
  .min(1)
  .max(1024)
  .refine(isPattern, { error: (issue) => `Expected a regular expression, got ${JSON.stringify(issue.input)}` })
  .describe("Regular expression");

/** The area of a 4K screen: a decoded picture of this size takes 33 MB. */
export const maxPixels = 3840 * 2160;

const common = {
  id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
    .optional(),
  name: z.string().min(1).max(200).optional(),
  timeoutSeconds: z.number().int().min(1).max(86_400).default(600),
  required: z.boolean().default(true),
  baseline: z.boolean().default(false).describe("Also run on the base tree before the work"),
};

export const commandText = z.string().min(1).max(8192);
const env = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string().max(8192));

const commandCheck = z.strictObject({
  ...common,
  kind: z.enum(commandKinds),
  run: commandText.describe("Shell command; exit 0 passes unless `expect` says otherwise"),
  cwd: relativePath.optional(),
  env: env.optional(),
  expect: z
    .strictObject({ exitCode: z.number().int().min(0).max(255).optional(), stdoutMatches: pattern.optional() })
    .optional(),
});

const fileCheck = z.strictObject({
  ...common,
  kind: z.literal("file"),
  path: relativePath,
  exists: z.boolean().default(true).describe("false: the path must not exist"),
  matches: pattern.optional(),
});

/** Only plain HTTP on a loopback address: the check's own server listens there, and no other machine can. */
const isLocal = (text: string): boolean => {
  const url = URL.parse(text);
  return (
    url?.protocol === "http:" &&
    url.username === "" &&
    (url.hostname === "localhost" || url.hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(url.hostname))
  );
};

export const localURL = z
  .string()
  .min(1)
  .max(2048)
  .refine(isLocal, {
    error: (issue) => `Expected an http URL on localhost, 127.0.0.1 or [::1], got ${JSON.stringify(issue.input)}`,
  });

const httpCheck = z.strictObject({
  ...common,
  kind: z.literal("http"),
  start: commandText.describe("Shell command that serves until it is stopped"),
  cwd: relativePath.optional(),
  env: env.optional(),
  url: localURL,
  expect: z
    .strictObject({ status: z.number().int().min(100).max(599).default(200), bodyMatches: pattern.optional() })
    .default({ status: 200 }),
});

export const viewport = z
  .strictObject({ width: z.number().int().min(16).max(4096), height: z.number().int().min(16).max(4096) })
  .refine(({ width, height }) => width * height <= maxPixels, {
    error: ({ input }) => {
      const { width, height } = input as { width: number; height: number };
      return `Expected at most ${maxPixels} pixels, got ${width}×${height}`;
    },
  })
  .meta({ id: "Viewport" });

const visualCheck = z.strictObject({
  ...common,
  baseline: z
    .union([z.boolean(), z.string().min(1).max(4096)])
    .default(false)
    .describe(
      "The expected screenshot: a PNG among the attachments or in the project. true: also take one on the base tree",
    ),
  kind: z.literal("visual"),
  start: commandText.describe("Shell command that serves until it is stopped"),
  cwd: relativePath.optional(),
  env: env.optional(),
  url: localURL,
  viewport: viewport.optional().describe("Default: the baseline's size, else 1280×720"),
  waitFor: z
    .string()
    .min(1)
    .max(1024)
    .optional()
    .describe("CSS selector that must match before the screenshot is taken"),
  maxDiffRatio: z.number().min(0).max(1).default(0).describe("The share of pixels that may differ"),
});

const reviewCheck = z.strictObject({
  id: common.id,
  name: common.name,
  required: common.required,
  kind: z.literal("review"),
  criteria: z.string().trim().min(1).max(4000).describe("What the result must satisfy; judged by the squad's reviewer"),
});

export const checkRequest = z
  .discriminatedUnion("kind", [commandCheck, fileCheck, httpCheck, visualCheck, reviewCheck], {
    error: ({ code, input }) => {
      if (code !== "invalid_union") return undefined;
      const { kind } = input as { kind?: unknown };
      const known = checkKinds.map((name) => JSON.stringify(name)).join(", ");
      return `Expected one of ${known}, got ${kind === undefined ? "nothing" : JSON.stringify(kind).slice(0, 60)}`;
    },
  })
  .meta({ id: "Check" });

const settled = {
  id: z.string(),
  name: z.string(),
  timeoutSeconds: z.number(),
  required: z.boolean(),
  baseline: z.boolean(),
};

/** A check with every default filled in; `id` is unique within its Task. */
export const checkSpec = z
  .discriminatedUnion("kind", [
    z.object({
      ...settled,
      kind: z.enum(commandKinds),
      run: z.string(),
      cwd: z.string().exactOptional(),
      env: z.record(z.string(), z.string()).exactOptional(),
      expect: z
        .object({ exitCode: z.number().exactOptional(), stdoutMatches: z.string().exactOptional() })
        .exactOptional(),
    }),
    z.object({
      ...settled,
      kind: z.literal("file"),
      path: z.string(),
      exists: z.boolean(),
      matches: z.string().exactOptional(),
    }),
    z.object({
      ...settled,
      kind: z.literal("http"),
      start: z.string(),
      cwd: z.string().exactOptional(),
      env: z.record(z.string(), z.string()).exactOptional(),
      url: z.string(),
      expect: z.object({ status: z.number(), bodyMatches: z.string().exactOptional() }),
    }),
    z.object({
      ...settled,
      kind: z.literal("visual"),
      start: z.string(),
      cwd: z.string().exactOptional(),
      env: z.record(z.string(), z.string()).exactOptional(),
      url: z.string(),
      viewport,
      waitFor: z.string().exactOptional(),
      maxDiffRatio: z.number(),
      against: z
        .object({ name: z.string(), sha256: z.string(), bytes: z.number() })
        .exactOptional()
        .describe("The baseline's bytes as they were when the Task was created"),
    }),
    z.object({ ...settled, kind: z.literal("review"), criteria: z.string() }),
  ])
  .meta({ id: "CheckSpec" });

export type CheckSpec = z.infer<typeof checkSpec>;
export type CommandCheck = Extract<CheckSpec, { run: string }>;
export type FileCheck = Extract<CheckSpec, { kind: "file" }>;
export type HttpCheck = Extract<CheckSpec, { kind: "http" }>;
export type VisualCheck = Extract<CheckSpec, { kind: "visual" }>;

export type ReviewCheck = Extract<CheckSpec, { kind: "review" }>;
/** Checks that the service runs; the others are judged by a reviewer. */
export type RunCheck = Exclude<CheckSpec, ReviewCheck>;

export const isReviewCheck = (check: CheckSpec): check is ReviewCheck => check.kind === "review";

export const isRun = (check: CheckSpec): check is RunCheck => !isReviewCheck(check);

export const isCommand = (check: CheckSpec): check is CommandCheck =>
  (commandKinds as readonly string[]).includes(check.kind);

/** What a check examines, in a few words. */
export const aboutOf = (check: CheckSpec): string => {
  switch (check.kind) {
    case "file":
      return `file ${check.path}`;
    case "http":
      return `GET ${check.url}`;
    case "visual":
      return `look of ${check.url}`;
    case "review":
      return `review: ${check.criteria.split("\n")[0]}`;
    case "command":
    case "build":
    case "test":
    case "lint":
    case "typecheck":
      return check.run;
  }
};

/** What a check requires in addition to `aboutOf`, to be read after it; empty for a command that has to exit with 0. */
export const wantOf = (check: RunCheck): string => {
  if (check.kind === "file")
    return check.exists
      ? ` is there${check.matches === undefined ? "" : ` and matches /${check.matches}/`}`
      : " is not there";
  if (check.kind === "http") {
    const { status, bodyMatches } = check.expect;
    return ` gives ${status}${bodyMatches === undefined ? "" : ` and matches /${bodyMatches}/`}, started by \`${check.start}\``;
  }
  const where = check.cwd === undefined ? "" : ` in ${check.cwd}`;
  const { exitCode, stdoutMatches } = ("expect" in check ? check.expect : undefined) ?? {};
  const wants = [
    ...(exitCode === undefined || exitCode === 0 ? [] : [`exits with ${exitCode}`]),
    ...(stdoutMatches === undefined ? [] : [`prints what matches /${stdoutMatches}/`]),
  ];
  return `${where}${wants.length === 0 ? "" : ` ${wants.join(" and ")}`}`;
};
