import type { Command } from "commander";
import { collect, parseCount, type CommandParts, type Shared } from "../context.ts";

/** The commands of `sortie task …`: arguments and options. The actions are loaded on use. */

export const addTaskCommands = (program: Command, { speaking, context, finish }: CommandParts): void => {
  const task = program
    .command("task")
    .description("list, inspect and steer Tasks; <id> is an id, a unique part of one, or @last");
  const load = () => import("./action.ts");
  const ended = () => import("./after-end.ts");
  const placed = (command: Command) =>
    speaking(command).option("--repo <url>", "a repository URL, instead of the folder");
  placed(
    task
      .command("ls")
      .alias("list")
      .description("list the project's Tasks, latest update first")
      .option("--all", "archived ones too")
      .option("--limit <n>", "how many", parseCount, 20),
  ).action(async (options: Shared & { all?: true; limit: number }) =>
    finish(await (await load()).list(options, await context(options))),
  );
  placed(task.command("show <id>").description("show a Task and its state")).action(
    async (id: string, options: Shared) => finish(await (await import("./show.ts")).view(id, await context(options))),
  );
  placed(
    task
      .command("logs <id>")
      .description("print what happened; with --json the events")
      .option("-f, --follow", "follow until the Task has ended"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).logs(id, options, await context(options))),
  );
  placed(task.command("diff <id>").description("show what the Task changed")).action(
    async (id: string, options: Shared) => finish(await (await load()).diff(id, await context(options))),
  );
  placed(
    task
      .command("message <id> <text>")
      .description("send an instruction; an ended Task continues")
      .option("-f, --follow", "follow until the Task has ended"),
  ).action(async (id: string, text: string, options: Shared & { follow?: true }) =>
    finish(await (await load()).message(id, text, options, await context(options))),
  );
  placed(task.command("pending [id]").description("list open questions, of all projects or of one Task")).action(
    async (id: string | undefined, options: Shared) =>
      finish(await (await import("./answer.ts")).pending(id, await context(options))),
  );
  placed(
    task
      .command("answer <id> [answer]")
      .description("answer a question: a text, the number of an option, --allow or --deny")
      .option("--ask <id>", "which question, if there are several")
      .option("--allow", "allow this one call, or approve")
      .option("--deny", "refuse it; for an approval, the answer can say what to change"),
  ).action(
    async (id: string, text: string | undefined, options: Shared & { ask?: string; allow?: true; deny?: true }) =>
      finish(await (await import("./answer.ts")).answer(id, text, options, await context(options))),
  );
  placed(
    task.command("cancel <id>").description("stop a Task").option("--reason <text>", "reason, shown with the Task"),
  ).action(async (id: string, options: Shared & { reason?: string }) =>
    finish(await (await load()).cancel(id, options, await context(options))),
  );
  placed(
    task
      .command("interrupt <id> <session>")
      .description("stop one delegated session; the Task continues")
      .option("--reason <text>", "reason, passed to the delegating agent"),
  ).action(async (id: string, session: string, options: Shared & { reason?: string }) =>
    finish(await (await load()).interrupt(id, session, options, await context(options))),
  );
  placed(
    task
      .command("retry <id>")
      .description("run an ended Task's request again, on the project's current files")
      .option("-f, --follow", "follow until the Task has ended"),
  ).action(async (id: string, options: Shared & { follow?: true }) =>
    finish(await (await ended()).retry(id, options, await context(options))),
  );
  placed(
    task
      .command("revert <id>")
      .description("revert what a Task landed, in a new Task that calls no model")
      .option("--check <command>", "check that must pass before it lands; repeatable", collect)
      .option("-f, --follow", "follow until the revert has ended"),
  ).action(async (id: string, options: Shared & { check?: string[]; follow?: true }) =>
    finish(await (await ended()).revert(id, options, await context(options))),
  );
  placed(task.command("rename <id> <title>").alias("title").description("change the title")).action(
    async (id: string, title: string, options: Shared) =>
      finish(await (await ended()).rename(id, title, await context(options))),
  );
  placed(
    task.command("rm <id>").alias("delete").description("delete an ended Task with its history and its branch"),
  ).action(async (id: string, options: Shared) => finish(await (await ended()).remove(id, await context(options))));
  placed(
    task
      .command("archive <id>")
      .description("download the Task's files and execution flow as a ZIP")
      .option("-o, --output <file>", "default: <task>.zip"),
  ).action(async (id: string, options: Shared & { output?: string }) =>
    finish(await (await load()).archive(id, options, await context(options))),
  );
  task
    .command("verify <zip>")
    .description("verify the archive of a Task or a Mission offline: files, ledgers, tree")
    .option("--head <sha256>", "ledger hash recorded earlier, which the archive must contain")
    .option("--json", "print one JSON object per finding")
    .action(async (path: string, { head, json }: { head?: string; json?: true }) => {
      const { verify } = await import("../verify/verify.ts");
      const { screen, emit } = await context({ url: "", directory: ".", ...(json ? { json } : {}) });
      finish(await verify(path, head === undefined ? {} : { head }, screen, emit));
    });
  placed(
    task
      .command("open <id>")
      .description("open the Task's page in the browser, or the screenshots of its checks and previews")
      .option("--pictures", "download the screenshots to a folder and open them")
      .option("-o, --output <folder>", "folder for screenshots (default: <task>-pictures)")
      .option("--print", "print the address without opening it"),
  ).action(async (id: string, options: Shared & { pictures?: true; output?: string; print?: true }) =>
    finish(await (await import("./open.ts")).open(id, options, await context(options))),
  );
  placed(
    task
      .command("artifacts <id> [artifact]")
      .description("list artifacts, or download one by id or name")
      .option("-o, --output <file>", "file to write (default: the artifact's name)"),
  ).action(async (id: string, artifact: string | undefined, options: Shared & { output?: string }) =>
    finish(await (await load()).artifacts(id, artifact, options, await context(options))),
  );
};
