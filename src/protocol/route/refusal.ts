import type { ErrorCode } from "../../error.ts";
import type { Route } from "./route.ts";

/** The error codes that an operation can answer with. test/harness/answers.ts checks that no other code occurs. */
export const refusalsOf = (route: Route): readonly ErrorCode[] => {
  const has = (parameter: string) => route.path.includes(`{${parameter}}`);
  const required = route.directory === "required";
  const streams = route.answers.some(({ type }) => type === "text/event-stream");
  const archives = route.answers.some(({ type }) => type === "application/zip");
  return [
    ...always,
    // A directory that is only accepted is ignored.
    ...(route.directory === "accepted" ? [] : inDirectory),
    ...(required ? (["directory_required"] as const) : []),
    ...(has("taskID") ? (["task_not_found"] as const) : []),
    // Without a directory, several Missions may have this id.
    ...(has("missionID") ? (["mission_not_found", "directory_required"] as const) : []),
    ...((has("taskID") && required) || has("missionID") ? (["directory_mismatch"] as const) : []),
    ...(has("webhookID") ? (["webhook_not_found"] as const) : []),
    ...(route.method === "POST" ? keyed : []),
    ...(route.body === undefined ? [] : withBody),
    ...(route.bodySize === "large" ? (["attachment_too_large"] as const) : []),
    ...(streams ? (["invalid_event_id", "events_expired"] as const) : []),
    ...(archives ? (["not_a_git_worktree"] as const) : []),
    ...(route.refuses ?? []),
  ];
};

const always = [
  "invalid_request",
  "unauthorized",
  "origin_not_allowed",
  "host_not_allowed",
  "rate_limited",
  "internal",
  "draining",
  "store_unavailable",
  "disk_low",
  // A node with the role `worker` answers with this on all routes except those about the service itself.
  "node_away",
] as const;

const inDirectory = [
  "directory_invalid",
  "directory_ambiguous",
  "directory_not_allowed",
  "repository_not_allowed",
  "repository_unsupported",
] as const;

const keyed = ["idempotency_key_reused", "idempotency_in_progress"] as const;

const withBody = ["invalid_json", "body_too_large", "unsupported_media_type"] as const;
