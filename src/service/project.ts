import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { detectProject } from "../check/project/detect.ts";
import { ownChecks } from "../check/project/own-check.ts";
import { ServiceError } from "../error.ts";
import type { ProjectPlace } from "../protocol/task/board.ts";
import type { ProjectGrant } from "../protocol/task/grant.ts";
import type { SavedRequest } from "../protocol/task/saved-request.ts";
import type { Repositories } from "../repository/repository.ts";
import { cloneRemote } from "../task/clone-remote.ts";
import { savedRequests } from "../task/saved-request.ts";
import { hasProgram, type Machine } from "../task/session/project-facts.ts";
import { projectFile } from "../tool/mcp/project-file.ts";
import { createFiles } from "../workspace/file/files.ts";
import type { Project, Workspaces } from "../workspace/workspace.ts";
import { wordsOf } from "./grant-words.ts";
import type { ProjectRequest } from "./trust.ts";

/** Answers requests about the directories and repositories that they name. */

export type ProjectDeps = {
  inspect: Workspaces["inspect"];
  /** Like `inspect`, for callers that need the files; rejects with `node_away` when another node has them. */
  own: Workspaces["inspect"];
  repositories: Repositories;
  startedIn: string | undefined;
  landing: "commit" | "branch";
  squad: string;
  /** Finds the programs that the project's commands need. */
  machine: Machine;
  /** What the project in a directory requests with files of its own. */
  asked(directory: string): Promise<ProjectRequest[]>;
  /**
   * Whether the operator has configured an environment for this directory, which takes precedence over the project's
   * file.
   */
  overrides(directory: string): boolean;
  /** The time limit of each of the project's own checks, in seconds; 0: they do not run. */
  checkSeconds: number;
};

export const createProjects = (deps: ProjectDeps) => {
  const { inspect, own, repositories, startedIn } = deps;
  return {
    async startedIn(): Promise<string | undefined> {
      if (startedIn === undefined) return undefined;
      // A service may be started in a folder that is no project.
      const found = await inspect(startedIn).catch(() => undefined);
      return found?.git === undefined ? undefined : found.directory;
    },
    project: async (directory: string): Promise<string> => (await inspect(directory)).project,
    async place(directory: string): Promise<ProjectPlace> {
      const project = await own(directory);
      return { ...(await placeOf(project, deps)), landings: landingsOf(project, repositories) };
    },
    async requests(directory: string): Promise<SavedRequest[]> {
      const project = await own(directory);
      // The saved requests of a repository are unknown until its files are there, and only a Task fetches them.
      return repositories.at(project.directory) === undefined ? savedRequests(createFiles(project.directory)) : [];
    },
    async grants(directory: string): Promise<ProjectGrant[]> {
      const project = await own(directory);
      // Anyone who may push to a repository decides its files, so none of them can be granted.
      if (repositories.at(project.directory) !== undefined) return [];
      const overridden = deps.overrides(project.directory);
      return (await deps.asked(project.directory)).map((one) => grantOf(one, overridden));
    },
    repositoryOf(directory: string): { url: string; ref: string | null } | null {
      const found = repositories.at(directory);
      return found === undefined ? null : { url: found.url, ref: found.ref };
    },
    repository: (url: string, ref: string | undefined): string => repositories.place(url, ref).directory,
    async realPath(directory: string): Promise<{ name: string; earlier?: string }> {
      const kept = repositories.at(directory);
      if (kept !== undefined) return { name: `${kept.identity} ${kept.ref ?? ""}`, earlier: kept.directory };
      return { name: await realpath(directory).catch(() => resolve(directory)) };
    },
  };
};

const grantOf = (request: ProjectRequest, overridden: boolean): ProjectGrant => {
  const { requests, problems, grantable } = wordsOf(request);
  const own = request.granted ? "granted" : grantable ? "requested" : "unusable";
  const state = overridden && request.file !== projectFile ? "overridden" : own;
  return { file: request.file, digest: request.digest, state, requests, problems };
};

/** Where and how a Task works when its request names neither isolation nor landing. */
const placeOf = async (
  { directory, git }: Project,
  { landing, squad, machine, checkSeconds }: ProjectDeps,
): Promise<Omit<ProjectPlace, "landings">> => {
  const because: ProjectPlace["because"] = git === undefined ? "no_git" : git.head === null ? "no_commit" : null;
  const branch = git?.branch?.replace(/^refs\/heads\//, "") ?? null;
  const place = { directory, because, branch, squad };
  if (because !== null) return { ...place, isolation: "directory", landing: "none", checks: [] };
  const files = createFiles(directory);
  const top = createFiles(git?.toplevel ?? directory);
  const { detected } = await detectProject(files, top, hasProgram(machine, files, top));
  const checks = ownChecks([], detected, checkSeconds).map(({ name }) => name);
  return { ...place, isolation: "worktree", landing, checks };
};

/** The landings that a request may ask for. */
const landingsOf = (project: Project, repositories: Repositories): ProjectPlace["landings"] => {
  if (project.git?.head == null) return [];
  try {
    cloneRemote(project, repositories);
    return ["commit", "branch", "pull-request"];
  } catch (error) {
    if (error instanceof ServiceError) return ["commit", "branch"];
    throw error;
  }
};
