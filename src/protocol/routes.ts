import { z } from "zod";
import { eventPage, streamFrame } from "./frame.ts";
import { defaultLimits, type Limits } from "./limits.ts";
import * as mission from "./mission.ts";
import * as squad from "./squad.ts";
import * as accepted from "./accepted.ts";
import * as board from "./board.ts";
import * as status from "./status.ts";
import * as task from "./task.ts";

/**
 * The one table of routes. `http` serves exactly these and parses with these schemas; the OpenAPI document and the
 * typed client are made from the same table. Source: shared/spec/interface.md 4 and completion.md.
 */

export type Answer = {
  status: 200 | 202 | 204 | 304;
  description: string;
  type?:
    | "application/json"
    | "text/event-stream"
    | "text/plain"
    | "text/x-diff"
    | "application/zip"
    | "application/octet-stream"
    | "text/html";
  schema?: z.ZodType;
};

export type Route = {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: `/${string}`;
  summary: string;
  /** `required`: 400 without one. `accepted`: may be given and is ignored. `filter`: narrows the answer. `optional`: adds to it. */
  directory: "required" | "accepted" | "filter" | "optional";
  /** Path parameters are plain strings: an ill-formed Task id is a 404, not a 400. */
  params?: z.ZodObject;
  /** Strict: unknown query parameters are refused. `directory` is added to every route. */
  query?: z.ZodType;
  /** Further query parameters by prefix, e.g. `metadata.`. */
  queryPrefix?: string;
  body?: z.ZodType;
  /** An absent body counts as `{}`. */
  bodyOptional?: boolean;
  /** `large`: limits.largeBodyBytes instead of limits.bodyBytes. */
  bodySize?: "large";
  answers: readonly Answer[];
};

const json = (schema: z.ZodType, description: string, status: 200 | 202 = 200): Answer => ({
  status,
  description,
  type: "application/json",
  schema,
});

/** A query parameter is text; the document shows what the text stands for. */
const shownAs = (schema: object) => ({
  override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }): void => {
    for (const key of Object.keys(jsonSchema)) if (key !== "description") delete jsonSchema[key];
    Object.assign(jsonSchema, schema);
  },
});

/** A whole number in a query string. */
const count = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, { error: (issue) => `Expected a whole number, got ${JSON.stringify(issue.input)}` })
    .transform(Number)
    .pipe(z.number().int().min(min).max(max))
    .meta(shownAs({ type: "integer", minimum: min, maximum: max }));
const flag = z
  .enum(["1", "0", "true", "false"])
  .transform((value) => value === "1" || value === "true")
  .meta(shownAs({ type: "boolean" }));

const taskParams = z.object({ taskID: z.string() });
const missionParams = z.object({ missionID: z.string() });
const squadParams = z.object({ id: z.string() });
const eventQuery = z.object({
  after: z.string().optional().describe("Resume after this event id; 0 replays from the start"),
  follow: flag.optional().describe("1 = stay open after task.settled"),
  format: z.enum(["json"]).optional().describe("json = one page of the log instead of a stream"),
  limit: count(1, 1000).optional().describe("Page size with format=json"),
});

