import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { createServiceClient } from "../../src/client/client.ts";
import type { ErrorBody } from "../../src/protocol/error.ts";
import type { Overview } from "../../src/protocol/overview.ts";
import type { TaskBoard } from "../../src/protocol/task/board.ts";
import type { CheckState, TaskSummary } from "../../src/protocol/task/status.ts";
import { whereOf } from "./place.ts";

/** The typed client of the service. The browser adds the credentials that the user gave it. */
export const client = createServiceClient({ baseUrl: window.location.origin });

/** An error answer of the service. A lost connection stays an error of the browser. */
export class Refused extends Error {
  readonly body: ErrorBody;
  constructor(body: ErrorBody) {
    super(body.message);
    this.body = body;
  }
}

type Answered = { data?: unknown; error?: unknown };

/** The data of an answer; throws `Refused` for an error answer. */
export const ask = async <A extends Answered>(call: Promise<A>): Promise<NonNullable<A["data"]>> => {
  const { data, error } = await call;
  if (data !== undefined && data !== null) return data;
  if (error instanceof Error) throw error;
  if (typeof error === "object" && error !== null && "message" in error && "code" in error)
    throw new Refused(error as ErrorBody);
  throw new Error("The service cannot be reached.");
};

/** Whether a retry would be pointless. */
export const isFinal = (error: unknown): boolean => error instanceof Refused && error.body.status < 500;

export const wordsOf = (error: unknown): string => {
  if (error instanceof Refused) {
    const issues = (error.body.issues ?? []).map(({ path, message }) => `${path}: ${message}`);
    return [error.message, ...issues.filter((issue) => !error.message.includes(issue))].join(" ");
  }
  return "The service cannot be reached. Is it running?";
};

export type Filters = {
  search?: string | undefined;
  lifecycleStatus?: TaskSummary["lifecycleStatus"] | undefined;
  productPillar?: TaskSummary["productPillar"] | undefined;
  promptProfile?: string | undefined;
  priority?: TaskSummary["priority"] | undefined;
  archived?: boolean | undefined;
};

const pageSize = 100;
type Cursor = { cursorUpdated: string; cursorTaskID: string } | null;

export const tasksOf = (directory: string, filters: Filters) =>
  infiniteQueryOptions({
    queryKey: ["tasks", directory, filters],
    initialPageParam: null as Cursor,
    queryFn: async ({ pageParam, signal }): Promise<TaskSummary[]> => {
      const given = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== undefined));
      return ask(
        client.task.list({ query: { ...whereOf(directory), limit: pageSize, ...given, ...pageParam }, signal }),
      );
    },
    getNextPageParam: (page): Cursor => {
      const last = page.length < pageSize ? undefined : page.at(-1);
      return last === undefined ? null : { cursorUpdated: String(last.updated), cursorTaskID: last.taskID };
    },
  });

/** How many Tasks of each project, and of how many projects, the view of all projects reads. */
const perProject = 30;
const mostProjects = 20;

/** The newest Tasks of these projects in one list, newest first. A project that cannot be read is left out. */
export const tasksEverywhere = (directories: readonly string[]) =>
  queryOptions({
    queryKey: ["everywhere", directories],
    queryFn: async ({ signal }): Promise<TaskSummary[]> => {
      const lists = await Promise.all(
        directories.slice(0, mostProjects).map((directory) =>
          ask(client.task.list({ query: { directory, limit: perProject }, signal })).catch((error: unknown) => {
            if (isFinal(error)) return [];
            throw error;
          }),
        ),
      );
      return lists.flat().toSorted((a, b) => b.updated - a.updated);
    },
    placeholderData: (before) => before,
  });

/** How often the rows of running Tasks are refreshed when no event arrives in between. */
const lookMs = 2000;

export type Doing = Pick<TaskSummary, "now" | "queue">;

