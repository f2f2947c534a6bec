import { z } from "zod";
import * as board from "../task/board.ts";
import { eventPage, streamFrame } from "../event/frame.ts";
import type { MissionRequests } from "../mission/request.ts";
import { emptyBody, priority } from "../field.ts";
import { taskCreated } from "../task/accepted.ts";
import * as mission from "../mission/status.ts";
import { count, eventQuery, flag, json, type Route, unchanged, waitQuery } from "./route.ts";
import type { Requests } from "../task/request.ts";

const params = z.object({ missionID: z.string() });

export const missionRoutes = (bodies: MissionRequests, { taskAnswer }: Requests) => {
  const missionList = {
    method: "GET",
    summary: "List Missions with the numbers of their Tasks, most recently updated first",
    directory: "filter",
    queryPrefix: "metadata.",
    query: z.object({
      search: z.string().min(1).max(200).optional().describe("Title, Mission id or directory"),
      priority: priority.optional(),
      archived: flag.optional().describe("true: include archived ones"),
      limit: count(1, 200).optional().describe("Default 50"),
      cursorUpdated: z.string().optional(),
      cursorSessionID: z.string().optional(),
    }),
    refuses: ["invalid_cursor"],
    answers: [json(z.array(mission.missionSummary), 'Missions; the next page also in `Link: …; rel="next"`')],
  } as const;
  const record = {
    method: "GET",
    params,
    query: waitQuery,
    answers: [json(mission.missionStatus, "The status record, with an ETag"), unchanged],
  } as const;
  return {
    "mission.wake": {
      method: "POST",
      path: "/mission/wake",
      summary: "Start a Mission, or send it instructions",
      directory: "required",
      body: bodies.missionWake,
      bodySize: "large",
      refuses: ["squad_not_available", "model_not_configured", "model_not_found"],
      answers: [json(mission.missionWoken, "Woken; it works on its own from here")],
    },
    "mission.list": { ...missionList, path: "/missions" },
    "mission.all": { ...missionList, path: "/mission" },
    "mission.status": {
      ...record,
      path: "/mission/{missionID}/status",
      summary: "The Mission's Tasks, plan and usage",
      directory: "required",
    },
    "mission.get": {
      ...record,
      path: "/mission/{missionID}",
      summary: "The same, found by its id, with the project that it is in",
      directory: "optional",
    },
    "mission.events": {
      method: "GET",
      path: "/mission/{missionID}/events",
      summary: "The Mission's own events and those of its Tasks, live (SSE), or a page of them",
      directory: "optional",
      params: params,
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
      params: params,
      query: z.object({ after: count(0, Number.MAX_SAFE_INTEGER).optional(), limit: count(1, 1000).optional() }),
      answers: [json(board.messagePage, "Messages in order, by eventID")],
    },
    "mission.plan": {
      method: "POST",
      path: "/mission/{missionID}/plan",
      summary: "Change the plan of a Mission, and approve it with the change",
      directory: "optional",
      params: params,
      body: bodies.missionPlan,
      bodySize: "large",
      refuses: ["plan_changed"],
      answers: [json(mission.missionPlanned, "The plan is as given; the Mission's agent is told what was changed")],
    },
    "mission.rename": {
      method: "PATCH",
      path: "/mission/{missionID}/title",
      summary: "Rename a Mission",
      directory: "optional",
      params: params,
      body: bodies.missionTitle,
      answers: [json(mission.missionSummary, "The list element after the change")],
    },
    "mission.archive": {
      method: "PATCH",
      path: "/mission/{missionID}/archive",
      summary: "Archive a Mission or restore it; a wake also restores it",
      directory: "optional",
      params: params,
      body: bodies.missionArchive,
      answers: [json(mission.missionSummary, "The list element after the change")],
    },
    "mission.abort": {
      method: "POST",
      path: "/mission/{missionID}/abort",
      summary: "Stop the Mission's agent until the next wake",
      directory: "optional",
      params: params,
      body: bodies.missionAbort,
      bodyOptional: true,
      answers: [json(mission.missionAborted, "Stopped; its Tasks continue unless `cascade` is set")],
    },
    "mission.delete": {
      method: "DELETE",
      path: "/mission/{missionID}",
      summary: "Delete a Mission with its conversation; its Tasks stay",
      directory: "optional",
      params: params,
      query: bodies.missionDeleteQuery,
      body: bodies.missionDelete,
      bodyOptional: true,
      answers: [json(mission.missionDeleted, "Deleted")],
    },
    "mission.answer": {
      method: "POST",
      path: "/mission/{missionID}/pending/{askID}",
      summary: "Answer a Mission's question",
      directory: "optional",
      params: z.object({ missionID: z.string(), askID: z.string() }),
      body: taskAnswer,
      refuses: ["ask_closed"],
      answers: [json(mission.missionAnswered, "Answer recorded; the Mission continues")],
    },
    "mission.merge": {
      method: "POST",
      path: "/mission/{missionID}/merge",
      summary: "Merge the branch on which a Mission landed, in a new Task",
      directory: "optional",
      params: params,
      body: emptyBody,
      bodyOptional: true,
      refuses: ["not_mergeable", "queue_full", "node_away", "squad_not_available", "model_not_configured"],
      answers: [json(taskCreated, "Accepted; the merge runs on its own from here", 202)],
    },
    "mission.projectArchive": {
      method: "GET",
      path: "/mission/{missionID}/project-archive",
      summary: "The tracked files of the Mission's project and the flow of it and its Tasks, as a ZIP",
      directory: "required",
      params: params,
      answers: [{ status: 200, description: "The archive", type: "application/zip" }],
    },
  } as const satisfies Record<string, Route>;
};
