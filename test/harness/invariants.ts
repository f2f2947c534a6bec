import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect } from "vitest";
import { summarise } from "../../src/domain/view/summary.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import type { Frame } from "../../src/protocol/event/frame.ts";
import { processesOf } from "../crash/process.ts";
import { until } from "./project.ts";
import { at, expectLandedChecked, logOf, send, settledTask, statusOf } from "./double/hostile-text.ts";

/** What holds of a service at any time, and once its Tasks are settled (shared/design/security.md C11). */

export type Watched = {
  url: string;
  dataDir: string;
  /** Every Task that was acknowledged, with its directory. */
  tasks: ReadonlyMap<string, string>;
  /** Messages that were acknowledged: id and Task. */
  messages?: ReadonlyMap<string, string>;
  /** A folder that nobody may touch, and its digest. */
  outside?: { folder: string; digest: string };
};

/** Names, kinds, sizes and contents of everything below a folder. */
export const digestOf = (folder: string): string =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((name) => {
      const stats = statSync(join(folder, name));
      return stats.isFile() ? `${name} ${stats.mode} ${readFileSync(join(folder, name), "base64")}` : name;
    })
    .join("\n");

const foldOf = (frames: readonly Frame[]): TaskState => {
  let state: TaskState | undefined;
  for (const [index, { id, taskID, ...frame }] of frames.entries())
    state = evolve(state, { ...frame, position: id, stream: taskID ?? "", version: index + 1 });
  if (state === undefined) throw new Error("Expected events, got none");
  return state;
};

/** R1, R5, R6, R7, R8, R9, R13, R14, R18, R21: also while Tasks are at work. */
export const alwaysHolds = async ({ url, dataDir, tasks, messages, outside }: Watched): Promise<void> => {
  for (const [taskID, directory] of tasks) {
    const status = await statusOf(url, taskID);
    const active = status.lifecycleStatus === "active";
    expect(status.status, "R8").toBe(active ? "running" : "inactive");
    expect(status.progress.percent, "R8").toBe(active ? 100 : 0);
    const failed = status.lifecycleStatus === "failed" || status.lifecycleStatus === "cancelled";
    expect(status.error !== undefined, `R9 ${JSON.stringify(status.error)}`).toBe(failed);

    const frames = await logOf(url, taskID);
    expectLandedChecked(frames);
    const ids = frames.map(({ id }) => id);
    expect(ids, "R13 ids grow").toEqual([...new Set(ids)].toSorted((a, b) => a - b));
    const middle = ids[Math.floor(ids.length / 2)] ?? 0;
    const rest = await send(url, `/task/${taskID}/events?format=json&after=${middle}&limit=1000`);
    const later = (rest.body["events"] as Frame[]).map(({ id }) => id);
    expect(later.slice(0, ids.filter((id) => id > middle).length), "R13 replay").toEqual(
      ids.filter((id) => id > middle),
    );

    for (const [index, frame] of frames.entries())
      if (frame.type === "task.settled")
        expect(["message.received", "task.updated", undefined], "R7").toContain(frames[index + 1]?.type);
    const acked = [...(messages ?? [])].filter(([, of]) => of === taskID).map(([id]) => id);
    const received = frames.flatMap((frame) => (frame.type === "message.received" ? [frame.data.messageID] : []));
    expect(received.filter((id) => acked.includes(id)).toSorted(), "R1 messages").toEqual(acked.toSorted());

    const { body } = await send(url, at("/tasks?limit=200&archived=true", directory));
    const row = (body as unknown as Row[]).find((one) => one.taskID === taskID);
    if (row === undefined) throw new Error("R1 list: no row");
    if (row.lastEventID === ids.at(-1)) {
      const folded = JSON.parse(JSON.stringify(summarise(foldOf(frames)))) as Record<string, unknown>;
      // The place in the queue, what is waited for there, and what is usual are of the moment, not of the log.
      const { usualMs: _, ...told } = (row["now"] ?? {}) as Record<string, unknown>;
      const shown = row["now"] === null ? null : told;
      const now = folded["phase"] === "queued" ? folded["now"] : shown;
      expect({ ...row, queue: null, now }, "R14").toEqual(folded);
    }
  }
  if (outside !== undefined) expect(digestOf(outside.folder), "R18").toBe(outside.digest);
  const file = join(dataDir, "sortie.db");
  // On PostgreSQL there is none.
  if (!existsSync(file)) return;
  const database = new Database(file, { readonly: true, fileMustExist: true });
  expect(database.pragma("integrity_check", { simple: true }), "R21").toBe("ok");
  database.close();
};

