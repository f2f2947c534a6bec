import type { OperationID, Routes } from "../../protocol/route/table.ts";
import type { Project, ProjectPlace } from "../../protocol/task/board.ts";
import type { ProjectGrant } from "../../protocol/task/grant.ts";
import type { SavedRequest } from "../../protocol/task/saved-request.ts";
import type { Store } from "../../store/store.ts";
import type { Handler } from "../request/call.ts";
import { tagged, tagOf, unchanged } from "../response/etag.ts";
import { nextLink } from "../response/link.ts";
import { json, whenGone } from "../response/response.ts";

/** The routes about whole projects: their directories, and how much is going on in them. */

type ProjectRoute = Extract<OperationID, `project.${string}`> | "service.overview";

type Deps = {
  store: Pick<Store, "projects" | "overview">;
  startedIn(): Promise<string | undefined>;
  project(directory: string): Promise<string>;
  place(directory: string): Promise<ProjectPlace>;
  requests(directory: string): Promise<SavedRequest[]>;
  grants(directory: string): Promise<ProjectGrant[]>;
  /** The repository whose files the service keeps in this directory; null: the directory belongs to no repository. */
  repositoryOf(directory: string): Project["repository"];
};

const dayMs = 24 * 3600_000;
const listSize = 50;

export const createProjectHandlers = (deps: Deps): { [ID in ProjectRoute]: Handler<Routes[ID]> } => {
  const { store } = deps;
  const offered = (directory: string): Project => ({
    directory,
    repository: deps.repositoryOf(directory),
    tasks: 0,
    active: 0,
    updated: 0,
  });
  return {
    "project.get": async ({ entry, directory }) => json(entry, 200, await deps.place(directory)),
    "project.requests": async ({ entry, directory }) => json(entry, 200, await deps.requests(directory)),
    "project.grants": async ({ entry, directory }) => json(entry, 200, await deps.grants(directory)),
    "project.list": async ({ entry, query, incoming, outgoing }) => {
      const { limit = listSize, offset = 0 } = query;
      const end = offset + limit;
      const [known, here] = await Promise.all([store.projects(end + 1, whenGone(outgoing)), deps.startedIn()]);
      const page = known.slice(offset, end);
      if (known.length > end) return json(entry, 200, page, nextLink(incoming.url ?? "", { offset: end }));
      const isNew = here !== undefined && !known.some(({ directory }) => directory === here);
      return json(entry, 200, isNew ? [...page, offered(here)] : page);
    },
    "service.overview": async ({ entry, query, directory, incoming, outgoing }) => {
      const since = query.since === undefined ? new Date(Date.now() - dayMs) : new Date(query.since);
      const project = directory === undefined ? undefined : await deps.project(directory);
      const found = await store.overview({ since, project }, whenGone(outgoing));
      // The ETag leaves out the default of `since`, which is different in every request.
      const etag = tagOf(JSON.stringify({ ...found, since: query.since }));
      return unchanged(entry, incoming.headers["if-none-match"], etag) ?? json(entry, 200, found, tagged(etag));
    },
  };
};
