import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Config } from "../config/config.ts";
import type { devcontainerFile, environmentFile, EnvironmentSettings } from "../protocol/task/environment.ts";
import { readAsked } from "../task/worker/environment.ts";
import { readProjectFile } from "../task/worker/project-request.ts";
import { ServiceError } from "../error.ts";
import { type Asked, projectFile, parseRequestedServers as readServers } from "../tool/mcp/project-file.ts";
import { FileRefused } from "../workspace/file/files.ts";
import { inspectProject } from "../workspace/project.ts";

/**
 * The operator's grants for what projects request in their own files: kept in a file of the data folder, which only
 * `sortie trust` changes, and read whenever a Task begins. A grant applies to one project and to exactly these bytes.
 */

const granted = z.object({
  grants: z.array(z.object({ project: z.string(), file: z.string(), digest: z.string(), at: z.string() })),
});
type Grants = z.infer<typeof granted>["grants"];

const pathIn = (dataDir: string) => join(dataDir, "trust.json");

/** The grants in the file. A file that is missing or cannot be read grants nothing. */
const grantsIn = (dataDir: string): Grants => {
  try {
    return granted.parse(JSON.parse(readFileSync(pathIn(dataDir), "utf8"))).grants;
  } catch {
    return [];
  }
};

export const isGranted = (dataDir: string, project: string, digest: string, file: string): boolean =>
  grantsIn(dataDir).some((grant) => grant.project === project && grant.file === file && grant.digest === digest);

/**
 * Replaces the project's earlier grant for this file, because its old content is no longer trusted. `digest` null:
 * removes it.
 */
export const setGrant = (dataDir: string, project: string, digest: string | null, file: string): void => {
  const others = grantsIn(dataDir).filter((grant) => grant.project !== project || grant.file !== file);
  const grants = digest === null ? others : [...others, { project, file, digest, at: new Date().toISOString() }];
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const draft = `${pathIn(dataDir)}.draft`;
  rmSync(draft, { force: true });
  writeFileSync(draft, `${JSON.stringify({ grants }, null, 2)}\n`, { mode: 0o600, flag: "wx", flush: true });
  renameSync(draft, pathIn(dataDir));
};

/** A file with which a project requests something. */
export type ProjectRequest = { project: string; directory: string; digest: string; granted: boolean } & (
  | { file: typeof projectFile; asked: Asked }
  | { file: typeof environmentFile | typeof devcontainerFile; asked: EnvironmentSettings | { problem: string } }
);

/** The requests of the project in a directory. Rejects with a `ServiceError` when the directory is no project. */
export const requestsOf = async (
  { dataDir, projectRoots, env, sandbox }: Pick<Config, "dataDir" | "projectRoots" | "env" | "sandbox">,
  given: string,
): Promise<ProjectRequest[]> => {
  const git = env["PATH"] === undefined ? {} : { path: env["PATH"] };
  const { directory, project } = await inspectProject(given, { dataDir, projectRoots, git });
  const about = (file: string, digest: string) => ({
    project,
    directory,
    digest,
    granted: isGranted(dataDir, project, digest, file),
  });
  const [servers, environment] = await Promise.all([
    readProjectFile(directory, projectFile),
    readAsked(directory, sandbox),
  ]).catch((error: unknown) => {
    if (error instanceof FileRefused) throw new ServiceError("repository_unsupported", `${error.message}.`);
    throw error;
  });
  return [
    ...(servers === undefined
      ? []
      : [{ ...about(projectFile, servers.digest), file: projectFile, asked: readServers(servers.text) } as const]),
    ...(environment === undefined ? [] : [{ ...environment, ...about(environment.file, environment.digest) }]),
  ];
};
