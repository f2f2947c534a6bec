import { expectData, connect, type Target } from "../connection.ts";
import { resolveID } from "../resolve-id.ts";
import { Exit, exit } from "../terminal/exit.ts";
import type { Screen } from "../terminal/screen.ts";
import { line, table } from "../terminal/format.ts";
import { bodyOf } from "./prompt.ts";
import { writable } from "./action.ts";

/** `sortie task pending` and `sortie task answer`: lists open asks and answers them. */

type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined };

/** The asks of one Task, or of all Tasks of the project. */
export const pending = async (given: string | undefined, { target, screen, emit }: Context) => {
  const service = connect(target);
  const tasks =
    given === undefined
      ? expectData(await service.task.list({ query: { status: "running", limit: 200 } }), target.url)
      : [
          expectData(
            await service.task.status({ path: { taskID: await resolveID(service, target, given) } }),
            target.url,
          ),
        ];
  const asks = tasks.flatMap(({ taskID, pending: waiting }) => waiting.map((ask) => ({ taskID, ...ask })));
  if (emit !== undefined) for (const ask of asks) emit(ask);
  else if (asks.length === 0) screen.say("Nothing waits for an answer.");
  else
    screen.say(
      table([
        ["TASK", "ASK", "UNTIL (UTC)", "QUESTION"],
        ...asks.map(({ taskID, id, expiresAt, prompt, options }) => [
          taskID,
          id,
          expiresAt.slice(11, 19),
          `${line(prompt, 300)} (${options.length === 0 ? "in your words" : line(options.join(", "), 200)})`,
        ]),
      ]),
    );
  return exit.completed;
};

export const answer = async (
  given: string,
  text: string | undefined,
  options: { ask?: string; allow?: true; deny?: true },
  { target, screen, emit }: Context,
) => {
  const said = options.allow === true ? "allow" : options.deny === true ? "deny" : text;
  if (said === undefined || [options.allow, options.deny, text].filter((one) => one !== undefined).length > 1)
    throw new Exit(exit.usage, "Expected one of an answer, --allow and --deny.");
  const { service, taskID } = await writable(target, given);
  const { pending: waiting } = expectData(await service.task.status({ path: { taskID } }), target.url);
  const asks = waiting.filter(({ id }) => options.ask === undefined || id === options.ask);
  const [ask] = asks;
  if (ask === undefined)
    throw new Exit(exit.usage, `${taskID} waits for no answer${options.ask === undefined ? "" : ` of this id`}.`);
  if (asks.length > 1)
    throw new Exit(
      exit.usage,
      `${taskID} waits for ${asks.length} answers; say which with --ask: ${asks.map(({ id, prompt }) => `${id} (${line(prompt, 60)})`).join(", ")}.`,
    );
  const body = bodyOf(ask, said);
  if (body === undefined)
    throw new Exit(exit.usage, `Expected --allow or --deny for "${line(ask.prompt)}", got "${line(said)}".`);
  const accepted = expectData(await service.task.answer({ path: { taskID, askID: ask.id }, body }), target.url);
  if (emit !== undefined) emit(accepted);
  else
    screen.say(
      `${taskID}: ${line("decision" in body ? body.decision : body.answer)}. Follow it with \`sortie task logs -f ${taskID}\`.`,
    );
  return exit.completed;
};