/** What nobody needs once all Tasks have ended: half-written files, locks, checkouts of checks, ways to talk. */
const left = [
  /\.sortie-tmp-|sortie-diff-|\.lock$|\.json\.tmp$|(^|\/)tmp\/./,
  /(^|\/)worktrees\/[^/]+\.(checkout|base)(\.git|\.overlays)?$/,
  /^sandbox\/talk\/./,
  // Those in a worktree go with it.
  /^\.sortie\/attachments\/./,
];
const isLeft = (name: string): boolean => name !== "service.lock" && left.some((one) => one.test(name));

/** The Tasks whose files these are, or a home or a ref of theirs. */
const ownersOf = (names: readonly string[]): string[] => [
  ...new Set(names.flatMap((name) => /(?:^|\/)(?:homes|worktrees|refs)\/.*?(task_[0-9a-z]{26})/.exec(name)?.[1] ?? [])),
];

/** Files of a Task or its refs: of one that ended before it had any, there are none. */
const isFiles = (name: string): boolean => /(^|\/)(worktrees|refs)\//.test(name);

/** What should not be below a folder; `gone`: Tasks that were deleted, `unused`: that ended before they had files. */
export const leavings = (
  names: readonly string[],
  { unused, gone }: { unused: readonly string[]; gone: readonly string[] },
): string[] =>
  names.filter(
    (name) =>
      isLeft(name) ||
      (isFiles(name) && unused.some((taskID) => name.includes(taskID))) ||
      (ownersOf([name]).length > 0 && gone.some((taskID) => name.includes(taskID))),
  );

/** A run may be removing a folder while it is read: then everything is read again. */
const namesBelow = (place: string): string[] => {
  for (let left = 20; ; left -= 1)
    try {
      return readdirSync(place, { recursive: true, encoding: "utf8" });
    } catch (error) {
      if (left === 0 || (error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
};

/** All of the above and R5, R6, R16, R22: every Task ends within a minute, and leaves nothing behind. */
export const invariants = async (watched: Watched): Promise<void> => {
  const { url, dataDir, tasks } = watched;
  for (const taskID of tasks.keys()) await settledTask(url, taskID, 60_000);
  await until(
    () => Promise.resolve(processesOf(dataDir)),
    (left) => left.length === 0,
    2000,
  );
  const unused: string[] = [];
  for (const taskID of tasks.keys()) {
    const state = foldOf(await logOf(url, taskID));
    if (state.workspace === null && state.earlier === null) unused.push(taskID);
    expect(state.open, "R5").toEqual([]);
    expect(state.running, "R5").toEqual([]);
    expect(state.landingStarted, "R5").toBeNull();
  }
  await alwaysHolds(watched);
  const places = new Set([...tasks.values(), dataDir]);
  for (const place of places) {
    const found = async (): Promise<string[]> => {
      const names = namesBelow(place);
      const gone: string[] = [];
      for (const taskID of ownersOf(names))
        if (!tasks.has(taskID) && (await send(url, `/task/${taskID}/status`)).status === 404) gone.push(taskID);
      return leavings(names, { unused, gone });
    };
    // A run tidies up once its Task has ended, which takes seconds where several services share two cores.
    const stays = await until(found, (names) => names.length === 0, 10_000).catch(found);
    expect(stays, `R22 ${stays.join(", ")}`).toEqual([]);
  }
};

type Row = { taskID: string; lastEventID: number } & Record<string, unknown>;
