import type { ErrorCode } from "../../error.ts";
import type { ErrorBody } from "../../protocol/error.ts";

/** Words a refusal so that a model can act on it: the code, what was expected and what came, and what to do next. */

/** The next step for each code that a tool can meet; codes without one have only their message. */
const remedies: Partial<Record<ErrorCode, string>> = {
  invalid_request: "Correct the arguments that are named and call the tool again.",
  directory_required:
    "Pass the project's absolute path as `directory`. It is a path on the machine that the service runs on.",
  directory_invalid:
    "Pass the absolute path of an existing directory on the machine that the service runs on, as `directory`.",
  directory_not_allowed:
    "Choose the directory of a project. Folders of the system, a whole home folder and folders outside of what the operator allows are not open to Tasks; ask your user if it has to be this one.",
  repository_not_allowed: "Do as the message says if the repository is your user's; ask them where you are not sure.",
  repository_unsupported: "Tell your user which file of the repository is not what it should be.",
  directory_ambiguous:
    "Ask your user to name one of these nodes in this connection's header x-service-node, or pass `repository`.",
  directory_mismatch: "Pass the `directory` that it was begun with, and keep it with the id.",
  task_not_found: "Use the taskID that task_create answered, whole. If it is lost, ask your user.",
  mission_not_found: "Use the missionID that mission_wake answered, with the same `directory`.",
  task_settled: "It has ended already: read how with task_status. To change what it made, send a task_message.",
  task_busy: "Wait until it has ended (task_status with waitSeconds), or send the message with another onBusy.",
  idempotency_key_reused: "Use a new idempotencyKey for another request; the same one only to repeat a request.",
  attachment_too_large: "Leave the file out, and name its path in the text if it is in the project.",
  not_a_git_worktree: "Choose a directory inside of a Git repository.",
  model_not_configured:
    "Leave `model` out, to use the one that the operator chose. Otherwise ask your user to set one up: `sortie model detect` says how.",
  model_not_found: "Leave `model` out, to use the one that the operator chose, or correct its name.",
  squad_not_available: "Leave the squad out, to use the default one, or ask your user to install it.",
  queue_full: "Do not create more Tasks until others have ended.",
  disk_low: "Tell your user that the disk of the service is nearly full.",
  internal: "Tell your user; the service's log has the cause under this requestID.",
};

export const refusalText = (
  { code, message, retryable, issues, requestID }: ErrorBody,
  retryAfter: string | undefined,
): string => {
  const others = (issues ?? []).slice(1).map((issue) => `- ${issue.path}: ${issue.message}`);
  const again = retryable ? `Call the tool again in ${retryAfter ?? "2"} s, with the same arguments.` : undefined;
  const todo = [remedies[code], again].filter((words) => words !== undefined).join(" ");
  return [
    `Refused, nothing was changed (${code}): ${message}`,
    ...others,
    ...(todo === "" ? [] : [`What to do: ${todo}`]),
    ...(code === "internal" ? [`requestID: ${requestID}`] : []),
  ].join("\n");
};
