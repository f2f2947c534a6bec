import { createWriteStream } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { MessageAccepted } from "../../protocol/task/accepted.ts";
import type { Artifact } from "../../protocol/task/status.ts";
import { commandFor, connect, dataOf, type Target } from "../connection.ts";
import { exitOf, resolveID } from "../resolve-id.ts";
import { Exit, exit } from "../terminal/exit.ts";
import { follow, show, watch } from "./follow.ts";
import { rowsOf } from "./list.ts";
import { during, type Screen } from "../terminal/screen.ts";
import { bytes, clean, line, table } from "../terminal/format.ts";
import { headOf } from "../verify/verify.ts";

/**
 * The actions of `sortie task …`, one function per command. Each resolves to the exit code; with `--json` answers go to
 * `emit`.
 */

type Emit = (value: object) => void;
export type Context = { target: Target; screen: Screen; emit: Emit | undefined };

export const list = async ({ all, limit }: { all?: true; limit: number }, { target, screen, emit }: Context) => {
  const service = connect(target);
  const query = { limit, ...(all ? { archived: true } : {}) };
  const tasks = dataOf(await service.task.list({ query }), target.url);
  if (emit !== undefined) for (const task of tasks) emit(task);
  else if (tasks.length === 0)
    screen.say('No Tasks in this project yet. Create one: sortie run "run the tests". Another project: -C DIR');
  else screen.say(rowsOf(tasks, screen));
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
  const text = dataOf(await service.task.diff({ path: { taskID } }), target.url);
  // A pipe gets exactly the bytes that `git apply` reads; for a terminal, control characters are removed because they
  // could control it.
  process.stdout.write(process.stdout.isTTY ? clean(text) : text);
  return exit.completed;
};

/** Which agents will read a message, and when. */
const readWords = ({ readers }: MessageAccepted): string => {
  const when = {
    next_turn: "at its next turn",
    after_delegates: "once the agents that it is waiting for have finished",
    when_done: "once it has finished",
  };
  const words = readers.map((reader) => `${line(reader.agent, 40)} ${when[reader.when]}`);
  return words.length === 0 ? "" : `Read by ${words.join(", ")}.`;
};

export const message = async (
  given: string,
  text: string,
  options: { follow?: true },
  { target, screen, emit }: Context,
) => {
  const { service, owned, taskID } = await writable(target, given);
  const body = { source: "cli", text };
  const accepted = dataOf(await service.task.message({ path: { taskID }, body }), target.url);
  if (options.follow) return follow({ service, target: owned, taskID, screen, emit });
  if (emit !== undefined) emit(accepted);
  else
    screen.say(
      `${taskID}: ${accepted.disposition}. ${readWords(accepted)} Follow it with ${commandFor(target, `task logs -f ${taskID}`)}.`,
    );
  return exit.completed;
};

export const cancel = async (given: string, { reason }: { reason?: string }, { target, screen, emit }: Context) => {
  const { service, taskID } = await writable(target, given);
  const body = { surface: "cli", ...(reason === undefined ? {} : { reason }) };
  const accepted = dataOf(await service.task.cancel({ path: { taskID }, body }), target.url);
  // "Accepted" does not mean that the Task has ended, so wait for that.
  const task =
    accepted.status === "inactive"
      ? undefined
      : dataOf(await during(screen, "Cancelling", service.task.wait({ path: { taskID } })), target.url);
  if (emit !== undefined) emit(task ?? accepted);
  else screen.say(`${taskID}: ${task?.lifecycleStatus ?? accepted.lifecycleStatus}`);
  return task === undefined || exitOf(task) === exit.cancelled ? exit.completed : exitOf(task);
};

/** `session`: the session's id, or the beginning of it. */
export const interrupt = async (
  given: string,
  session: string,
  { reason }: { reason?: string },
  { target, screen, emit }: Context,
) => {
  const { service, taskID } = await writable(target, given);
  const { sessionInvocationTopology } = dataOf(await service.task.status({ path: { taskID } }), target.url);
  const found = sessionInvocationTopology.nodes.filter(({ sessionID }) => sessionID.startsWith(session));
  if (found.length !== 1 || found[0] === undefined) {
    const known = sessionInvocationTopology.nodes.map(({ sessionID, agent }) => `${sessionID} (${line(agent, 40)})`);
    throw new Exit(
      exit.usage,
      `Expected the id of one session of ${taskID}, got "${session}". It has ${known.join(", ")}.`,
    );
  }
  const { sessionID, agent } = found[0];
  const body = { surface: "cli", ...(reason === undefined ? {} : { reason }) };
  const accepted = dataOf(await service.task.interrupt({ path: { taskID, sessionID }, body }), target.url);
  if (emit !== undefined) emit(accepted);
  else screen.say(`${taskID}: ${line(agent, 40)} is being stopped; the Task continues.`);
  return exit.completed;
};

