import { z } from "zod";

/**
 * The environment of a project: what its commands get in addition to the files. The operator configures it per project;
 * a project can request one with a file, which the operator grants.
 */

/** A host, or all hosts below one (`*.example.org`); with a port, or for ports 80 and 443. */
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

/** Variables that the service sets itself, and variables that change how programs outside a sandbox start. */
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
 * A program that checks files after an edit, and prints `path:line:column: text` or `path(line,column): text`.
 * `{files}` in it stands for the touched files; without it, the program checks the whole project. `stays`: the program
 * watches the files itself; a line that contains the text of `ends` ends its output for one change.
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

/**
 * The name of a container image, as a container engine takes it: it cannot be an option, nor contain anything special
 * to a shell.
 */
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

/** The file in which a project requests its environment. */
export const environmentFile = ".sortie/environment.jsonc";

/** The file in which a project may request an environment in the format of other tools, if it has no file of ours. */
export const devcontainerFile = ".devcontainer/devcontainer.json";

const secretPrefix = "secret:";

/**
 * The name of the secret that a value of an MCP server's `env` or `headers` refers to; undefined: it is a plain value.
 */
export const secretNamed = (value: string): string | undefined =>
  value.startsWith(secretPrefix) ? value.slice(secretPrefix.length) : undefined;
