import { z } from "zod";
import { isID } from "../../id.ts";
import { lifecycleStatus } from "../../protocol/field.ts";
import { messageAccepted } from "../../protocol/task/accepted.ts";
import { loadText } from "../../store/blob/text.ts";
import { checkAttachments } from "../request/attachment.ts";
import { taskNotFound } from "../response/response.ts";
import { mcpTaskStatus, mcpTaskStatusOf } from "./status.ts";
import {
  directory,
  idempotencyKey,
  next,
  onceOf,
  placeOf,
  shownRepository,
  source,
  type Tool,
  tool,
  type ToolDeps,
  waitUntilIdle,
  waitSeconds,
  describeFields,
} from "./tool.ts";

/** The MCP tools for Tasks: create one, see its status, send it a message, cancel it. */

const taskID = z.string().describe("As task_create answered it: task_…");

const known = (id: string): string => {
  if (!isID("task", id)) throw taskNotFound();
  return id;
};

export const createTaskTools = ({ tasks, store, routes, limits, runOnce, user, realPath }: ToolDeps): Tool[] => {
  const lastWords = async (id: string): Promise<string | undefined> => {
    const [event] = await store.read(id, { types: ["task.settled"], last: true, limit: 1 });
    return event?.type === "task.settled" ? loadText(store.blobs, event.data.summary) : undefined;
  };

  const createBody = routes["task.create"].body.omit({ source: true });
  const create = describeFields(createBody, {
    request:
      "What is to be achieved, with every constraint and how to tell that it is reached. The Task sees the project, not your conversation: name files, versions and decisions",
    productPillar: "code: the result is a change of the project. work: it is a text, a table, a report",
    title: "A few words for lists. Default: the request's first line",
    promptProfile: "Id of a squad, if your user named one",
    attachments: "Files that are not in the project, base64",
    checks:
      "What has to pass before anything lands: shell commands, run in the project's folder (exit 0 passes), or objects, e.g. [\"npm test\"]. Absent: the project's own",
    metadata: "JSON of your own, kept with the Task",
    model: "provider/model, if your user named one",
    effort: "How much its models reason, if your user said so",
    outputSchema: "JSON Schema of the output that you want",
    budget: "Caps; the Task ends when one is reached",
    isolation: "worktree (default in Git): apart from the user's files. directory: in them",
    landing: "commit: onto the project's branch. branch: left on one of its own",
  }).extend({ directory, idempotencyKey });

  const messageBody = describeFields(routes["task.message"].body.omit({ source: true }), {
    text: "What to do differently or in addition, or the answer to its question",
    onBusy:
      "While it works. auto (default): read with its next step. queue: when it has finished. interrupt: what runs now is cut. reject: refuse",
  });
  const cancelBody = describeFields(routes["task.cancel"].body.omit({ surface: true }), {
    reason: "Why, for people who read the Task later",
    mode: "stop (default): at once. wrap_up: after what runs now, with a last word",
  });
  return [
    tool({
      name: "task_create",
      title: "Hand over a Task",
      description:
        "Hands one piece of work in a Git project to Sortie and returns at once. Agents carry it out apart from the user's files, the service itself runs the checks, and only what passed them lands, as one commit on the project's current branch. The user's uncommitted work is seen and kept.\n" +
        "Use it for work with a result that can be checked: a feature, a fix, a refactoring, an upgrade, a report. For a goal that takes several such pieces use mission_wake. Do not change the same files yourself meanwhile.\n" +
        "Answers a taskID; follow it with task_status.",
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
      input: create,
      // MCP callers wait with task_status instead of a callback.
      shown: create.omit({ callbackURL: true, limits: true }).extend({
        repository: shownRepository,
        metadata: z.record(z.string(), z.unknown()).optional().describe("JSON of your own"),
        outputSchema: z.record(z.string(), z.unknown()).optional().describe("JSON Schema of the output that you want"),
      }),
      output: z.object({
        taskID: z.string(),
        directory: z.string(),
        squad: z.string(),
        repeated: z.boolean().describe("true: made by an earlier call with this idempotencyKey"),
        next,
      }),
      async run({ directory: given, idempotencyKey: key, ...rest }, caller) {
        caller.countCreate();
        const place = rest.repository === undefined ? placeOf(given, caller) : "";
        const body = { ...rest, source };
        await checkAttachments(body.attachments, limits, "arguments.attachments");
        const once = await onceOf({ user, realPath }, "task_create", key, place, body);
        const { body: made, replayed } = await runOnce(once, () => tasks.create(place, body, once));
        return {
          taskID: made.taskID,
          directory: made.directory,
          squad: made.squad.id,
          repeated: replayed,
          next: "It works on its own. Do something else, or call task_status with waitSeconds 30 until it has ended.",
        };
      },
    }),

    tool({
      name: "task_status",
      title: "Get a Task's status",
      description:
        "A Task's status: state and phase, the service's own check results, its goals, what it waits for, why it failed and what helps, its last message, the commit that landed; and in `next` what to do now.\n" +
        "With waitSeconds it answers as soon as the Task ends or needs an answer; this is better than polling. Trust `state` and `checks`: they are what the service saw, `summary` is what the agent says.",
      annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
      input: z.strictObject({ taskID, waitSeconds }),
      output: mcpTaskStatus,
      async run({ taskID: id, waitSeconds: seconds }, { signal }) {
        const status = await waitUntilIdle(
          () => tasks.status(known(id)),
          ({ lifecycleStatus: state, pending }) => state !== "active" || pending.length > 0,
          seconds,
          signal,
        );
        const words = status.lifecycleStatus === "active" ? undefined : await lastWords(id);
        return mcpTaskStatusOf(status, words, new Date());
      },
    }),

    tool({
      name: "task_message",
      title: "Send a message to a Task",
      description:
        "Gives a Task further instructions, or answers its question. While it works, its agent reads the message with its next step. A Task that has ended continues with all it knows: use this, not a new Task, to correct or extend a result.\n" +
        "A permission that it asks for is not given by a message; only a person can, see task_status.",
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
      input: messageBody.extend({ taskID, directory, idempotencyKey }),
      output: z.object({
        taskID: z.string(),
        disposition: z
          .enum(["steered", "queued", "interrupted", "restarted"])
          .describe("steered: read with its next step. queued: read later. restarted: it had ended and continues"),
        readers: messageAccepted.shape.readers,
        repeated: z.boolean(),
        next,
      }),
      async run({ taskID: id, directory: given, idempotencyKey: key, ...rest }, caller) {
        const place = placeOf(given, caller);
        const body = { ...rest, source };
        await checkAttachments(body.attachments, limits, "arguments.attachments");
        const once = await onceOf({ user, realPath }, `task_message/${known(id)}`, key, place, body);
        const { body: said, replayed } = await runOnce(once, () => tasks.message(place, id, body, once));
        return {
          taskID: id,
          disposition: said.disposition,
          readers: said.readers,
          repeated: replayed,
          next: "Call task_status with waitSeconds to see what comes of it.",
        };
      },
    }),

    tool({
      name: "task_cancel",
      title: "Cancel a Task",
      description:
        "Stops a Task for good: its processes end, nothing lands, what it made stays on its branch. Only if its work is not wanted any more; to change its course use task_message.\n" +
        "Cancelling again does nothing. A Task that has completed or failed, or whose change is just landing, is refused (task_settled).",
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
      input: cancelBody.extend({ taskID, directory }),
      output: z.object({ taskID: z.string(), state: lifecycleStatus, next }),
      async run({ taskID: id, directory: given, ...rest }, caller) {
        const body = { ...rest, surface: source };
        const { body: done } = await tasks.cancel(placeOf(given, caller), known(id), body);
        return {
          taskID: id,
          state: done.lifecycleStatus,
          next:
            done.lifecycleStatus === "active"
              ? "It is being stopped. task_status with waitSeconds tells when it is over."
              : "It is over.",
        };
      },
    }),
  ];
};
