import { type Command, Option } from "commander";
import { collect, parseCap, type CommandParts, type Shared, parseCount, wholeNumber } from "../context.ts";
import type { WakeOptions } from "./action.ts";

/** The commands of `sortie mission …`: arguments and options. The actions are loaded on use. */

export const addMissionCommands = (program: Command, { speaking, context, finish }: CommandParts): void => {
  const mission = program
    .command("mission")
    .description("goals that take many Tasks; <id> is an id, a unique part of one, or @last");
  const load = () => import("./action.ts");
  const placed = (command: Command) =>
    speaking(command).option("--repo <url>", "a repository URL, instead of the folder");

  placed(
    mission
      .command("wake [text]")
      .description("start a Mission, or send one instructions; - reads the text from standard input")
      .option("--id <id>", "id of the Mission to wake; a new one if absent or unknown")
      .option("--ref <name>", "branch, tag or commit of a new Mission's repository")
      .option("--title <text>", "of a new Mission")
      .option("--squad <id>", "allow only this squad; repeatable", collect)
      .option("--any-squad", "allow every squad again")
      .addOption(new Option("--produce <word>", "whether the Mission may create squads").choices(["allow", "forbid"]))
      .addOption(
        new Option("--approve <what...>", "what waits for your approval before it happens").choices([
          "plan",
          "squad",
          "landing",
        ]),
      )
      .addOption(
        new Option(
          "--landing <where>",
          "where a new Mission lands: each phase on the project's branch, or all phases on a separate branch, merged once",
        ).choices(["commit", "branch"]),
      )
      .addOption(
        new Option(
          "--merge <when>",
          "when that branch is merged: when you ask for it, or as soon as it is done",
        ).choices(["manual", "auto"]),
      )
      .option("--model <provider/model>", "the model of the Mission's agent")
      .addOption(new Option("--pillar <name>", "product pillar").choices(["code", "work"]))
      .addOption(
        new Option("--priority <level>", "priority of its agent and its Tasks").choices([
          "critical",
          "high",
          "normal",
          "low",
        ]),
      )
      .option("--callback <url>", "URL that gets a signed request when the Mission asks, stops or ends")
      .option(
        "--ask-seconds <n>",
        "how long a question from the Mission or its Tasks waits for an answer, 0 = for ever",
        wholeNumber(0, 366 * 86_400),
      )
      .option("--drop-callback", "send no more requests to that URL")
      .option(
        "--max-cost <usd>",
        "limit on the cost of the Mission and its Tasks, or none; limits that are not named stay",
        parseCap,
      )
      .option("--max-tokens <n>", "limit on the tokens of the Mission and its Tasks, or none", parseCap)
      .option("--max-steps <n>", "limit on the model calls of the Mission and its Tasks, or none", parseCap)
      .option("--max-minutes <n>", "limit on the working minutes of the Mission and its Tasks, or none", parseCap)
      .option("--attach <file>", "attach a file for its agent and its Tasks; repeatable", collect)
      .option(
        "--check <command>",
        "must pass on the project's head before the Mission can be done; repeatable",
        collect,
      )
      .option("--drop-checks", "no checks, and no verdict on the whole")
      .option("-f, --follow", "follow until the Mission is idle"),
  ).action(async (text: string | undefined, options: Shared & WakeOptions) =>
    finish(await (await load()).wake(text, options, await context(options))),
  );
  placed(
    mission
      .command("ls")
      .alias("list")
      .description("list the project's Missions, latest update first")
      .option("--search <text>", "search title, id and directory")
      .option("--all", "archived ones too")
      .option("--limit <n>", "how many", parseCount, 20),
  ).action(async (options: Shared & { search?: string; all?: true; limit: number }) =>
    finish(await (await load()).list(options, await context(options))),
  );
  placed(
    mission.command("show <id>").alias("status").description("show the plan, Tasks, usage and open questions"),
  ).action(async (id: string, options: Shared) => finish(await (await load()).view(id, await context(options))));
  placed(
    mission.command("plan <id>").description("show the plan with all its words, and what an open approval changes"),
  ).action(async (id: string, options: Shared) =>
    finish(await (await import("./plan.ts")).plan(id, await context(options))),
  );
  placed(
    mission.command("log <id>").description("tell what was said, planned, done and decided so far, one line each"),
  ).action(async (id: string, options: Shared) =>
    finish(await (await import("./log.ts")).log(id, await context(options))),
  );
  placed(
    mission
      .command("logs <id>")
      .description("print the events of the Mission and its Tasks")
      .option("-f, --follow", "follow until the Mission is idle"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).logs(id, options, await context(options))),
  );
  placed(
    mission
      .command("answer <id> [answer]")
      .description("answer a question of its agent, or approve its plan")
      .option("--ask <id>", "which question, if there are several")
      .option("--allow", "approve")
      .option("--deny", "refuse; the answer says what to change"),
  ).action(
    async (id: string, text: string | undefined, options: Shared & { ask?: string; allow?: true; deny?: true }) =>
      finish(await (await load()).answer(id, text, options, await context(options))),
  );
  placed(
    mission
      .command("merge <id>")
      .description("merge the branch on which its phases landed")
      .option("-f, --follow", "follow until the Mission is idle"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).merge(id, options, await context(options))),
  );
  placed(mission.command("rename <id> <title>").alias("title").description("change the title")).action(
    async (id: string, title: string, options: Shared) =>
      finish(await (await load()).rename(id, title, await context(options))),
  );
  placed(
    mission.command("hide <id>").description("hide it from the list until it is woken").option("--undo", "put it back"),
  ).action(async (id: string, options: Shared & { undo?: true }) =>
    finish(await (await load()).hide(id, options, await context(options))),
  );
  placed(
    mission
      .command("abort <id>")
      .description("stop its agent until the next wake")
      .option("--cascade", "also cancel its Tasks")
      .option("--reason <text>"),
  ).action(async (id: string, options: Shared & { cascade?: true; reason?: string }) =>
    finish(await (await load()).abort(id, options, await context(options))),
  );
  placed(
    mission
      .command("open <id>")
      .description("open the Mission's page in the browser")
      .option("--print", "print the address without opening it"),
  ).action(async (id: string, options: Shared & { print?: true }) =>
    finish(await (await import("./open.ts")).open(id, options, await context(options))),
  );
  placed(
    mission.command("rm <id>").alias("delete").description("delete it with its conversation; its Tasks are kept"),
  ).action(async (id: string, options: Shared) => finish(await (await load()).remove(id, await context(options))));
  placed(
    mission
      .command("archive <id>")
      .description("download the project's files and the history of the Mission and its Tasks as a ZIP")
      .option("-o, --output <file>", "default: mission-<id>.zip"),
  ).action(async (id: string, options: Shared & { output?: string }) =>
    finish(await (await load()).archive(id, options, await context(options))),
  );
};
