import { isAbsolute } from "node:path";
import { z } from "zod";
import { StartError } from "../error.ts";
import { environmentSettings, secretNamed } from "../protocol/task/environment.ts";

/** The operator's environments by project, and the secrets that environments and MCP servers name. */

const name = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,99}$/, "expected the name of a variable");

const source = z.union([
  z
    .string()
    .regex(/^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:\/.+)$/, "expected env:NAME or file:/PATH")
    .max(4096),
  z.strictObject({ command: z.array(z.string().min(1).max(4096)).min(1).max(64) }),
]);

export const secretStoreSettings = z.record(name, source);
export type SecretSource = z.infer<typeof source>;

/** Adds the setting that only the operator may make: which commands of agents get the secrets. */
const operatorEnvironment = environmentSettings
  .omit({ $schema: true })
  .extend({ shell: z.array(z.string().min(1).max(500)).max(50).optional() });
export const environmentsSettings = z.record(z.string().min(1).max(4096), operatorEnvironment);
export type OperatorEnvironment = z.infer<typeof operatorEnvironment>;

type Named = {
  environments?: Record<string, OperatorEnvironment> | undefined;
  secretStore?: Record<string, SecretSource> | undefined;
  mcpServers?: Record<string, object> | undefined;
  sandbox?: { containers?: string | undefined; image?: string | undefined } | undefined;
};

const experiment = 'expected sandbox.containers: "experimental" with it, because images are an experiment.';

/** Refuses, at the start, settings that can never work, so that not the first Task finds out. */
export const checkEnvironments = (
  configPath: string,
  { environments = {}, secretStore = {}, mcpServers = {}, sandbox = {} }: Named,
): void => {
  const bad = (where: string, message: string) => new StartError(78, `${configPath}: ${where}: ${message}`);
  const expectKnown = (where: string, wanted: string) => {
    if (!Object.hasOwn(secretStore, wanted)) throw bad(where, `there is no ${wanted} in secretStore. Add it there.`);
  };
  if (sandbox.image !== undefined && sandbox.containers === undefined) throw bad("sandbox.image", experiment);
  for (const [project, { secrets = [], variables = {}, shell = [], image }] of Object.entries(environments)) {
    const where = `environments.${project}`;
    if (!isAbsolute(project) && !/^[a-z+]+:\/\/./.test(project))
      throw bad(where, "expected the absolute path of a project, or the address of a repository.");
    if (image !== undefined && sandbox.containers === undefined) throw bad(`${where}.image`, experiment);
    for (const one of secrets) {
      expectKnown(`${where}.secrets`, one);
      if (Object.hasOwn(variables, one))
        throw bad(where, `${one} is both a variable and a secret. Remove one of them.`);
    }
    if (shell.length > 0 && secrets.length === 0) throw bad(`${where}.shell`, "expected secrets with it, got none.");
  }
  for (const [server, settings] of Object.entries(mcpServers))
    for (const [field, values] of Object.entries(settings))
      for (const [key, value] of Object.entries(field === "env" || field === "headers" ? (values as object) : {})) {
        const wanted = typeof value === "string" ? secretNamed(value) : undefined;
        if (wanted !== undefined) expectKnown(`mcpServers.${server}.${field}.${key}`, wanted);
      }
};
