import type { MessageType, WebhookRecord } from "../../protocol/webhook.ts";
import { connect, dataOf, type Service, type Target } from "../connection.ts";
import { Exit, exit } from "../terminal/exit.ts";
import type { Context } from "../context.ts";
import { during, type Screen } from "../terminal/screen.ts";
import { line, table } from "../terminal/format.ts";

/**
 * The actions of `sortie webhook …`, one function per command. Each resolves to the exit code; with `--json` answers go
 * to `emit`.
 */

export type AddOptions = { event?: string[]; description?: string; project?: true };
export type LogOptions = { state?: "pending" | "delivered" | "dead"; limit: number };
export type RedeliverOptions = { since?: string; webhook?: string };
export type SecretOptions = { rotate?: true; keep?: number };

/** The webhook's id: from a full id or a unique beginning. */
const resolveHook = async (service: Service, { url }: Target, given: string): Promise<string> => {
  if (/^hook_[0-9a-z]{26}$/.test(given) || given === "callback") return given;
  const all = dataOf(await service.webhook.list(), url);
  const prefix = given.startsWith("hook_") ? given : `hook_${given}`;
  const [first, ...more] = all.filter(({ webhookID }) => webhookID.startsWith(prefix));
  if (first !== undefined && more.length === 0) return first.webhookID;
  throw new Exit(
    exit.usage,
    first === undefined
      ? `No webhook id begins with "${given}". See: sortie webhook ls`
      : `"${given}" matches ${more.length + 1} webhooks. Give a longer part of the id.`,
  );
};

const wordsOf = ({ state, reason, failingSince }: WebhookRecord): string =>
  state === "enabled" && failingSince !== null
    ? `failing since ${failingSince}`
    : `${state}${reason === null ? "" : `: ${line(reason, 60)}`}`;

export const list = async ({ target, screen, emit }: Context) => {
  const all = dataOf(await connect(target).webhook.list(), target.url);
  if (emit !== undefined) emit(all);
  else if (all.length === 0) screen.say("No webhook yet. `sortie webhook add <url>` creates one.");
  else
    screen.say(
      table([
        ["WEBHOOK", "URL", "STATE", "EVENTS", "PROJECT"],
        ...all.map((hook) => [
          hook.webhookID,
          line(hook.url, 60),
          wordsOf(hook),
          line(hook.events.join(" "), 60),
          line(hook.directory ?? "all", 40),
        ]),
      ]),
    );
  return all.some(({ state }) => state === "disabled") ? exit.failed : exit.completed;
};

export const add = async (url: string, options: AddOptions, { target, screen, emit }: Context) => {
  const { event, description, project } = options;
  const made = dataOf(
    await connect(target).webhook.create({
      body: {
        url,
        ...(event === undefined ? {} : { events: event as MessageType[] }),
        ...(description === undefined ? {} : { description }),
      },
      ...(project ? { query: { directory: target.directory } } : {}),
    }),
    target.url,
  );
  if (emit !== undefined) emit(made);
  else
    screen.say(
      [
        `${made.webhookID} notifies ${line(made.url)}${made.directory === null ? "" : ` about ${line(made.directory)}`}.`,
        "Its secret, shown only once:",
        made.secret,
        `Try it: sortie webhook test ${made.webhookID}`,
      ].join("\n"),
    );
  return exit.completed;
};

export const remove = async (given: string, { target, screen, emit }: Context) => {
  const service = connect(target);
  const webhookID = await resolveHook(service, target, given);
  const removed = dataOf(await service.webhook.delete({ path: { webhookID } }), target.url);
  if (emit !== undefined) emit(removed);
  else screen.say(`${webhookID} is deleted.`);
  return exit.completed;
};

export const setState = async (given: string, state: "enabled" | "paused", { target, screen, emit }: Context) => {
  const service = connect(target);
  const webhookID = await resolveHook(service, target, given);
  const changed = dataOf(await service.webhook.update({ path: { webhookID }, body: { state } }), target.url);
  if (emit !== undefined) emit(changed);
  else screen.say(`${webhookID} is ${changed.state}.`);
  return exit.completed;
};

