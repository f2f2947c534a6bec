import { type Command, Option } from "commander";
import { collect, parseAmount, type CommandParts, type Shared, parseCount } from "../context.ts";
import type { WakeOptions } from "./action.ts";

/** The commands of `sortie mission …`: arguments and options. The actions are loaded on use. */

export const addMissionCommands = (program: Command, { speaking, context, finish }: CommandParts): void => {
  const mission = program
    .command("mission")
    .description("goals that take many Tasks; <id> is an id, its beginning, or @last");
  const load = () => import("./action.ts");
  const placed = (command: Command) =>
    speaking(command).option("--repo <url>", "a repository by its address, instead of the folder");

  placed(
    mission
      .command("wake [text]")
      .description("begin a Mission, or give one more direction; - reads the text from standard input")
      .option("--id <id>", "the Mission; absent or unknown: a new one")
      .option("--ref <name>", "of a new Mission's repository: a branch, a tag or a commit")
      .option("--title <text>", "of a new Mission")
      .option("--squad <id>", "only this squad may be dispatched to; repeatable", collect)
      .option("--any-squad", "no squad is ruled out any more")
      .addOption(new Option("--produce <word>", "whether squads may be made").choices(["allow", "forbid"]))
      .option("--model <provider/model>", "the model of the Mission's agent")
      .addOption(new Option("--pillar <name>", "product pillar").choices(["code", "work"]))
      .option("--max-cost <usd>", "over the whole tree of Tasks", parseAmount)
      .option("--max-tokens <n>", "over the whole tree of Tasks", parseAmount)
      .option("--max-steps <n>", "model calls over the whole tree", parseAmount)
      .option("--max-minutes <n>", "minutes of work over the whole tree", parseAmount)
      .option("--attach <file>", "give its agent a file, and so its Tasks; repeatable", collect)
      .option("-f, --follow", "until the Mission rests"),
  ).action(async (text: string | undefined, options: Shared & WakeOptions) =>
    finish(await (await load()).wake(text, options, await context(options))),
  );
  placed(
    mission
      .command("ls")
      .alias("list")
      .description("the project's Missions, last update first")
      .option("--search <text>", "title, id or directory")
      .option("--all", "archived ones too")
      .option("--limit <n>", "how many", parseCount, 20),
  ).action(async (options: Shared & { search?: string; all?: true; limit: number }) =>
    finish(await (await load()).list(options, await context(options))),
  );
  placed(mission.command("show <id>").description("the plan, the Tasks, the use, what waits for an answer")).action(
    async (id: string, options: Shared) => finish(await (await load()).view(id, await context(options))),
  );
  placed(
    mission
      .command("logs <id>")
      .description("what happened in it and its Tasks, as lines; with --json the events")
      .option("-f, --follow", "until the Mission rests"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).logs(id, options, await context(options))),
  );
  placed(
    mission
      .command("answer <id> <answer>")
      .description("answer what its agent asks")
      .option("--ask <id>", "which, when it waits for several"),
  ).action(async (id: string, text: string, options: Shared & { ask?: string }) =>
    finish(await (await load()).answer(id, text, options, await context(options))),
  );
  placed(mission.command("rename <id> <title>").alias("title").description("give it another title")).action(
    async (id: string, title: string, options: Shared) =>
      finish(await (await load()).rename(id, title, await context(options))),
  );
  placed(
    mission
      .command("hide <id>")
      .description("archive it: out of the list until it is woken")
      .option("--undo", "put it back"),
  ).action(async (id: string, options: Shared & { undo?: true }) =>
    finish(await (await load()).hide(id, options, await context(options))),
  );
  placed(
    mission
      .command("abort <id>")
      .description("stop its agent; nothing but a wake wakes it again")
      .option("--cascade", "cancel its Tasks too")
      .option("--reason <text>"),
  ).action(async (id: string, options: Shared & { cascade?: true; reason?: string }) =>
    finish(await (await load()).abort(id, options, await context(options))),
  );
  placed(
    mission.command("rm <id>").alias("delete").description("delete it with its conversation; its Tasks stay"),
  ).action(async (id: string, options: Shared) => finish(await (await load()).remove(id, await context(options))));
  placed(
    mission
      .command("archive <id>")
      .description("download the project's files, the Mission's flow and its Tasks' as a ZIP")
      .option("-o, --output <file>", "default: mission-<id>.zip"),
  ).action(async (id: string, options: Shared & { output?: string }) =>
    finish(await (await load()).archive(id, options, await context(options))),
  );
};