export const createRoutes = (limits: Limits = defaultLimits) => {
  const bodies = task.createRequests(limits);
  const missions = mission.createMissionRequests(limits);
  const missionList = {
    method: "GET",
    summary: "List Missions with the numbers of their Tasks, last update first",
    directory: "filter",
    query: z.object({
      search: z.string().min(1).max(200).optional().describe("Title, Mission id or directory"),
      archived: flag.optional().describe("true = archived ones too"),
      limit: count(1, 200).optional().describe("Default 50"),
      cursorUpdated: z.string().optional(),
      cursorSessionID: z.string().optional(),
    }),
    answers: [json(z.array(mission.missionSummary), 'Missions; the next page also in `Link: …; rel="next"`')],
  } as const;
  return {
    "task.create": {
      method: "POST",
      path: "/task",
      summary: "Create a Task",
      directory: "required",
      body: bodies.taskCreate,
      bodySize: "large",
      answers: [json(accepted.taskCreated, "Accepted; the Task runs by itself from here", 202)],
    },
    "task.list": {
      method: "GET",
      path: "/tasks",
      summary: "List a project's Tasks, last update first",
      directory: "required",
      query: z.object({
        status: task.activity.optional(),
        lifecycleStatus: task.lifecycleStatus.optional(),
        productPillar: task.productPillar.optional(),
        missionID: mission.missionID.optional(),
        promptProfile: z.string().min(1).max(64).optional(),
        priority: task.priority.optional(),
        search: z.string().min(1).max(200).optional(),
        archived: flag.optional().describe("true = archived ones too"),
        limit: count(1, 200).optional().describe("Default 50"),
        cursorUpdated: z.string().optional(),
        cursorTaskID: z.string().optional(),
      }),
      queryPrefix: "metadata.",
      answers: [json(z.array(status.taskSummary), 'Summaries; the next page also in `Link: …; rel="next"`')],
    },
    "task.get": {
      method: "GET",
      path: "/task/{taskID}",
      summary: "The status record with the request",
      directory: "accepted",
      params: taskParams,
      answers: [json(status.taskDetail, "The Task")],
    },
    "task.update": {
      method: "PATCH",
      path: "/task/{taskID}",
      summary: "Change title, priority, archived flag or budget",
      directory: "required",
      params: taskParams,
      body: bodies.taskPatch,
      answers: [json(status.taskStatus, "The status record after the change")],
    },
    "task.delete": {
      method: "DELETE",
      path: "/task/{taskID}",
      summary: "Delete a settled Task with its history and workspace",
      directory: "required",
      params: taskParams,
      body: bodies.taskDelete,
      bodyOptional: true,
      answers: [json(accepted.taskDeleted, "Deleted")],
    },
    "task.status": {
      method: "GET",
      path: "/task/{taskID}/status",
      summary: "The status record",
      directory: "accepted",
      params: taskParams,
      answers: [json(status.taskStatus, "The status record")],
    },
    "task.board": {
      method: "GET",
      path: "/task/{taskID}/board",
      summary: "Everything a front end shows first; then the stream from lastEventID",
      directory: "accepted",
      params: taskParams,
      answers: [json(board.board, "The board"), { status: 304, description: "Unchanged since If-None-Match" }],
    },
    "task.messages": {
      method: "GET",
      path: "/task/{taskID}/messages",
      summary: "The conversation",
      directory: "accepted",
      params: taskParams,
      query: z.object({ after: count(0, Number.MAX_SAFE_INTEGER).optional(), limit: count(1, 1000).optional() }),
      answers: [json(board.messagePage, "Messages in order, by eventID")],
    },
    "task.diff": {
      method: "GET",
      path: "/task/{taskID}/diff",
      summary: "What the Task changed, as a unified diff",
      directory: "accepted",
      params: taskParams,
      query: z
        .object({
          from: z.string().min(1).max(64).optional().describe("With `to`: between these two commits of the Task"),
          to: z.string().min(1).max(64).optional(),
        })
        .refine(({ from, to }) => (from === undefined) === (to === undefined), {
          error: "Expected from and to together, got one of them",
        }),
      answers: [{ status: 200, description: "The diff", type: "text/x-diff" }],
    },
    "task.checkLog": {
      method: "GET",
      path: "/task/{taskID}/checks/{checkID}/log",
      summary: "The output of the check's last run",
      directory: "accepted",
      params: z.object({ taskID: z.string(), checkID: z.string() }),
      answers: [{ status: 200, description: "Standard output and error", type: "text/plain" }],
    },
    "task.artifact": {
      method: "GET",
      path: "/task/{taskID}/artifacts/{artifactID}",
      summary: "A file that was kept beside the result; the board lists them",
      directory: "accepted",
      params: z.object({ taskID: z.string(), artifactID: z.string() }),
      answers: [{ status: 200, description: "Its bytes, to be saved", type: "application/octet-stream" }],
    },
    "task.preview": {
      method: "GET",
      path: "/task/{taskID}/preview",
      summary: "Whether a picture of what the Task has made can be taken, and those that were",
      directory: "required",
      params: taskParams,
      answers: [json(board.preview, "The preview")],
    },
    "task.capture": {
      method: "POST",
      path: "/task/{taskID}/preview/capture",
      summary: "Take a picture of a page that the Task's server serves",
      directory: "required",
      params: taskParams,
      body: bodies.taskCapture,
      bodyOptional: true,
      answers: [json(accepted.captureAccepted, "Taken; an artifact")],
    },
    "task.events": {
      method: "GET",
      path: "/task/{taskID}/events",
      summary: "The Task's events, live (SSE), or a page of its log",
      directory: "accepted",
      params: taskParams,
      query: eventQuery,
      answers: [
        { status: 200, description: "Frames", type: "text/event-stream", schema: streamFrame },
        json(eventPage, "With format=json"),
        { status: 204, description: "Resumed at the end of a settled Task: nothing more comes" },
      ],
    },
    "task.message": {
      method: "POST",
      path: "/task/{taskID}/message",
      summary: "Add an instruction; a settled Task becomes active again",
      directory: "required",
      params: taskParams,
      body: bodies.taskMessage,
      bodySize: "large",
      answers: [json(accepted.messageAccepted, "Accepted", 202)],
    },
    "task.cancel": {
      method: "POST",
      path: "/task/{taskID}/cancel",
      summary: "Cancel a Task",
      directory: "required",
      params: taskParams,
      body: bodies.taskCancel,
      bodyOptional: true,
      answers: [
        json(accepted.cancelAccepted, "Cancelled"),
        json(accepted.cancelAccepted, "Accepted; active until its processes are dead", 202),
      ],
    },
    "task.answer": {
      method: "POST",
      path: "/task/{taskID}/pending/{askID}",
      summary: "Answer what a Task waits for",
      directory: "required",
      params: z.object({ taskID: z.string(), askID: z.string() }),
      body: bodies.taskAnswer,
      answers: [json(accepted.answerAccepted, "This answer stands; the Task goes on")],
    },
    "task.interrupt": {
      method: "POST",
      path: "/task/{taskID}/session/{sessionID}/interrupt",
      summary: "Stop one delegated session; the Task goes on",
      directory: "required",
      params: z.object({ taskID: z.string(), sessionID: z.string() }),
      body: bodies.sessionInterrupt,
      bodyOptional: true,
      answers: [json(accepted.interruptAccepted, "Accepted; its call answers when it has stopped", 202)],
    },
    "task.projectArchive": {
      method: "GET",
      path: "/task/{taskID}/project-archive",
      summary: "The tracked files of the Task's tree and its execution flow, as a ZIP",
      directory: "required",
      params: taskParams,
      answers: [{ status: 200, description: "The archive", type: "application/zip" }],
    },
    "project.list": {
      method: "GET",
      path: "/projects",
      summary: "The directories that have Tasks, last update first",
      directory: "accepted",
      query: z.object({ limit: count(1, 200).optional().describe("Default 50") }),
      answers: [json(z.array(board.project), "Projects")],
    },
    "mission.wake": {
      method: "POST",
      path: "/mission/wake",
      summary: "Begin a Mission, or give one more direction",
      directory: "required",
      body: missions.missionWake,
      bodySize: "large",
      answers: [json(mission.missionWoken, "Awake; it works by itself from here")],
    },
    "mission.list": { ...missionList, path: "/missions" },
    "mission.all": { ...missionList, path: "/mission" },
    "mission.status": {
      method: "GET",
      path: "/mission/{missionID}/status",
      summary: "The Mission's Tasks, plan and use together",
      directory: "required",
      params: missionParams,
      answers: [json(mission.missionStatus, "The status record")],
    },
    "mission.events": {
      method: "GET",
      path: "/mission/{missionID}/events",
      summary: "The Mission's own events and those of its Tasks, live (SSE), or a page of them",
      directory: "optional",
      params: missionParams,
      query: eventQuery.omit({ follow: true }),
      answers: [
        { status: 200, description: "Frames", type: "text/event-stream", schema: streamFrame },
        json(eventPage, "With format=json"),
      ],
    },
    "mission.messages": {
      method: "GET",
      path: "/mission/{missionID}/messages",
      summary: "The conversation with the Mission's agent",
      directory: "optional",
      params: missionParams,
      query: z.object({ after: count(0, Number.MAX_SAFE_INTEGER).optional(), limit: count(1, 1000).optional() }),
      answers: [json(board.messagePage, "Messages in order, by eventID")],
    },
    "mission.rename": {
      method: "PATCH",
      path: "/mission/{missionID}/title",
      summary: "Rename a Mission",
      directory: "optional",
      params: missionParams,
      body: missions.missionTitle,
      answers: [json(mission.missionSummary, "The list element after the change")],
    },
    "mission.archive": {
      method: "PATCH",
      path: "/mission/{missionID}/archive",
      summary: "Put a Mission out of the list, or back; a wake puts it back too",
      directory: "optional",
      params: missionParams,
      body: missions.missionArchive,
      answers: [json(mission.missionSummary, "The list element after the change")],
    },
    "mission.abort": {
      method: "POST",
      path: "/mission/{missionID}/abort",
      summary: "Stop the Mission's agent; nothing but a wake wakes it again",
      directory: "optional",
      params: missionParams,
      body: missions.missionAbort,
      bodyOptional: true,
      answers: [json(mission.missionAborted, "Stopped; its Tasks go on unless `cascade`")],
    },
    "mission.delete": {
      method: "DELETE",
      path: "/mission/{missionID}",
      summary: "Delete a Mission with its conversation; its Tasks stay",
      directory: "optional",
      params: missionParams,
      query: missions.missionDeleteQuery,
      body: missions.missionDelete,
      bodyOptional: true,
      answers: [json(mission.missionDeleted, "Deleted")],
    },
    "mission.answer": {
      method: "POST",
      path: "/mission/{missionID}/pending/{askID}",
      summary: "Answer what a Mission waits for",
      directory: "optional",
      params: z.object({ missionID: z.string(), askID: z.string() }),
      body: bodies.taskAnswer,
      answers: [json(mission.missionAnswered, "This answer stands; the Mission goes on")],
    },
    "mission.projectArchive": {
      method: "GET",
      path: "/mission/{missionID}/project-archive",
      summary: "The tracked files of the Mission's project and the flow of it and its Tasks, as a ZIP",
      directory: "required",
      params: missionParams,
      answers: [{ status: 200, description: "The archive", type: "application/zip" }],
    },
    "event.stream": {
      method: "GET",
      path: "/events",
      summary: "The events of all Tasks and Missions, of one directory if given",
      directory: "filter",
      query: eventQuery,
      answers: [
        { status: 200, description: "Frames", type: "text/event-stream", schema: streamFrame },
        json(eventPage, "With format=json"),
      ],
    },
    "squad.list": {
      method: "GET",
      path: "/squads",
      summary: "The squads that a project sees, and what is wrong with others",
      directory: "optional",
      answers: [json(squad.squadCatalog, "The catalog")],
    },
    "squad.recommend": {
      method: "GET",
      path: "/squads/recommend",
      summary: "The squads that fully own a phase",
      directory: "optional",
      query: z.object({
        phase: z.string().min(1).max(129).describe("Words, or domain/phase"),
        productPillar: task.productPillar.optional().describe("Default code"),
      }),
      answers: [json(squad.squadRecommendation, "Owners first to last, with reasons")],
    },
    "squad.get": {
      method: "GET",
      path: "/squad/{id}",
      summary: "A squad with its texts, as the project sees it",
      directory: "optional",
      params: squadParams,
      answers: [json(squad.squadDetail, "The squad")],
    },
    "squad.validate": {
      method: "POST",
      path: "/squad/validate",
      summary: "Say what is wrong with a package",
      directory: "optional",
      body: squad.squadValidate,
      bodySize: "large",
      answers: [json(squad.squadValidation, "Whether it could be installed")],
    },
    "squad.install": {
      method: "POST",
      path: "/squad/install",
      summary: "Install or upgrade a package, whole or not at all",
      directory: "optional",
      body: squad.squadInstall,
      bodySize: "large",
      answers: [json(squad.squadInstalled, "It stands")],
    },
    "squad.remove": {
      method: "DELETE",
      path: "/squad/{id}",
      summary: "Uninstall a squad; Tasks that began with it keep it",
      directory: "optional",
      params: squadParams,
      query: squad.squadRemove,
      answers: [json(squad.squadRemoved, "Removed")],
    },
    "service.health": {
      method: "GET",
      path: "/health",
      summary: "Whether the service works, and with what",
      directory: "accepted",
      answers: [
        json(
          z
            .object({
              healthy: z.boolean(),
              version: z.string(),
              sandbox: z.object({ tier: z.number().int(), name: z.string(), network: z.boolean() }),
              model: z.object({ ref: z.string(), source: z.string() }),
              store: z.object({ kind: z.enum(["sqlite", "postgres"]), ok: z.boolean() }),
            })
            .meta({ id: "Health" }),
          "Health",
        ),
      ],
    },
    "service.models": {
      method: "GET",
      path: "/models",
      summary: "The model in use and why, and the providers with where their keys come from",
      directory: "accepted",
      answers: [
        json(
          z
            .object({
              active: z.object({ ref: z.string(), source: z.string() }),
              failover: z.array(z.string()).describe("Models that are asked when another cannot answer, in order"),
              providers: z.array(
                z.object({
                  id: z.string(),
                  kind: z.string(),
                  name: z.string(),
                  configured: z.boolean().describe("Has what it needs to be called"),
                  keySource: z.string().nullable().describe("The variable's name or the file; never the key"),
                  baseURL: z.string().nullable(),
                  models: z.array(z.string()).describe("Names known here; others may work"),
                  breaker: z
                    .object({
                      state: z.enum(["closed", "open", "half-open"]),
                      failures: z.number().int().describe("In a row, over all Tasks"),
                      retryAt: z.iso.datetime().nullable(),
                    })
                    .describe("open: after failures in a row the provider is left alone for a while"),
                }),
              ),
            })
            .meta({ id: "Models" }),
          "Models",
        ),
      ],
    },
    "service.metrics": {
      method: "GET",
      path: "/metrics",
      summary: "Prometheus metrics",
      directory: "accepted",
      answers: [{ status: 200, description: "Text exposition format", type: "text/plain" }],
    },
    "service.openapi": {
      method: "GET",
      path: "/openapi.json",
      summary: "This interface as OpenAPI 3.1",
      directory: "accepted",
      answers: [json(z.object({ openapi: z.string() }), "The document")],
    },
    "service.doc": {
      method: "GET",
      path: "/doc",
      summary: "The reference page",
      directory: "accepted",
      answers: [{ status: 200, description: "The page", type: "text/html" }],
    },
  } as const satisfies Record<string, Route>;
};

export type Routes = ReturnType<typeof createRoutes>;
export type OperationID = keyof Routes;
