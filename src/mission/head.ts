import { messageOf, ServiceError } from "../error.ts";
import { ForgeRefused, RepositoryAway } from "../repository/repository.ts";
import { waitThrough } from "../task/workspace/repository.ts";
import { NoFiles } from "../tool/tool.ts";
import { WorkspaceLost } from "../workspace/error.ts";
import type { Head } from "../workspace/workspace.ts";
import { branchHead } from "./branch.ts";
import { taskDirectory } from "./repository.ts";
import type { MissionRun } from "./run.ts";

/** The files of the Mission's project at its head. All calls of one reply see the same head. */
export type HeadFiles = AsyncDisposable & {
  /** Rejects with `NoFiles` where the files are not available; the message is for the agent. */
  open(): Promise<Head>;
  /** Moves the files to the current head, even if calls of this reply have seen an older one. */
  refresh(): Promise<Head>;
};

export const createHeadFiles = (run: () => MissionRun): HeadFiles => {
  let opened: { reply: number | undefined; head: Promise<Head> } | undefined;
  const move = (): Promise<Head> => {
    const { stream, workspaces, signal, state } = run();
    const before: Promise<unknown> = opened?.head ?? Promise.resolve();
    const head = before
      .catch(() => undefined)
      .then(async () => workspaces.openHead({ key: stream, ...(await placeOf(run())) }))
      .catch((error: unknown) => {
        signal.throwIfAborted();
        throw isSaid(error) ? new NoFiles(messageOf(error)) : error;
      });
    opened = { reply: state().reply?.read, head };
    return head;
  };
  return {
    open: () => (opened === undefined || opened.reply !== run().state().reply?.read ? move() : opened.head),
    refresh: move,
    async [Symbol.asyncDispose]() {
      if (opened === undefined) return;
      await opened.head.catch(() => undefined);
      await run().workspaces.closeHead(run().stream);
    },
  };
};

/** The directory and commit from which a Task of the Mission would begin now. */
const placeOf = async (run: MissionRun): Promise<{ directory: string; commit?: string }> => {
  const directory = taskDirectory(run);
  const place = run.repositories.at(directory);
  if (place === undefined) {
    const commit = await branchHead(run);
    return commit === null ? { directory } : { directory, commit };
  }
  const { commit } = await waitThrough(run, place.url, () => run.repositories.fetch(place, run.signal));
  return { directory, commit };
};

const isSaid = (error: unknown): boolean =>
  error instanceof WorkspaceLost ||
  error instanceof RepositoryAway ||
  error instanceof ForgeRefused ||
  (error instanceof ServiceError && !error.retryable);
