import { commandFor, dataOf } from "../connection.ts";
import { exit } from "../terminal/exit.ts";
import { line } from "../terminal/format.ts";
import { type Context, writable } from "./action.ts";
import { follow } from "./follow.ts";

/** The commands of `sortie task …` for a Task that has ended, and for its name. */

type Following = { follow?: true };

export const retry = async (given: string, options: Following, { target, screen, emit }: Context) => {
  const { service, owned, taskID } = await writable(target, given);
  const accepted = dataOf(await service.task.retry({ path: { taskID }, body: { source: "cli" } }), target.url);
  if (options.follow) return follow({ service, target: owned, taskID, screen, emit });
  if (emit !== undefined) emit(accepted);
  else
    screen.say(
      `${taskID}: attempt ${accepted.attempt}. Follow it with ${commandFor(target, `task logs -f ${taskID}`)}.`,
    );
  return exit.completed;
};

export const revert = async (
  given: string,
  { check, ...options }: Following & { check?: string[] },
  { target, screen, emit }: Context,
) => {
  const { service, owned, taskID } = await writable(target, given);
  const body = { source: "cli", ...(check === undefined ? {} : { checks: check }) };
  const accepted = dataOf(await service.task.revert({ path: { taskID }, body }), target.url);
  const { taskID: revertID } = accepted;
  if (options.follow) return follow({ service, target: owned, taskID: revertID, screen, emit });
  if (emit !== undefined) emit(accepted);
  else screen.say(`${revertID} reverts ${taskID}. Follow it with ${commandFor(target, `task logs -f ${revertID}`)}.`);
  return exit.completed;
};

export const rename = async (given: string, title: string, { target, screen, emit }: Context) => {
  const { service, taskID } = await writable(target, given);
  const renamed = dataOf(await service.task.update({ path: { taskID }, body: { title } }), target.url);
  if (emit !== undefined) emit(renamed);
  else screen.say(`${taskID}: ${line(renamed.title)}`);
  return exit.completed;
};

export const remove = async (given: string, { target, screen, emit }: Context) => {
  const { service, taskID } = await writable(target, given);
  const removed = dataOf(await service.task.delete({ path: { taskID } }), target.url);
  if (emit !== undefined) emit(removed);
  else screen.say(`${taskID}: deleted, with its branch; commits that landed are kept.`);
  return exit.completed;
};
