import { resolve } from "node:path";
import { createServiceClient } from "../client/client.ts";
import { messageOf } from "../error.ts";
import type { TaskStatus } from "../protocol/task/status.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { clean } from "./terminal/screen.ts";

/** Speaking with a running service: the connection, refusals as sentences, ids by prefix, the end as an exit code. */

export type Target = { url: string; directory: string; username: string; password: string | undefined };
export type Service = ReturnType<typeof createServiceClient>;

export const connect = ({ url, directory, username, password }: Target): Service => {
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
    throw new Exit(exit.usage, `Expected --url to be an http address such as http://127.0.0.1:7878, got "${url}".`);
  return createServiceClient({
    baseUrl: url,
    directory: resolve(directory),
    username,
    ...(password === undefined ? {} : { password }),
  });
};

type Result = { data?: unknown; error?: unknown; response?: Response | undefined };

/** The answer, or an Exit that says why there is none and what to do. */
export const need = <R extends Result>(result: R, url: string): NonNullable<R["data"]> => {
  const { data, error } = result;
  if (error !== undefined || data === undefined || data === null) throw refusal(result, url);
  return data;
};

type Body = { message: string; code: string; issues: { path: string; message: string }[] };

const bodyOf = (error: unknown): Partial<Body> => (typeof error === "object" && error !== null ? error : {});

const refusal = ({ error, response }: Result, url: string): Exit => {
  if (response === undefined)
    return new Exit(
      exit.unreachable,
      `No service answers at ${url} (${clean(reasonOf(error))}). Start one with \`sortie serve\`, in a clone \`npm start\`, or give --url.`,
    );
  const { message = `status ${response.status}`, code, issues = [] } = bodyOf(error);
  const text = clean([message, ...issues.map((issue) => `  ${issue.path}: ${issue.message}`)].join("\n"));
  if (response.status === 401)
    return new Exit(
      exit.credentials,
      `The service at ${url} refused the credentials. Set SERVICE_SERVER_PASSWORD (and SERVICE_SERVER_USERNAME) to its own.`,
    );
  if (code === "model_not_configured" || code === "model_not_found") return new Exit(exit.needsModel, text);
  return new Exit(response.status >= 400 && response.status < 409 ? exit.usage : exit.failed, text);
};

/** fetch hides the reason (ECONNREFUSED) in the cause of "fetch failed". */
const reasonOf = (error: unknown): string => {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return typeof code === "string" ? code : messageOf(cause ?? error);
};

/** How a settled Task ends the command. */
export const exitOf = (task: Pick<TaskStatus, "lifecycleStatus" | "error" | "errorInfo">): number => {
  switch (task.lifecycleStatus) {
    case "active":
    case "completed":
      return exit.completed;
    case "cancelled":
      return exit.cancelled;
    case "failed":
      if (task.errorInfo?.code === "checks_failed") return exit.checksFailed;
      if (task.errorInfo?.code === "needs_model") return exit.needsModel;
      return task.errorInfo?.code === "budget_reached" && task.error?.includes("(maxMinutes") === true
        ? exit.timeLimit
        : exit.failed;
  }
};

/** The same for a Mission, whose id its caller chose: a whole id is never taken for the beginning of another. */
export const resolveMission = async (service: Service, { url, directory }: Target, given: string): Promise<string> => {
  const missions = need(await service.mission.list({ query: { archived: true, limit: 200 } }), url);
  if (missions.some(({ missionID }) => missionID === given)) return given;
  const folder = resolve(directory);
  if (given === "@last") {
    const newest = missions.toSorted((one, other) => (one.createdAt < other.createdAt ? 1 : -1))[0];
    if (newest === undefined) throw new Exit(exit.usage, `There is no Mission yet in ${folder}.`);
    return newest.missionID;
  }
  const matching = missions.flatMap(({ missionID }) => (missionID.startsWith(given) ? [missionID] : []));
  if (matching.length > 1)
    throw new Exit(
      exit.usage,
      `"${given}" begins ${matching.length} Missions: ${matching.slice(0, 5).join(", ")}. Give more of the id.`,
    );
  // One that is not listed may still be there, among older ones.
  return matching[0] ?? given;
};

/** A whole id, its unique beginning among the project's Tasks, or `@last` for the newest of them. */
export const resolveID = async (service: Service, { url, directory }: Target, given: string): Promise<string> => {
  if (/^task_[0-9a-z]{26}$/.test(given)) return given;
  const tasks = need(await service.task.list({ query: { archived: true, limit: 200 } }), url);
  if (given === "@last") {
    const newest = tasks.toSorted((one, other) => (one.createdAt < other.createdAt ? 1 : -1))[0];
    if (newest === undefined) throw new Exit(exit.usage, `There is no Task yet in ${resolve(directory)}.`);
    return newest.taskID;
  }
  const prefix = given.startsWith("task_") ? given : `task_${given}`;
  const matching = tasks.filter(({ taskID }) => taskID.startsWith(prefix));
  const [first] = matching;
  if (first !== undefined && matching.length === 1) return first.taskID;
  throw new Exit(
    exit.usage,
    first === undefined
      ? `Expected a Task of ${resolve(directory)} beginning with "${given}", got none among its latest ${tasks.length}.`
      : `"${given}" begins ${matching.length} Tasks: ${matching
          .slice(0, 5)
          .map(({ taskID }) => taskID)
          .join(", ")}. Give more of the id.`,
  );
};
