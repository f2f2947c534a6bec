import { ServiceError } from "../../../error.ts";
import type { TaskCreate } from "../../../protocol/task/request.ts";
import type { RemoteLanding, Repositories } from "../../../repository/repository.ts";
import type { Project } from "../../../workspace/workspace.ts";
import { cloneRemote } from "../../clone-remote.ts";
import type { TasksDeps } from "../../tasks.ts";
import { invalidField } from "../check-spec.ts";

/** Where a Task works and where its result lands. */

export type TaskPlace = Awaited<ReturnType<typeof placeTask>>;

/** `ofMission`: the Task lands on its Mission's own branch. */
export const placeTask = async (
  { inspectNew, workspaces, repositories, defaults }: TasksDeps,
  directory: string,
  body: TaskCreate,
  ofMission: boolean,
) => {
  const named = body.repository;
  const wanted = named === undefined ? directory : repositories.place(named.url, named.ref).directory;
  // A Mission dispatches Tasks where it runs itself, so some node can run them.
  const project = await (ofMission ? workspaces.inspect(wanted) : inspectNew(wanted));
  const kept = repositories.at(project.directory);
  const place =
    kept === undefined
      ? placeOf(project, body, defaults.landing)
      : remotePlace(body, repositories.landing(kept), ofMission);
  if (project.elsewhere !== undefined) expectNoFiles(project.elsewhere, body, place.landing);
  return {
    project,
    place,
    /** The repository, if the Task works on one by address. */
    kept,
    repository: kept && { url: kept.url, ref: kept.ref },
    /** The target of a pull request from a directory's clone. */
    remote: kept === undefined && place.landing === "pull-request" ? cloneRemote(project, repositories) : undefined,
  };
};

const hasCommits = ({ git, elsewhere }: Project): boolean => elsewhere?.git ?? (git !== undefined && git.head !== null);

/** For a Task in a directory. */
const placeOf = (
  project: Project,
  body: TaskCreate,
  landing: "commit" | "branch",
): { isolation: "worktree" | "directory"; landing: RemoteLanding | "none" } => {
  const inPlace = body.isolation === "directory" || !hasCommits(project);
  if (!inPlace) return { isolation: "worktree", landing: body.landing ?? landing };
  if (body.landing !== undefined)
    throw new ServiceError(
      "invalid_request",
      body.isolation === "directory"
        ? `Expected no landing with isolation "directory" (edits are final at once), got "${body.landing}".`
        : `Expected no landing: ${project.directory} has no Git commit, so the Task works in place; got "${body.landing}".`,
      { issues: [{ path: "body.landing", message: "Expected to be absent", code: "custom" }] },
    );
  return { isolation: "directory", landing: "none" };
};

/** For a repository by address: Tasks work in worktrees, and the operator decides what may land on its branches. */
const remotePlace = (
  { isolation, landing }: TaskCreate,
  { allowed, default: usual, proposes }: ReturnType<Repositories["landing"]>,
  /** The Task lands on its Mission's own branch. */
  ofMission: boolean,
): { isolation: "worktree"; landing: RemoteLanding } => {
  if (isolation === "directory")
    throw invalidField("isolation", 'Expected "worktree" with a repository, which has no directory of yours');
  if (landing !== undefined && !ofMission && !allowed.includes(landing))
    throw invalidField(
      "landing",
      `Expected one of ${allowed.join(", ")} (repositories.landing of config.jsonc), got "${landing}"`,
    );
  if (landing === "pull-request" && proposes !== undefined)
    throw invalidField("landing", `Expected "branch" or "commit": no pull request can be opened, because ${proposes}`);
  return { isolation: "worktree", landing: landing ?? usual };
};

/** When another node has the files, refuses whatever can only be decided by reading them. */
const expectNoFiles = ({ node }: { node: string }, { checks, attachments }: TaskCreate, landing: string): void => {
  const attached = new Set(attachments?.map(({ filename }) => filename));
  const reads = checks?.some(
    (check) =>
      typeof check === "object" &&
      check.kind === "visual" &&
      typeof check.baseline === "string" &&
      !attached.has(check.baseline),
  );
  const what =
    landing === "pull-request" ? 'landing "pull-request"' : reads === true ? "a baseline of the project" : undefined;
  if (what !== undefined)
    throw new ServiceError("node_away", `Expected the node ${node}, which has the directory, for ${what}: ask it.`, {
      details: { node },
    });
};