export const test = async (given: string, { target, screen, emit }: Context) => {
  const service = connect(target);
  const webhookID = await resolveHook(service, target, given);
  const tested = dataOf(await during(screen, "Sending", service.webhook.test({ path: { webhookID } })), target.url);
  if (emit !== undefined) emit(tested);
  else if (tested.delivered) screen.say(`Answered ${tested.status} after ${tested.durationMs} ms.`);
  else screen.say(`Not accepted, after ${tested.durationMs} ms. ${line(tested.reason ?? "", 300)}`);
  return tested.delivered ? exit.completed : exit.failed;
};

export const log = async (given: string | undefined, options: LogOptions, { target, screen, emit }: Context) => {
  const service = connect(target);
  const { state, limit } = options;
  const page = dataOf(
    await service.webhook.deliveries({
      query: {
        limit,
        ...(state === undefined ? {} : { state }),
        ...(given === undefined ? {} : { webhookID: await resolveHook(service, target, given) }),
      },
    }),
    target.url,
  );
  if (emit !== undefined) emit(page);
  else if (page.deliveries.length === 0) screen.say("No deliveries yet.");
  else
    screen.say(
      table([
        ["DELIVERY", "TYPE", "OF", "STATE", "TRIES", "NEXT", "LAST"],
        ...page.deliveries.map((one) => [
          one.deliveryID,
          one.type,
          one.taskID ?? one.sessionID ?? "",
          one.state,
          String(one.attempts),
          one.nextAt ?? "",
          one.last === null ? "" : line(one.last.reason ?? `${one.last.status}, ${one.last.durationMs} ms`, 60),
        ]),
      ]),
    );
  return exit.completed;
};

/** Parses a time, or an age such as `24h`. */
const timeOf = (text: string): string => {
  const [, amount, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const at =
    amount === undefined
      ? Date.parse(text)
      : Date.now() - Number(amount) * { m: 60_000, h: 3_600_000, d: 86_400_000 }[unit as "m" | "h" | "d"];
  if (Number.isNaN(at))
    throw new Exit(exit.usage, `Expected --since to be a time such as 2026-01-31T00:00:00Z or 24h, got "${text}".`);
  return new Date(at).toISOString();
};

export const redeliver = async (
  given: string | undefined,
  { since, webhook }: RedeliverOptions,
  { target, screen, emit }: Context,
) => {
  if ((given === undefined) === (since === undefined))
    throw new Exit(exit.usage, `Expected a delivery or --since, got ${given === undefined ? "neither" : "both"}.`);
  if (given !== undefined && webhook !== undefined)
    throw new Exit(exit.usage, "Expected --webhook only with --since, got it with a delivery.");
  const service = connect(target);
  const done = dataOf(
    given !== undefined
      ? await service.webhook.redeliver({ path: { deliveryID: given } })
      : await service.webhook.redeliverDead({
          body: {
            since: timeOf(since ?? ""),
            ...(webhook === undefined ? {} : { webhookID: await resolveHook(service, target, webhook) }),
          },
        }),
    target.url,
  );
  say(done.redelivered === 1 ? "Resending one delivery." : `${done.redelivered} deliveries are being resent.`, done, {
    screen,
    emit,
  });
  return exit.completed;
};

const say = (text: string, value: object, { screen, emit }: { screen: Screen; emit: Context["emit"] }): void => {
  if (emit !== undefined) emit(value);
  else screen.say(text);
};

export const secret = async (
  given: string | undefined,
  { rotate, keep }: SecretOptions,
  { target, screen, emit }: Context,
) => {
  const service = connect(target);
  const keeping = keep === undefined ? {} : { keepHours: keep };
  if (given !== undefined && !rotate)
    throw new Exit(exit.usage, "A webhook's secret is shown only when it is created. Use --rotate for a new one.");
  if (keep !== undefined && !rotate) throw new Exit(exit.usage, "Expected --rotate with --keep, got --keep alone.");
  const webhookID = given === undefined ? "callback" : await resolveHook(service, target, given);
  const shown = dataOf(
    webhookID === "callback"
      ? await service.webhook.callbackSecret({ body: rotate ? { rotate: true, ...keeping } : {} })
      : await service.webhook.rotate({ path: { webhookID }, body: keeping }),
    target.url,
  );
  say(shown.secret, shown, { screen, emit });
  return exit.completed;
};
