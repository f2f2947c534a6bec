import type { TaskStatus } from "../../src/protocol/task/status.ts";
import { at, createTask, expectWhole, logOf, send, statusOf } from "../harness/double/hostile-text.ts";
import { git } from "../harness/project.ts";
import type { Here } from "./scene.ts";

/** What scenes of one Task share: there is one in the project. */

const listed = async ({ url, directory }: Here) =>
  ((await send(url, at("/tasks", directory))).body as unknown as { taskID: string }[])[0]?.taskID;
export const taskIn = async (here: Here): Promise<string> => {
  const taskID = await listed(here);
  if (taskID === undefined) throw new Error("Expected a Task, got none.");
  return taskID;
};
export const create = async (here: Here, body: object): Promise<void> => {
  if ((await listed(here)) === undefined) await createTask(here.url, here.directory, { request: "Do it.", ...body });
};
export const typesOf = async (here: Here) => (await logOf(here.url, await taskIn(here))).map(({ type }) => type);
export const isOver = ({ status }: TaskStatus) => status === "inactive";
export const pictureOf = async (here: Here) => {
  const { lifecycleStatus, attempt, checks, error } = await statusOf(here.url, await taskIn(here));
  if (lifecycleStatus === "completed") expectWhole(here.directory);
  const log = git(here.directory, "log", "--format=%s").split("\n").length;
  return { lifecycleStatus, attempt, error, checks: checks.map(({ name, state }) => `${name} ${state}`), commits: log };
};
