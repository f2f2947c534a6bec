import { onBase } from "../../domain/evidence/check.ts";
import { isActive, type TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import { isRun, type RunCheck } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { KeptResult } from "../../store/check-result.ts";
import type { Baseline, Run } from "../run.ts";
import { finish } from "../step/check.ts";
import { resultKey } from "../step/check-key.ts";
import { resultOf } from "../step/check-result.ts";
import { createRunCheckout } from "../workspace/check-files.ts";

/** The project's own checks on the base, beside the work, as `Baseline` describes. */
export const createBaseline = (run: () => Run): Baseline => {
  let begun: { tree: string; stop: AbortController; over: Promise<unknown> } | undefined;
  let stopped = false;

  const end = async (): Promise<void> => {
    const before = begun;
    begun = undefined;
    before?.stop.abort(new Error("the base is no longer asked for"));
    await before?.over;
  };

  return {
    begin() {
      const state = run().state();
      const tree = state.workspace?.baseTree;
      if (stopped || tree == null || begun?.tree === tree || !isWanted(run(), state)) return;
      const last = begun?.over;
      begun?.stop.abort(new Error("the base is another one now"));
      const stop = new AbortController();
      const signal = AbortSignal.any([run().signal, stop.signal]);
      const work = async () => {
        await last;
        await findOut({ ...run(), signal });
      };
      begun = { tree, stop, over: work().catch((error: unknown) => (stop.signal.aborted ? undefined : error)) };
    },
    async settled() {
      // It was to end, and a message came in.
      stopped = false;
      this.begin();
      const now = begun;
      const failure = await now?.over;
      if (failure === undefined) return;
      if (begun === now) begun = undefined;
      throw failure;
    },
    async stop() {
      stopped = true;
      await end();
    },
    [Symbol.asyncDispose]: end,
  };
};

/** Something may have been changed, and there are checks whose result on the base is not known. */
const isWanted = ({ own }: Run, state: TaskState): boolean => {
  const checks = checksOf(state, own());
  return (
    checks.length > 0 &&
    (state.edits > 0 || state.touched || state.tree !== null) &&
    state.workspace?.kind === "worktree" &&
    isActive(state) &&
    state.cancel === null &&
    state.landed === null &&
    state.production === null &&
    checks.some(({ id }) => onBase(state, id) === undefined)
  );
};

const checksOf = ({ ownChecks }: TaskState, own: readonly RunCheck[]): readonly RunCheck[] =>
  ownChecks.length > 0 ? ownChecks.filter(isRun) : own;

const findOut = async (run: Run): Promise<void> => {
  while (run.state().ownChecks.length === 0)
    await run.record([{ type: "checks.found", data: { checks: [...run.own()] } }], { decidedAt: run.state().version });
  await using files = createRunCheckout(() => beside, "base");
  const beside: Run = { ...run, checkout: files };
  for (const spec of checksOf(run.state(), [])) {
    const { workspace, round } = run.state();
    if (workspace === null || onBase(run.state(), spec.id) !== undefined) continue;
    const { baseCommit: commit, baseTree: tree } = workspace;
    if (commit !== null && tree !== null)
      await findOne(beside, spec, { checkID: spec.id, on: "base", round, commit, tree });
  }
};

type About = EventData["check.started"] & { tree: string };

const findOne = async (run: Run, spec: RunCheck, about: About): Promise<void> => {
  const key = resultKey(run, await run.workspace(), spec, about.tree);
  using _turn = await run.checkResults.turn(key, run.signal);
  const known = run.checkResults.find(key);
  if (known !== undefined) return await record(run, about, known);
  using _place = await run.besides.take(0, run.signal);
  using _slot = await run.slot(run.signal);
  await run.record([{ type: "check.started", data: about }]);
  await finish(run, spec, about, await tried(run, spec, about));
};

/** What keeps a check from being run on the base is a result, too: it decides nothing. */
const tried = async (run: Run, spec: RunCheck, { commit }: About): ReturnType<typeof resultOf> => {
  try {
    return await resultOf(run, spec, await run.checkout.at(commit), "base");
  } catch (error) {
    run.signal.throwIfAborted();
    const reason = `could not be run on the base: ${messageOf(error)}`.slice(0, 2000);
    run.log.warn({ task: run.stream, check: spec.id, error: messageOf(error) }, "a check could not be run on the base");
    const none = { exitCode: null, durationMs: 0, output: `${reason}\n`, tail: reason, final: true };
    return { ...none, state: "error", reason, flaky: false, redefined: [] };
  }
};

/** Another Task ran it on the same tree. Its log may be gone with that Task. */
const record = async (run: Run, about: About, { log, ...known }: KeptResult): Promise<void> => {
  const bytes = (await run.store.blobs.get(log.sha256)) ?? Buffer.from(known.tail);
  await run.record([{ type: "check.finished", data: { ...about, ...known, log: await run.store.blobs.put(bytes) } }]);
};
