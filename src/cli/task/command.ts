import type { Command } from "commander";
import { collect, parseCount, type CommandParts, type Shared } from "../context.ts";

/** The commands of `sortie task …`: arguments and options. The actions are loaded on use. */

export const addTaskCommands = (program: Command, { speaking, context, finish }: CommandParts): void => {
  const task = program.command("task").description("see and steer Tasks; <id> is an id, its beginning, or @last");
  const load = () => import("./action.ts");
  const ended = () => import("./ended.ts");
  speaking(
    task
      .command("ls")
      .alias("list")
      .description("the project's Tasks, last update first")
      .option("--all", "archived ones too")
      .option("--limit <n>", "how many", parseCount, 20),
  ).action(async (options: Shared & { all?: true; limit: number }) =>
    finish(await (await load()).list(options, await context(options))),
  );
  speaking(task.command("show <id>").description("what a Task is and how it stands")).action(
    async (id: string, options: Shared) => finish(await (await import("./show.ts")).view(id, await context(options))),
  );
  speaking(
    task
      .command("logs <id>")
      .description("what happened, as lines; with --json the events")
      .option("-f, --follow", "until the Task has settled"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).logs(id, options, await context(options))),
  );
  speaking(task.command("diff <id>").description("what the Task changed")).action(async (id: string, options: Shared) =>
    finish(await (await load()).diff(id, await context(options))),
  );
  speaking(
    task
      .command("message <id> <text>")
      .description("add an instruction; a settled Task goes on")
      .option("-f, --follow", "until the Task has settled"),
  ).action(async (id: string, text: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).message(id, text, options, await context(options))),
  );
  speaking(task.command("pending [id]").description("what waits for an answer, in all projects or of one Task")).action(
    async (id: string | undefined, options: Shared) =>
      finish(await (await import("./answer.ts")).pending(id, await context(options))),
  );
  speaking(
    task
      .command("answer <id> [answer]")
      .description("answer what a Task waits for: a text, the number of an option, --allow or --deny")
      .option("--ask <id>", "which, when it waits for several")
      .option("--allow", "permit the one call")
      .option("--deny", "refuse it"),
  ).action(
    async (id: string, text: string | undefined, options: Shared & { ask?: string; allow?: true; deny?: true }) =>
      finish(await (await import("./answer.ts")).answer(id, text, options, await context(options))),
  );
  speaking(
    task.command("cancel <id>").description("stop a Task").option("--reason <text>", "shown in its error"),
  ).action(async (id: string, options: Shared & { reason?: string }) =>
    finish(await (await load()).cancel(id, options, await context(options))),
  );
  speaking(
    task
      .command("interrupt <id> <session>")
      .description("stop one delegated session; the Task goes on")
      .option("--reason <text>", "told to whoever delegated"),
  ).action(async (id: string, session: string, options: Shared & { reason?: string }) =>
    finish(await (await load()).interrupt(id, session, options, await context(options))),
  );
  speaking(
    task
      .command("retry <id>")
      .description("the next attempt of an ended Task: its request again, on the project's present files")
      .option("-f, --follow", "until the Task has settled"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await ended()).retry(id, options, await context(options))),
  );
  speaking(
    task
      .command("revert <id>")
      .description("take back what a Task landed, by a Task of its own that asks no model")
      .option("--check <command>", "must pass before it lands; repeatable", collect)
      .option("-f, --follow", "until the revert has settled"),
  ).action(async (id: string, options: Shared & { check?: string[]; follow?: true }) =>
    finish(await (await ended()).revert(id, options, await context(options))),
  );
  speaking(task.command("rename <id> <title>").alias("title").description("give it another title")).action(
    async (id: string, title: string, options: Shared) =>
      finish(await (await ended()).rename(id, title, await context(options))),
  );
  speaking(
    task.command("rm <id>").alias("delete").description("delete an ended Task with its history and its branch"),
  ).action(async (id: string, options: Shared) => finish(await (await ended()).remove(id, await context(options))));
  speaking(
    task
      .command("archive <id>")
      .description("download the Task's files and execution flow as a ZIP")
      .option("-o, --output <file>", "default: <task>.zip"),
  ).action(async (id: string, options: Shared & { output?: string }) =>
    finish(await (await load()).archive(id, options, await context(options))),
  );
  task
    .command("verify <zip>")
    .description("what an archive proves by itself: files, ledger, tree; needs no service")
    .option("--head <sha256>", "a ledger's head that was noted before must be in it")
    .option("--json", "one JSON object a finding")
    .action(async (path: string, { head, json }: { head?: string; json?: true }) => {
      const { verify } = await import("../verify/verify.ts");
      const { screen, emit } = await context({ url: "", directory: ".", ...(json ? { json } : {}) });
      finish(await verify(path, head === undefined ? {} : { head }, screen, emit));
    });
  speaking(
    task
      .command("open <id>")
      .description("show the Task's page in the browser, or the pictures of its checks and previews")
      .option("--pictures", "fetch the pictures into a folder, and show them")
      .option("-o, --output <folder>", "where pictures go; default: <task>-pictures")
      .option("--print", "say where it is, and show nothing"),
  ).action(async (id: string, options: Shared & { pictures?: true; output?: string; print?: true }) =>
    finish(await (await import("./open.ts")).open(id, options, await context(options))),
  );
  speaking(
    task
      .command("artifacts <id> [artifact]")
      .description("files kept beside the result; with an artifact's id or name, download it")
      .option("-o, --output <file>", "default: its own name"),
  ).action(async (id: string, artifact: string | undefined, options: Shared & { output?: string }) =>
    finish(await (await load()).artifacts(id, artifact, options, await context(options))),
  );
};
