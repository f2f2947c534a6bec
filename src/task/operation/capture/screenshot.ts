import { browserForImage } from "../../../check/browser/find.ts";
import type { Visit } from "../../../check/browser/visit.ts";
import { isActive, type TaskState } from "../../../domain/state/task.ts";
import { tamperedText } from "../../../domain/task/tampered.ts";
import { dueNow } from "../../../engine/due.ts";
import type { Engine } from "../../../engine/engine.ts";
import { ServiceError } from "../../../error.ts";
import { newID } from "../../../id.ts";
import type { Log } from "../../../log.ts";
import type { Limits } from "../../../protocol/limit.ts";
import type { CaptureAccepted } from "../../../protocol/task/accepted.ts";
import type { Preview } from "../../../protocol/task/board.ts";
import type { Store } from "../../../store/store.ts";
import type { Tampered } from "../../../workspace/tamper/guard.ts";
import { EnvironmentLost } from "../../../workspace/error.ts";
import type { CheckEnvironment, Workspaces } from "../../../workspace/workspace.ts";
import type { CapturesDeps, Tasks } from "../../tasks.ts";
import { workOf } from "../../workspace/retention.ts";
import { clearAfter } from "../../workspace/clean-in-place.ts";
import { guardCommands } from "../../workspace/tamper.ts";
import { openApart } from "./secret-checkout.ts";
import type { Change } from "../commit-change.ts";

/**
 * Screenshots of what a Task has made, on request. No server is kept running: each screenshot starts one as the Task's
 * first check with a server does, in the Task's sandbox and with its environment, and ends it. Only inactive Tasks can
 * be captured, because a server may write anything; the files it changed are restored before agents work again. A
 * server that gets secrets runs as a check with secrets does: in a checkout, after the setup, as the base commit or the
 * operator defines it.
 */

export interface Captures {
  preview(state: TaskState): Preview;
  take: Tasks["capture"];
  /** Ends the capture under way for a Task, or for all Tasks. */
  stop(taskID?: string): void;
}

type Wanted = { store: Store; engine: Engine; workspaces: Workspaces; limits: Limits; log: Log };