export const archive = async (given: string, { output }: { output?: string }, { target, screen, emit }: Context) => {
  const { service, taskID } = await writable(target, given);
  const building = service.task.projectArchive({ path: { taskID } });
  const blob = dataOf(await during(screen, "Building the archive", building), target.url);
  const path = output ?? `${taskID}.zip`;
  await during(screen, `Writing ${bytes(blob.size)}`, writeBlob(path, blob));
  // A head that the user notes now later proves that nothing was rewritten: `sortie task verify --head`.
  const ledger = await headOf(path);
  if (emit !== undefined) emit({ taskID, path, bytes: blob.size, ledger });
  else screen.say(`${path} (${bytes(blob.size)}), ledger of ${ledger.entries} entries, head ${ledger.head}`);
  return exit.completed;
};

/** Writes the file completely under its name, or not at all. */
export const writeBlob = async (path: string, blob: Blob): Promise<void> => {
  const partial = `${path}.${process.pid}.part`;
  try {
    await pipeline(Readable.fromWeb(blob.stream()), createWriteStream(partial, { flags: "wx" }));
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw new Exit(exit.failed, `Cannot write ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
};

/** Lists the Task's artifacts, or saves the named one without overwriting a file. */
export const artifacts = async (
  given: string,
  wanted: string | undefined,
  { output }: { output?: string },
  { target, screen, emit }: Context,
) => {
  const service = connect(target);
  const taskID = await resolveID(service, target, given);
  const kept = dataOf(await service.task.board({ path: { taskID } }), target.url).artifacts;
  if (wanted !== undefined) return save(service, taskID, pick(kept, wanted), output, { target, screen, emit });
  if (emit !== undefined) for (const artifact of kept) emit(artifact);
  else if (kept.length === 0) screen.say("This Task has no artifacts.");
  else
    screen.say(
      table([
        ["ARTIFACT", "FILE", "SIZE", "FROM", "TITLE"],
        ...kept.map(({ artifactID, filename, bytes: size, by, title }) => [
          artifactID,
          line(filename, 40),
          bytes(size),
          by.kind === "call" ? "agent" : by.kind === "check" ? `check ${line(by.checkID, 40)}` : "capture",
          line(title, 60),
        ]),
      ]),
    );
  return exit.completed;
};

type Kept = Pick<Artifact, "artifactID" | "filename">;

/** Finds an artifact by the beginning of its id, or by its full name. */
const pick = (kept: readonly Kept[], wanted: string): Kept => {
  const found = kept.filter(({ artifactID, filename }) => artifactID.startsWith(wanted) || filename === wanted);
  const [only, second] = found;
  if (only !== undefined && second === undefined) return only;
  const what = found.length === 0 ? "none" : found.map(({ artifactID }) => artifactID).join(", ");
  throw new Exit(
    exit.usage,
    `Expected one artifact with this id or name, got ${what}. See: sortie task artifacts <id>`,
  );
};

const save = async (
  service: ReturnType<typeof connect>,
  taskID: string,
  { artifactID, filename }: Kept,
  output: string | undefined,
  { target, screen, emit }: Context,
) => {
  const fetching = service.task.artifact({ path: { taskID, artifactID } });
  const blob = dataOf(await during(screen, "Fetching the artifact", fetching), target.url);
  // An agent chose the name, so remove anything that leads to another folder or hides the file.
  const path = output ?? (filename.replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^\./, "_") || artifactID);
  try {
    await writeFile(path, new Uint8Array(await blob.arrayBuffer()), { flag: "wx" });
  } catch (error) {
    throw new Exit(exit.failed, `Cannot write ${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (emit !== undefined) emit({ taskID, artifactID, path, bytes: blob.size });
  else screen.say(`${path} (${bytes(blob.size)})`);
  return exit.completed;
};

/** A client for the Task's own project, which operations and archives require, wherever the command is run. */
export const writable = async (target: Target, given: string) => {
  const taskID = await resolveID(connect(target), target, given);
  const { directory } = dataOf(await connect(target).task.status({ path: { taskID } }), target.url);
  const owned = { ...target, directory };
  return { service: connect(owned), owned, taskID };
};
