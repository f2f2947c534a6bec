import { belongsTo, applyEvent } from "../../domain/conversation/fold.ts";
import { evolveMission } from "../../domain/mission/evolve.ts";
import { withLocalDirectory } from "../../repository/repository.ts";
import { commitThroughClaim } from "../../store/claimed-stream.ts";
import { createPatience, waitingForSpace } from "../../store/disk/patience.ts";
import { retryingReads } from "../../store/outage.ts";
import type { Claim } from "../../store/store.ts";
import { openConversation } from "../../task/session/conversation.ts";
import { createHeadFiles } from "../head.ts";
import type { MissionDeps, MissionRun } from "../run.ts";

/** Opens a run from a claim: folds the log and composes what the run needs. */
export const openMission = async (
  deps: MissionDeps,
  claim: Claim,
  signal: AbortSignal,
  scope: AsyncDisposableStack,
): Promise<MissionRun | undefined> => {
  const { stream, fence } = claim;
  const folded = await deps.store.mission(stream);
  if (folded === undefined) return undefined;
  let state = withLocalDirectory(deps.repositories, folded);
  const patience = scope.use(
    createPatience({
      disk: deps.disk,
      record: (event) => record([event], { once: true }),
      isEnding: () => false,
      standAside: () => deps.engine.standAside(stream),
      signal,
      now: deps.now,
    }),
  );
  const store = retryingReads(waitingForSpace(deps.store, patience), signal);
  const chat = await openConversation(store, stream, state);
  const record = commitThroughClaim(store, claim, {
    version: () => state.version,
    absorb(event) {
      state = evolveMission(state, event);
      if (belongsTo(event, stream, true)) applyEvent(chat, event);
    },
    recorded: deps.recorded,
    // Events that a dispatch or a wake committed to this stream.
    missed: deps.recorded,
    retry: patience.retry,
  });
  let last: Promise<unknown> = Promise.resolve();
  const files = createHeadFiles(() => run);
  const run: MissionRun = {
    ...deps,
    store,
    stream,
    signal,
    space: patience.space,
    fence,
    chat,
    state: () => state,
    record,
    inOrder(work) {
      const turn = last.then(work, work);
      last = turn.catch(() => {});
      return turn;
    },
    head: () => files.open(),
    newestHead: () => files.refresh(),
  };
  scope.use(files);
  return run;
};
