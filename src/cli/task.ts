import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { connect, exitOf, need, resolveID, type Target } from "./call.ts";
import { Exit, exit } from "./exit.ts";
import { closing, follow, show, watch } from "./follow.ts";
import { bytes, clean, line, money, type Screen, table } from "./print.ts";

/** `sortie task …`: one function a command. Each resolves to the exit code; answers go to `emit` with `--json`. */

type Emit = (value: object) => void;
type Context = { target: Target; screen: Screen; emit: Emit | undefined };

export const list = async ({ all, limit }: { all?: true; limit: number }, { target, screen, emit }: Context) => {
  const service = connect(target);
  const query = { limit, ...(all ? { archived: true } : {}) };
  const tasks = need(await service.task.list({ query }), target.url);
  if (emit !== undefined) for (const task of tasks) emit(task);
  else if (tasks.length === 0) screen.say('No Tasks here yet. Create one: sortie run "run the tests"');
  else
    screen.say(
      table([
        ["TASK", "STATE", "CHECKS", "COST", "UPDATED", "TITLE"],
        ...tasks.map((task) => [
          task.taskID,
          task.lifecycleStatus === "active" ? task.phase : task.lifecycleStatus,
          `${task.checkCounts.passed}/${task.checkCounts.total}`,
          money(task.usage.costUSD),
          task.updatedAt.slice(0, 16).replace("T", " "),
          line(task.title, 60),
        ]),
      ]),
    );
  return exit.completed;
};

export const view = async (given: string, { target, screen, emit }: Context) => {
  const service = connect(target);
  const taskID = await resolveID(service, target, given);
  const task = need(await service.task.get({ path: { taskID } }), target.url);
  if (emit !== undefined) {
    emit(task);
    return exit.completed;
  }
  const { bold } = screen.colors;
  const checks = task.checks.map((check) => [
    `  ${line(check.name, 60)}`,
    `${check.state}${check.stale ? " (of an earlier tree)" : ""}`,
    check.baseline === null ? "" : `before the work: ${check.baseline.state}`,
  ]);
  const rows = [
    ["Title", line(task.title)],
    ["Project", line(task.directory, 400)],
    ["State", `${task.lifecycleStatus}, ${task.phase}`],
    ["Model", `${line(task.model)}, squad ${line(task.squad.id)} ${line(task.squad.version)}`],
    ["Branch", `${line(task.git.branch ?? "none")}, base ${task.git.baseCommit?.slice(0, 10) ?? "none"}`],
    ["Landed", task.git.landedCommit ?? "no"],
    ["Created", task.createdAt],
  ];
  screen.say(
    [
      table(rows.map(([name = "", value = ""]) => [bold(name), value])),
      ...(checks.length === 0 ? [] : [bold("Checks"), table(checks)]),
      bold("Request"),
      clean(task.request).replaceAll(/^/gm, "  "),
      closing(task, screen),
    ].join("\n"),
  );
  return exit.completed;
};

export const logs = async (given: string, options: { follow?: true }, { target, screen, emit }: Context) => {
  const service = connect(target);
  const taskID = await resolveID(service, target, given);
  const following = { service, target, taskID, screen, emit };
  if (options.follow) return watch(following);
  await show(following, "now", new AbortController().signal);
  return exit.completed;
};

export const diff = async (given: string, { target }: Context) => {
  const service = connect(target);
  const taskID = await resolveID(service, target, given);
  const text = need(await service.task.diff({ path: { taskID } }), target.url);
  // Into a pipe the bytes must stay what `git apply` reads; only a terminal can be steered by them.
  process.stdout.write(process.stdout.isTTY ? clean(text) : text);
  return exit.completed;
};

export const message = async (
  given: string,
  text: string,
  options: { follow?: true },
  { target, screen, emit }: Context,
) => {
  const { service, owned, taskID } = await writable(target, given);
  const body = { source: "cli", text };
  const accepted = need(await service.task.message({ path: { taskID }, body }), target.url);
  if (options.follow) return follow({ service, target: owned, taskID, screen, emit });
  if (emit !== undefined) emit(accepted);
  else screen.say(`${taskID}: ${accepted.disposition}. Follow it with \`sortie task logs -f ${taskID}\`.`);
  return exit.completed;
};

export const cancel = async (given: string, { reason }: { reason?: string }, { target, screen, emit }: Context) => {
  const { service, taskID } = await writable(target, given);
  const body = { surface: "cli", ...(reason === undefined ? {} : { reason }) };
  const accepted = need(await service.task.cancel({ path: { taskID }, body }), target.url);
  // Accepted is not yet dead: the command returns when it is.
  const task =
    accepted.status === "inactive" ? undefined : need(await service.task.wait({ path: { taskID } }), target.url);
  if (emit !== undefined) emit(task ?? accepted);
  else screen.say(`${taskID}: ${task?.lifecycleStatus ?? accepted.lifecycleStatus}`);
  return task === undefined || exitOf(task) === exit.cancelled ? exit.completed : exitOf(task);
};

export const archive = async (given: string, { output }: { output?: string }, { target, screen, emit }: Context) => {
  const { service, taskID } = await writable(target, given);
  const blob = need(await service.task.projectArchive({ path: { taskID } }), target.url);
  const path = output ?? `${taskID}.zip`;
  const partial = `${path}.${process.pid}.part`;
  try {
    await pipeline(Readable.fromWeb(blob.stream()), createWriteStream(partial, { flags: "wx" }));
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw new Exit(exit.failed, `Cannot write ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (emit !== undefined) emit({ taskID, path, bytes: blob.size });
  else screen.say(`${path} (${bytes(blob.size)})`);
  return exit.completed;
};

/** A Task's writes and its archive name its own project, wherever the command is called. */
export const writable = async (target: Target, given: string) => {
  const taskID = await resolveID(connect(target), target, given);
  const { directory } = need(await connect(target).task.status({ path: { taskID } }), target.url);
  const owned = { ...target, directory };
  return { service: connect(owned), owned, taskID };
};
