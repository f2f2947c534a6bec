import { z } from "zod";

/**
 * The environment of a project: what its commands get besides the files. The operator configures it by project; a
 * project can ask for one with a file, which the operator grants.
 */

/** A host, or all below one (`*.example.org`); with a port, or for 80 and 443. */
export const networkHost = z
  .string()
  .max(300)
  .regex(
    /^(?:\*\.)?[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?(?::[1-9]\d{0,4})?$|^\[[0-9a-f:.]+\](?::[1-9]\d{0,4})?$/i,
    "expected a host such as registry.npmjs.org, *.example.org or 10.0.0.5:4873",
  );

const network = z.union([z.enum(["none", "all"]), z.array(networkHost).min(1).max(100)]);

export type NetworkSetting = z.infer<typeof network>;

const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/, "expected the name of a variable");

/** What the service sets itself, and what changes how programs outside of a sandbox start. */
const ownNames =
  /^(?:SERVICE_.*|LD_.*|DYLD_.*|GLIBC_.*|GIT_.*|BASH.*|GCONV_PATH|LOCPATH|IFS|PATH|HOME|ENV|PS4|SHELLOPTS)$/;

export const isOwnVariable = (name: string): boolean => ownNames.test(name);

const given = variable.refine(
  (name) => !isOwnVariable(name),
  "expected another name: commands get that one from the service",
);

const absolute = z
  .string()
  .max(4096)
  .refine(
    (path) => path.startsWith("/") && path.length > 1 && !path.split("/").includes(".."),
    "expected an absolute path",
  );

const seconds = z.number().int().min(1).max(86_400).optional();

/**
 * A program that looks at files after an edit, and prints `path:line:column: text` or `path(line,column): text`.
 * `{files}` in it stands for the touched files; without it, it looks at the whole project. `stays`: it watches the
 * files itself; a line with the text of `ends` ends what it prints for one change.
 */
const diagnosticCommand = z.strictObject({
  name: z.string().min(1).max(40).optional(),
  run: z.string().min(1).max(4096),
  extensions: z
    .array(z.string().regex(/^\w{1,20}$/, "expected an extension without its dot, such as ts"))
    .min(1)
    .max(50),
  stays: z.strictObject({ begins: z.string().min(1).max(200).optional(), ends: z.string().min(1).max(200) }).optional(),
});

export type DiagnosticCommand = z.infer<typeof diagnosticCommand>;

/** The name of a container image as an engine takes it: no option, and nothing of a shell. */
export const imageName = z
  .string()
  .max(300)
  .regex(/^[a-z0-9][\w./:@-]*$/i, "expected the name of an image, such as docker.io/library/node:24");

export const environmentSettings = z.strictObject({
  $schema: z.string().optional(),
  setup: z.string().min(1).max(4096).optional(),
  network: network.optional(),
  setupNetwork: network.optional(),
  variables: z.record(given, z.string().max(4096)).optional(),
  secrets: z.array(given).max(50).optional(),
  paths: z.array(absolute).max(32).optional(),
  image: imageName.optional(),
  diagnostics: z.union([z.boolean(), z.array(diagnosticCommand).min(1).max(8)]).optional(),
  limits: z
    .strictObject({
      setupSeconds: seconds,
      commandSeconds: seconds,
      commandMaxSeconds: seconds,
      projectCheckSeconds: seconds,
    })
    .optional(),
});

export type EnvironmentSettings = z.infer<typeof environmentSettings>;

/** Where a project asks for its environment. */
export const environmentFile = ".sortie/environment.jsonc";

/** Where it may ask for one in other tools' words, if it does not in ours. */
export const devcontainerFile = ".devcontainer/devcontainer.json";

const secretPrefix = "secret:";

/** The secret that a value of an MCP server's `env` or `headers` stands for; undefined: it is a value itself. */
export const secretNamed = (value: string): string | undefined =>
  value.startsWith(secretPrefix) ? value.slice(secretPrefix.length) : undefined;