/** What the active Tasks of these projects do or wait for now, with their progress, by Task id. */
export const doingIn = (directories: readonly string[]) =>
  queryOptions({
    queryKey: ["doing", directories],
    queryFn: async ({ signal }): Promise<ReadonlyMap<string, Doing>> => {
      const lists = await Promise.all(
        directories.slice(0, mostProjects).map((directory) =>
          ask(
            client.task.list({
              query: { ...whereOf(directory), limit: perProject, lifecycleStatus: "active" },
              signal,
            }),
          ),
        ),
      );
      return new Map(lists.flat().map(({ taskID, now, queue }) => [taskID, { now, queue }]));
    },
    enabled: directories.length > 0,
    refetchInterval: lookMs,
    structuralSharing: false,
  });

/** The address of the repository whose files the service keeps in this directory; null: it keeps none there. */
export const addressOf = (directory: string) =>
  queryOptions({
    queryKey: ["address", directory],
    queryFn: async ({ signal }): Promise<string | null> => {
      const [newest] = await ask(client.task.list({ query: { directory, limit: 1 }, signal }));
      return newest?.repository?.url ?? null;
    },
    staleTime: Number.POSITIVE_INFINITY,
  });

export const boardOf = (taskID: string) =>
  queryOptions({
    queryKey: ["board", taskID],
    queryFn: async ({ signal }): Promise<TaskBoard> =>
      (await ask(client.task.board({ path: { taskID }, signal }))) as TaskBoard,
    structuralSharing: true,
    // No event of the Task reports that the queue before it moves, so the board is polled.
    refetchInterval: ({ state }) => (state.data?.task.now?.kind === "queue" ? lookMs : false),
  });

export const detailOf = (taskID: string) =>
  queryOptions({
    queryKey: ["detail", taskID],
    queryFn: ({ signal }) => ask(client.task.get({ path: { taskID }, signal })),
  });

/** The log of a check's last run; each run has a log of its own. */
export const checkLogOf = (taskID: string, { id, round, state }: Pick<CheckState, "id" | "round" | "state">) =>
  queryOptions({
    queryKey: ["check-log", taskID, id, round, state],
    queryFn: async ({ signal }): Promise<string> => {
      const text: unknown = await ask(client.task.checkLog({ path: { taskID, checkID: id }, signal, parseAs: "text" }));
      return String(text);
    },
  });

/** The numbers of all projects, and the asks that wait for an answer. */
export const overview = queryOptions({
  queryKey: ["overview"],
  queryFn: ({ signal }): Promise<Overview> => ask(client.service.overview({ signal })),
});

/** The requests that the project has saved in `.claude/commands`. */
export const savedRequestsOf = (directory: string) =>
  queryOptions({
    queryKey: ["saved-requests", directory],
    queryFn: ({ signal }) => ask(client.project.requests({ query: { directory }, signal })),
  });

/** What the project requests in its own files, and whether the operator granted it. */
export const grantsOf = (directory: string) =>
  queryOptions({
    queryKey: ["grants", directory],
    queryFn: ({ signal }) => ask(client.project.grants({ query: { directory }, signal })),
  });

/** Where a Task in this directory would work. */
export const placeOf = (directory: string) =>
  queryOptions({
    queryKey: ["place", directory],
    queryFn: ({ signal }) => ask(client.project.get({ query: { directory }, signal })),
    retry: false,
  });

export const projects = queryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal }) => ask(client.project.list({ query: { limit: 20 }, signal })),
  staleTime: 30_000,
});

export const squadsOf = (directory: string | undefined) =>
  queryOptions({
    queryKey: ["squads", directory ?? ""],
    // A repository's own squads are known only after it was fetched.
    queryFn: ({ signal }) =>
      ask(client.squad.list({ query: directory === undefined ? {} : whereOf(directory), signal })),
    staleTime: 60_000,
  });

export const health = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => ask(client.service.health({ signal })),
  staleTime: 30_000,
});

export const nodes = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) => ask(client.service.nodes({ signal })),
  staleTime: 2_000,
});

export const models = queryOptions({
  queryKey: ["models"],
  queryFn: ({ signal }) => ask(client.service.models({ signal })),
  staleTime: 10_000,
});
