import type { TaskState } from "./task.ts";

/**
 * What a Task's fold and a Mission's have in common: agents that talk, call, ask and wait. Whatever moves a
 * conversation asks for no more than this.
 */
export type StreamState = Pick<
  TaskState,
  | "version"
  | "position"
  | "updatedAt"
  | "model"
  | "wanted"
  | "tried"
  | "budget"
  | "sessions"
  | "crashes"
  | "stopped"
  | "sandbox"
  | "input"
  | "queued"
  | "reply"
  | "retry"
  | "deferred"
  | "quotaSince"
  | "open"
  | "asks"
  | "asked"
  | "steps"
  | "messages"
  | "usage"
  | "time"
  | "warned"
  | "circle"
>;
