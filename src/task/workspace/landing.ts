import { setTimeout as wait } from "node:timers/promises";
import type { DomainEvent } from "../../domain/event.ts";
import { isActive, remoteOf, type TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import { pace } from "../../pace.ts";
import { publishedCommit } from "../../domain/task/landing.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Store } from "../../store/store.ts";
import { LandingUnfinished } from "../../workspace/error.ts";
import type { LandingPlan, Workspaces } from "../../workspace/workspace.ts";
import { RepositoryAway } from "../../repository/repository.ts";
import type { Run } from "../run.ts";
import { repositoryPlace } from "../repository-place.ts";

/** The record of a landing, and the end of a landing that its own run did not complete. */

type Deps = { store: Pick<Store, "state" | "read" | "blobs">; workspaces: Workspaces };

/**
 * Ends an unfinished landing that still locks the project of a Task, unless it is the Task's own and continues. Call it
 * while holding the landing turn. Rejects with `LandingUnfinished` when that is not possible yet.
 */
export const endUnfinishedLanding = async ({ store, workspaces }: Deps, taskID: string): Promise<void> => {
  const owner = workspaces.unfinishedLanding(taskID);
  if (owner === undefined) return;
  const state = await store.state(owner);
  const goesOn = state?.landingStarted != null && isActive(state);
  if (goesOn && owner === taskID) return;
  // The landing belongs to a service with another log; only that service knows what was begun.
  if (state === undefined && !workspaces.isKnown(owner)) return;
  try {
    const back = goesOn ? undefined : "its Task has ended";
    await workspaces.endLanding(owner, await begunPlan(store, owner), back, taskID);
  } catch (error) {
    // An error before the branch has the commit leaves everything as it was, and nothing in the way.
    if (workspaces.unfinishedLanding(taskID) !== undefined)
      throw error instanceof LandingUnfinished ? error : new LandingUnfinished(error);
  }
};

/**
 * Takes back the landing of a run that is about to fail, so that the project is as it was. Resolves to the event to
 * record with the failure. undefined: the Task can no longer fail, because the branch has its commit; the landing was
 * recorded.
 */
export const withdraw = async (run: Run, why: string): Promise<DomainEvent | undefined> => {
  const started = run.state().landingStarted;
  if (started === null) throw new Error(`Expected a landing of ${run.stream} that began, got none.`);
  await run.landingTurn();
  const plan = await planOf(run.store, started);
  if (remoteOf(run.state()) !== null) return withdrawPush(run, plan, why);
  const ended = await run.workspaces.endLanding(run.stream, plan, why, run.stream);
  if (!ended.ok) return { type: "landing.withdrawn", data: { reason: ended.reason.slice(0, 1000) } };
  await run.record([landedEvent(run.state(), plan, ended.kept)]);
  return undefined;
};

/** Only the remote can say whether a push that was begun got through. */
const withdrawPush = async (run: Run, plan: LandingPlan, why: string): Promise<DomainEvent | undefined> => {
  const place = repositoryPlace(run);
  const head = await run.repositories.ask(place, plan.ref, run.signal).catch((error: unknown) => {
    throw error instanceof RepositoryAway ? new LandingUnfinished(error) : error;
  });
  if (head !== publishedCommit(run.state().landingStarted ?? plan))
    return { type: "landing.withdrawn", data: { reason: why.slice(0, 1000) } };
  await run.record([landedEvent(run.state(), plan, [])]);
  return undefined;
};

export const landedEvent = (
  { unlandable, landingStarted }: TaskState,
  { commit, tree, ref, paths }: LandingPlan,
  left: readonly string[],
): DomainEvent => {
  const kept = [...new Set([...left, ...unlandable])];
  const merged = paths.filter((path) => path.merged === true && !kept.includes(path.path)).map(({ path }) => path);
  const pushed = landingStarted?.pushed;
  const more = { ...(merged.length === 0 ? {} : { merged }), ...(pushed === undefined ? {} : { pushed }) };
  return { type: "landing.finished", data: { commit, tree, ref, kept, ...more } };
};

const pausesMs = [1000, 2000, 4000, 8000];

/**
 * Tries to complete a started landing several times while holding the landing turn; after that the engine tries again.
 */
export const patiently = async <T>(run: Run, attempt: () => Promise<T>): Promise<T> => {
  for (const pause of pausesMs)
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof LandingUnfinished)) throw error;
      run.log.warn(
        { task: run.stream, error: messageOf(error) },
        "a landing that has started could not be completed yet",
      );
      await wait(pause, undefined, { signal: run.signal });
    }
  return attempt();
};

/** The plan of a landing of this Task that was started and has not ended; undefined: there is none. */
const begunPlan = async (store: Deps["store"], taskID: string): Promise<LandingPlan | undefined> => {
  // Earlier versions let a Task end with an unfinished landing; then only the log shows it.
  const types = ["landing.started", "landing.withdrawn", "landing.finished"] as const;
  const [newest] = await store.read(taskID, { types, last: true, limit: 1 });
  return newest?.type === "landing.started" ? planOf(store, newest.data) : undefined;
};

/** Many paths are stored in a blob, because no event exceeds 64 KiB. */
export const keepPaths = async (
  store: Pick<Store, "blobs">,
  paths: LandingPlan["paths"],
): Promise<EventData["landing.started"]["paths"]> => {
  const parts: string[] = [];
  for (const path of paths) {
    parts.push(JSON.stringify(path));
    await pace();
  }
  const text = `[${parts.join(",")}]`;
  return text.length <= 32 * 1024 ? paths : { blob: await store.blobs.put(Buffer.from(text), true) };
};

export const planOf = async (
  store: Pick<Store, "blobs">,
  started: EventData["landing.started"],
): Promise<LandingPlan> => {
  const { commit, tree, from, ref, paths, alone } = started;
  const more = alone === undefined ? {} : { alone };
  if (!("blob" in paths)) return { commit, tree, from, ref, paths, ...more };
  const bytes = await store.blobs.get(paths.blob.sha256);
  if (bytes === undefined) throw new Error(`The paths of the landing of ${commit} are gone from the data folder.`);
  return { commit, tree, from, ref, paths: await pathsIn(bytes.toString("utf8")) };
};

/** The text between two paths of `keepPaths`. It cannot occur in a JSON string, where quotes are escaped. */
const between = '},{"path":"';
/** Characters that are parsed without a pause. */
const mostAtOnce = 1024 * 1024;

const pathsIn = async (text: string): Promise<LandingPlan["paths"]> => {
  const paths: LandingPlan["paths"] = [];
  for (let at = 0; at < text.length; ) {
    const next = at + mostAtOnce < text.length ? text.indexOf(between, at + mostAtOnce) : -1;
    const end = next < 0 ? text.length : next + 1;
    const part = `${at === 0 ? "" : "["}${text.slice(at, end)}${next < 0 ? "" : "]"}`;
    for (const path of JSON.parse(part) as LandingPlan["paths"]) paths.push(path);
    at = next < 0 ? end : end + 1;
    await pace();
  }
  return paths;
};
