import type { Command } from "commander";
import { InvalidArgumentError, Option } from "commander";
import { type CommandParts, type Shared, parseCount } from "../context.ts";
import type { AddOptions, LogOptions, RedeliverOptions, SecretOptions } from "./action.ts";

/** The commands of `sortie webhook …`: arguments and options. The actions are loaded on use. */

const collect = (value: string, before: string[] = []) => [...before, value];

const hours = (text: string): number => {
  if (!/^\d{1,3}$/.test(text)) throw new InvalidArgumentError("Expected a whole number of hours.");
  return Number(text);
};

export const addWebhookCommands = (program: Command, { speaking, context, finish }: CommandParts): void => {
  const webhook = program
    .command("webhook")
    .description("manage webhooks: signed notifications about Tasks and Missions");
  const load = () => import("./action.ts");

  speaking(webhook.command("ls").alias("list").description("list webhooks and their state")).action(
    async (options: Shared) => finish(await (await load()).list(await context(options))),
  );
  speaking(
    webhook
      .command("add <url>")
      .description("add a URL to notify; prints the secret once")
      .option("--event <type>", "only these events, such as task.completed; repeatable", collect)
      .option("--description <text>", "description of the webhook")
      .option("--project", "only for the project of --directory"),
  ).action(async (url: string, options: Shared & AddOptions) =>
    finish(await (await load()).add(url, options, await context(options))),
  );
  speaking(webhook.command("remove <webhook>").alias("rm").description("delete it and its pending deliveries")).action(
    async (id: string, options: Shared) => finish(await (await load()).remove(id, await context(options))),
  );
  speaking(webhook.command("pause <webhook>").description("pause deliveries")).action(
    async (id: string, options: Shared) => finish(await (await load()).setState(id, "paused", await context(options))),
  );
  speaking(webhook.command("resume <webhook>").description("resume deliveries to a paused or disabled webhook")).action(
    async (id: string, options: Shared) => finish(await (await load()).setState(id, "enabled", await context(options))),
  );
  speaking(webhook.command("test <webhook>").description("send a test message now and print the result")).action(
    async (id: string, options: Shared) => finish(await (await load()).test(id, await context(options))),
  );
  speaking(
    webhook
      .command("log [webhook]")
      .description("list deliveries, newest first; callback lists those of callbackURLs")
      .addOption(new Option("--state <word>").choices(["pending", "delivered", "dead"]))
      .option("--limit <n>", "how many", parseCount, 20),
  ).action(async (id: string | undefined, options: Shared & LogOptions) =>
    finish(await (await load()).log(id, options, await context(options))),
  );
  speaking(
    webhook
      .command("redeliver [delivery]")
      .description("resend one delivery or, with --since, all failed ones")
      .option("--since <time>", "such as 2026-01-31T00:00:00Z, or 24h")
      .option("--webhook <id>", "only for this webhook"),
  ).action(async (id: string | undefined, options: Shared & RedeliverOptions) =>
    finish(await (await load()).redeliver(id, options, await context(options))),
  );
  speaking(
    webhook
      .command("secret [webhook]")
      .description("print the secret that callbackURLs share; --rotate replaces it, or a webhook's")
      .option("--rotate", "make a new one")
      .option("--keep <hours>", "how many hours messages are also signed with the old secret (default: 24)", hours),
  ).action(async (id: string | undefined, options: Shared & SecretOptions) =>
    finish(await (await load()).secret(id, options, await context(options))),
  );
};
