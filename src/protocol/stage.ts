import type { Frame } from "./event/frame.ts";
import { serviceSourceOf } from "./event/source.ts";

/** The five stages that a Task passes through. */

export const stages = ["queue", "work", "checks", "review", "land"] as const;
export type Stage = (typeof stages)[number];

/**
 * The stage that an event begins; undefined: none. `reviewers`: sessions that only review; new ones are added to it.
 */
export const beginsStage = (frame: Frame, at: Stage, reviewers: Set<string>): Stage | undefined => {
  switch (frame.type) {
    case "task.created":
    case "task.deferred":
    case "run.paused":
      return "queue";
    case "run.started":
    case "run.resumed":
      return at === "queue" ? "work" : undefined;
    case "message.received":
      if (frame.data.disposition === "restarted" && serviceSourceOf(frame.data) === undefined) return "queue";
      return serviceSourceOf(frame.data) === undefined ? undefined : "work";
    case "reply.finished":
    case "tool.started":
      return reviewers.has(frame.data.sessionID) ? "review" : "work";
    case "check.started":
      return frame.data.on === "work" ? "checks" : undefined;
    case "session.started":
      if (frame.data.purpose !== "review") return "work";
      reviewers.add(frame.data.sessionID);
      return "review";
    case "landing.conflicted":
    case "landing.withdrawn":
      return "work";
    case "landing.started":
    case "landing.finished":
      return "land";
    default:
      return undefined;
  }
};
