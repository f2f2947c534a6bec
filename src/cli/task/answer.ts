import { resolve } from "node:path";
import type { Overview } from "../../protocol/overview.ts";
import { commandFor, connect, dataOf, type Service, type Target } from "../connection.ts";
import { resolveID } from "../resolve-id.ts";
import { Exit, exit } from "../terminal/exit.ts";
import type { Screen } from "../terminal/screen.ts";
import { line, table } from "../terminal/format.ts";
import { bodyOf } from "./prompt.ts";
import { writable } from "./action.ts";

/** `sortie task pending` and `sortie task answer`: lists open asks and answers them. */

type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined };

/** Prints the open asks of one Task, or of all Tasks and Missions, those of this project first. */
export const pending = async (given: string | undefined, { target, screen, emit }: Context) => {
  const service = connect(target);
  const asks = given === undefined ? await allAsks(target) : await asksOf(service, target, given);
  if (emit !== undefined) for (const ask of asks) emit(ask);
  else if (asks.length === 0) screen.say("Nothing is waiting for an answer.");
  else
    screen.say(
      table([
        ["TASK OR MISSION", "ASK", "UNTIL (UTC)", "PROJECT", "QUESTION"],
        ...asks.map(({ taskID, missionID, directory, id, expiresAt, prompt, options }) => [
          taskID ?? missionID ?? "",
          id,
          expiresAt === null ? "answered" : expiresAt.slice(5, 16).replace("T", " "),
          line(directory, 60),
          `${line(prompt, 300)} (${options.length === 0 ? "in your words" : line(options.join(", "), 200)})`,
        ]),
      ]),
    );
  if (given !== undefined && emit === undefined) await sayApprovals(service, target, asks, screen);
  return exit.completed;
};

/** Prints what the asks for approval would approve. */
const sayApprovals = async (
  service: Service,
  target: Target,
  asks: readonly Asked[],
  screen: Screen,
): Promise<void> => {
  for (const { of, taskID, would } of asks) {
    if (taskID === null || of === undefined) continue;
    if (of === "plan") {
      const { goals } = dataOf(await service.task.status({ path: { taskID } }), target.url);
      const parts = goals.filter(({ settlement }) => settlement.state !== "dropped");
      for (const { contract } of parts)
        screen.say(
          [
            screen.colors.bold(line(contract.title, 120)),
            `  ${line(contract.objective, 1000)}`,
            ...contract.acceptance.map((words) => `  - ${line(words, 300)}`),
          ].join("\n"),
        );
    } else if (of === "squad")
      screen.say(`Digest ${would?.subject ?? ""}: sortie task artifacts ${taskID} ${would?.artifactID ?? ""}`);
    else
      screen.say(
        `It would land commit ${(would?.commit ?? "").slice(0, 12)} on ${line(would?.branch ?? "", 200)}: sortie task diff ${taskID}`,
      );
  }
};

type Asked = Overview["pending"][number];

const allAsks = async (target: Target): Promise<Asked[]> => {
  const { pending: asks } = dataOf(await connect(target).service.overview(), target.url);
  const here = resolve(target.directory);
  return asks.toSorted((one, other) => Number(other.directory === here) - Number(one.directory === here));
};

const asksOf = async (service: Service, target: Target, given: string): Promise<Asked[]> => {
  const taskID = await resolveID(service, target, given);
  const { title, directory, pending: asks } = dataOf(await service.task.status({ path: { taskID } }), target.url);
  return asks.map((ask) => ({ ...ask, taskID, missionID: null, title, directory }));
};

export const answer = async (
  id: string,
  text: string | undefined,
  options: { ask?: string; allow?: true; deny?: true },
  { target, screen, emit }: Context,
) => {
  const said = options.allow === true ? "allow" : options.deny === true ? "deny" : text;
  const given = [options.allow, options.deny, text].filter((one) => one !== undefined);
  if (said === undefined || (given.length > 1 && (given.length > 2 || options.deny !== true || text === undefined)))
    throw new Exit(exit.usage, "Expected an answer, --allow or --deny.");
  const { service, taskID } = await writable(target, id);
  const { pending: waiting } = dataOf(await service.task.status({ path: { taskID } }), target.url);
  const asks = waiting.filter(({ id }) => options.ask === undefined || id === options.ask);
  const [ask] = asks;
  if (ask === undefined)
    throw new Exit(
      exit.usage,
      `${taskID} is not waiting for an answer${options.ask === undefined ? "" : ` of this id`}.`,
    );
  if (asks.length > 1)
    throw new Exit(
      exit.usage,
      `${taskID} waits for ${asks.length} answers; choose one with --ask: ${asks.map(({ id, prompt }) => `${id} (${line(prompt, 60)})`).join(", ")}.`,
    );
  const words = options.deny === true ? text : undefined;
  if (words !== undefined && ask.kind !== "approval")
    throw new Exit(
      exit.usage,
      `Expected no text with --deny, which only an approval takes, for "${line(ask.prompt)}".`,
    );
  const body = bodyOf(ask, words ?? said);
  if (body === undefined)
    throw new Exit(exit.usage, `Expected --allow or --deny for "${line(ask.prompt)}", got "${line(said)}".`);
  const accepted = dataOf(await service.task.answer({ path: { taskID, askID: ask.id }, body }), target.url);
  if (emit !== undefined) emit(accepted);
  else
    screen.say(
      `${taskID}: ${line(body.decision ?? body.answer ?? "")}. Follow it with ${commandFor(target, `task logs -f ${taskID}`)}.`,
    );
  return exit.completed;
};