export const createCaptures = (
  { browser, slots, network, tier, environment, processes }: CapturesDeps,
  { store, engine, workspaces, limits, log }: Wanted,
  { own, change }: Change,
): Captures => {
  const open = new Map<string, AbortController>();

  /** Whether a capture can be taken now, and if not, why. */
  const stateOf = (state: TaskState): Preview["state"] => {
    if (serverOf(state) === undefined) return "none";
    if (browser().program === undefined) return "unavailable";
    if (isActive(state) || open.has(state.taskID)) return "busy";
    return state.workspace === null || isUncommitted(state) ? "unavailable" : "ready";
  };

  const picture = async (state: TaskState, where: Visit, stop: AbortSignal): Promise<Buffer> => {
    const { taskID, workspace: prepared } = state;
    if (prepared === null) throw unavailable(`Expected files of ${taskID}, it has none yet`);
    using _slot = await slots.take(dueNow(new Date(), state.priority).rank, stop);
    const { visit } = await import("../../../check/browser/visit.ts");
    const idle = async () => {
      const now = await store.state(taskID);
      return now !== undefined && !isActive(now);
    };
    const given = await environment(state).catch((error: unknown) => {
      if (error instanceof EnvironmentLost) throw unavailable(error.message.replace(/\.$/, ""));
      throw error;
    });
    const beside = browserForImage(browser(), given?.environment.image).why;
    if (beside !== undefined) throw unavailable(beside);
    const until = {
      signal: stop,
      timeoutMs: limits.previewSeconds * 1000,
      network: given?.environment.network ?? network,
    };
    if (!(await idle())) throw atWork(taskID);
    // The run that ended the Task may still be stopping its commands and removing its checkout.
    await engine.interrupt(taskID);
    const tampered: Tampered[] = [];
    const begun = new Date();
    const guard = <P extends Pick<CheckEnvironment, "run"> & Partial<CheckEnvironment>>(place: P): P =>
      guardCommands(place, state, { tier, log }, (files) => tampered.push(...files));
    const commit = workOf(state);
    const visited = await workspaces.withIdleWorkspace(taskID, prepared, commit, idle, async (workspace) => {
      using _given = processes.setEnvironment(taskID, given?.environment);
      const wanted = { state, commit, server: where, given, guard, signal: stop };
      await using apart = await openApart({ store, workspaces, limits }, workspace, wanted);
      if (apart !== undefined) return await visit(where, guard(apart), browser(), until);
      const seen = await visit(where, guard(workspace), browser(), until);
      await clearAfter(workspace, taskID, begun, { log, signal: stop });
      return seen;
    });
    if (tampered.length > 0) throw refused(tampered);
    if (visited !== undefined && "png" in visited.shot) return visited.shot.png;
    // A run that has begun in the meantime ends all processes of its Task.
    if (visited === undefined || !(await idle())) throw atWork(taskID);
    const { shot, log: said } = visited;
    const why = "failed" in shot ? shot.failed : "error" in shot ? shot.error : "";
    throw new ServiceError("preview_failed", `${store.redact(why)}.`, { details: { log: store.redact(said) } });
  };

  return {
    preview(state) {
      const captures = state.artifacts.filter(({ by }) => by.kind === "capture");
      return { url: serverOf(state)?.url ?? null, state: stateOf(state), captures };
    },

    async take(directory, taskID, { url: asked, viewport = usual }, once, signal) {
      const state = await own(directory, taskID);
      const server = serverOf(state);
      if (server === undefined)
        throw unavailable(
          "Expected a check of the kind http or visual, whose `start` serves the page; this Task has none",
        );
      if (isActive(state)) throw atWork(taskID);
      if (isUncommitted(state))
        throw unavailable(
          "Expected a Task whose work is committed, this one was stopped in the middle of it. Send a message to continue",
        );
      const where = { ...server, url: asked ?? server.url, viewport };
      if (new URL(where.url).port !== new URL(server.url).port)
        throw new ServiceError(
          "invalid_request",
          `body.url: Expected a page of ${new URL(server.url).origin}, where the Task's server listens, got ${JSON.stringify(where.url)}.`,
          { issues: [{ path: "body.url", message: "Expected a page of the Task's server", code: "custom" }] },
        );
      if (state.artifacts.filter(({ by }) => by.kind !== "call").length >= limits.pictures)
        throw unavailable(`Expected fewer than ${limits.pictures} pictures of a Task (limits.pictures)`);
      if (browser().program === undefined)
        throw unavailable((await import("../../../check/browser/visit.ts")).noBrowser);
      if (open.has(taskID) || open.size >= most)
        throw new ServiceError(
          "rate_limited",
          `Expected at most ${most} captures at once, one of a Task. Try again in a few seconds.`,
          {
            headers: { "retry-after": "5" },
          },
        );
      const stop = new AbortController();
      open.set(taskID, stop);
      try {
        const png = await picture(state, where, AbortSignal.any([signal, stop.signal]));
        const kept = await store.blobs.put(png);
        const artifactID = newID("art");
        return await change<CaptureAccepted>(taskID, once, () => ({
          status: 200,
          body: { artifactID, eventID: 0 },
          events: [
            {
              type: "artifact.recorded",
              data: {
                artifactID,
                filename: "preview.png",
                title: `${where.url} as it looks`,
                mime: "image/png",
                ...kept,
                by: { kind: "capture", url: where.url, viewport },
              },
            },
          ],
        }));
      } catch (error) {
        if (stop.signal.aborted)
          throw new ServiceError("draining", "The capture was stopped, because the Task or the service is stopping.");
        throw error;
      } finally {
        open.delete(taskID);
      }
    },

    stop(taskID) {
      for (const [id, under] of open) if (taskID === undefined || id === taskID) under.abort();
    },
  };
};

/** How many captures may run at once; each one starts a browser. */
const most = 2;

const usual = { width: 1280, height: 720 };

/** The server of the first check of the kind `visual`, otherwise of the first of the kind `http`. */
const serverOf = ({ checks }: TaskState): Visit | undefined => {
  const found = checks.find(({ kind }) => kind === "visual") ?? checks.find(({ kind }) => kind === "http");
  if (found?.kind !== "visual" && found?.kind !== "http") return undefined;
  const { start, cwd, env, url } = found;
  return { start, cwd, env, url, viewport: usual };
};

/**
 * The files could not be restored after a capture: the Task ended with changes that are not committed, or ended at a
 * node that had taken it over and does not have its files yet.
 */
const isUncommitted = ({ workspace, touched, moved }: TaskState): boolean =>
  workspace?.kind === "worktree" && (touched || moved !== null);

const refused = (files: readonly Tampered[]): ServiceError =>
  new ServiceError(
    "preview_failed",
    "While the page was served, something changed that can make Git run programs or push elsewhere: " +
      `${tamperedText([...files])}.`,
  );

const unavailable = (why: string): ServiceError => new ServiceError("preview_not_available", `${why}.`);

const atWork = (taskID: string): ServiceError =>
  new ServiceError(
    "task_active",
    `Expected ${taskID} to be inactive, its agents are working. Try again when it has ended.`,
  );
