import { setTimeout as pause } from "node:timers/promises";
import { z } from "zod";
import type { Missions } from "../../mission/missions.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Routes } from "../../protocol/route/table.ts";
import type { SavedRequest } from "../../protocol/task/saved-request.ts";
import type { Store } from "../../store/store.ts";
import type { Tasks, IdempotencyKey } from "../../task/tasks.ts";
import { atChosen } from "../request/chosen-node.ts";
import { directoryOf, type PlaceOf } from "../request/directory.ts";
import { keyForm, onceKey, type RealPath, type RunOnce } from "../request/idempotency.ts";

/**
 * What the MCP tools share. They call the same functions as the HTTP routes, with the routes' schemas and limits.
 * Models read their descriptions, and know nothing else about Sortie.
 */

export type ToolDeps = {
  tasks: Tasks;
  missions: Missions;
  store: Pick<Store, "read" | "blobs">;
  routes: Routes;
  limits: Limits;
  runOnce: RunOnce;
  realPath: RealPath;
  /** The requests that a project has saved. */
  requests(directory: string): Promise<readonly SavedRequest[]>;
  /** The directory that holds the files of a repository; throws `repository_not_allowed`. */
  repositoryAt: PlaceOf;
  user: string;
};

/**
 * The caller of a tool: the directory that its connection was configured with (`query`, `header`), and a signal that
 * aborts when it disconnects.
 */
export type Caller = {
  query: string | undefined;
  header: string | undefined;
  signal: AbortSignal;
  /** Counts a new Task of this client; throws `rate_limited` when it has created too many. */
  countCreate(): void;
  requestID: string;
};

/** `input` parses a call; `shown` is the schema that models see. */
export type Tool = {
  name: string;
  title: string;
  description: string;
  annotations: { readOnlyHint: boolean; destructiveHint: boolean; idempotentHint: boolean; openWorldHint: boolean };
  input: z.ZodObject;
  shown: z.ZodObject;
  output: z.ZodObject;
  run(input: unknown, caller: Caller): Promise<Record<string, unknown>>;
};

export const tool = <I extends z.ZodObject, O extends z.ZodObject>(
  made: Omit<Tool, "input" | "shown" | "output" | "run"> & {
    input: I;
    shown?: z.ZodObject;
    output: O;
    run(input: z.output<I>, caller: Caller): Promise<z.output<O>>;
  },
): Tool => ({ ...made, shown: made.shown ?? made.input });

/** Recorded as the `source` of Tasks and messages; HTTP callers name their own. */
export const source = "mcp";

const pollMs = 250;
const longestWait = 50;

export const directory = z
  .string()
  .min(1)
  .max(4096)
  .optional()
  .describe("The project's absolute path on the service's machine. Default: this connection's");
/** The schema shown to models; calls are parsed by the routes' schema. */
export const shownRepository = z
  .object({ url: z.string(), ref: z.string().optional() })
  .optional()
  .describe("Instead of `directory`: a repository by its address, and a branch");
export const idempotencyKey = z
  .string()
  .regex(keyForm, { error: "Expected 1 to 255 visible ASCII characters" })
  .optional()
  .describe(
    "Any text of your own, e.g. a UUID. Repeated with the same arguments, the first answer comes again and nothing is done twice",
  );
export const waitSeconds = z
  .number()
  .int()
  .min(0)
  .max(longestWait)
  .optional()
  .describe("Wait so long for it to end or to need an answer, then answer anyway. Default 0; 30 is a good choice");
export const next = z.string().describe("What to do now");

/** The same schema with descriptions for a model. */
export const describeFields = <S extends z.ZodObject>(schema: S, words: { [K in keyof z.output<S>]?: string }): S =>
  schema.extend(
    Object.fromEntries(Object.entries(words).map(([name, text]) => [name, schema.shape[name].describe(text)])),
  ) as unknown as S;

/** The project's directory: the call's argument, otherwise the connection's. */
export const placeOf = (given: string | undefined, { query, header }: Caller): string =>
  given === undefined ? directoryOf(needed, query, header) : directoryOf(needed, given, undefined);

const needed = { directory: "required", path: "/mcp" } as const;

/** Keys are scoped to one tool, directory and user, and separate from those of the routes. */
export const onceOf = (
  { user, realPath }: Pick<ToolDeps, "user" | "realPath">,
  name: string,
  key: string | undefined,
  place: string,
  body: unknown,
): Promise<IdempotencyKey | undefined> =>
  onceKey(
    key,
    { method: "POST", path: atChosen(`/mcp/${name}`), directory: place, user },
    () => JSON.stringify(body),
    realPath,
  );

/** Polls until `rests` returns true, the time is over, or the caller has disconnected; resolves to the last state. */
export const waitUntilIdle = async <T>(
  ask: () => Promise<T>,
  rests: (found: T) => boolean,
  seconds = 0,
  signal: AbortSignal,
): Promise<T> => {
  const end = performance.now() + seconds * 1000;
  for (;;) {
    const found = await ask();
    if (rests(found) || signal.aborted || performance.now() + pollMs > end) return found;
    await pause(pollMs, undefined, { signal }).catch(() => {});
  }
};
