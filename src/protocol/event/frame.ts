import { z } from "zod";
import { soFar, type SoFar } from "../field.ts";
import { type EventData, eventData, type EventType } from "./event.ts";
import { missionStatus } from "../mission/status.ts";
import { taskStatus } from "../task/status.ts";

/**
 * The frames that event streams send: durable frames for events, live frames that may be dropped, and snapshot and end
 * frames.
 */

/**
 * The fields of a durable frame. `id`: the event's position in the whole log, ascending, with gaps within one stream.
 */
const frame = {
  id: z.number().int(),
  taskID: z.string().optional().describe("Absent for a Mission's own events"),
  missionID: z.string().optional().describe("The Mission it belongs to, or that dispatched the Task"),
  sessionID: z.string().optional(),
  at: z.iso.datetime(),
};

const durable = (Object.keys(eventData) as EventType[]).map((type) =>
  z.object({ ...frame, type: z.literal(type), data: eventData[type] }),
);

/** Live frames have no id, are not in the log, and may be dropped for a slow reader. */
const live = [
  z.object({
    type: z.enum(["message.delta", "reasoning.delta"]),
    taskID: z.string().optional(),
    missionID: z.string().optional(),
    sessionID: z.string(),
    at: z.iso.datetime(),
    data: z.object({ messageID: z.string(), text: z.string() }),
  }),
  z.object({
    type: z.literal("tool.output"),
    taskID: z.string().optional(),
    missionID: z.string().optional(),
    sessionID: z.string().optional(),
    at: z.iso.datetime(),
    data: z.object({ callID: z.string(), text: z.string() }),
  }),
  z.object({
    type: z.literal("now.delta"),
    taskID: z.string().optional(),
    missionID: z.string().optional(),
    sessionID: z.string().optional(),
    at: z.iso.datetime(),
    data: z.object({
      id: z.string().describe("The id of the reply, call or check that is in progress"),
      text: z.string().nullable().describe("Replaces the text of `now`; null: that text still applies"),
      soFar,
    }),
  }),
];

const framing = [
  z.object({ type: z.literal("task.snapshot"), taskID: z.string(), at: z.iso.datetime(), data: taskStatus }),
  z.object({ type: z.literal("mission.snapshot"), missionID: z.string(), at: z.iso.datetime(), data: missionStatus }),
  z.object({
    type: z.literal("stream.end"),
    taskID: z.string().optional(),
    missionID: z.string().optional(),
    at: z.iso.datetime(),
    data: z.object({}),
  }),
];

export const durableFrame = z.union(durable).meta({ id: "TaskEvent" });
export const liveFrame = z.union(live).meta({ id: "LiveEvent" });
export const streamFrame = z.union([durableFrame, liveFrame, ...framing]).meta({ id: "StreamFrame" });
export const eventPage = z
  .object({ events: z.array(durableFrame), nextAfter: z.number().int() })
  .meta({ id: "EventPage" });

/**
 * The stream that a frame belongs to: a Task, with the Mission that dispatched it, if any; or a Mission alone, for its
 * own agent.
 */
type Whose = { taskID?: string; missionID?: string };

export type LiveFrame = Whose &
  (
    | {
        type: "message.delta" | "reasoning.delta";
        sessionID: string;
        at: string;
        data: { messageID: string; text: string };
      }
    | { type: "tool.output"; sessionID?: string; at: string; data: { callID: string; text: string } }
    | { type: "now.delta"; sessionID?: string; at: string; data: { id: string; text: string | null; soFar: SoFar } }
  );

/** Live frames that carry a piece of text. */
export type TextFrame = Exclude<LiveFrame, { type: "now.delta" }>;

/** A durable frame as sent, by event type. */
export type Frame = {
  [K in EventType]: Whose & { id: number; type: K; sessionID?: string; at: string; data: EventData[K] };
}[EventType];
