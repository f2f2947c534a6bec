import { causeOf, isRed, onBase, isInconclusive } from "../../domain/evidence/check.ts";
import { isActive, isChanged, type TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import { aboutOf, isRun, type RunCheck } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { KeptResult } from "../../store/check-result.ts";
import { piecesOf } from "../../store/blob/piece.ts";
import type { Baseline, BaseResult, Run } from "../run.ts";
import { finish } from "../step/check.ts";
import { projectKey, resultKey } from "../session/check-key.ts";
import { resultOf } from "../step/check-result.ts";
import { createRunCheckout } from "../workspace/check-files.ts";
import { createDifference } from "./difference.ts";

/** Runs the project's own checks on the base, concurrently with the work; see `Baseline`. */
export const createBaseline = (run: () => Run): Baseline => {
  let begun: { tree: string; stop: AbortController; over: Promise<unknown> } | undefined;
  let stopped = false;
  /** When each running check began. */
  const running = new Map<RunCheck, number>();
  const began: Began = (spec) => {
    running.set(spec, performance.now());
    return { [Symbol.dispose]: () => running.delete(spec) };
  };

  const end = async (): Promise<void> => {
    stopped = true;
    const before = begun;
    begun = undefined;
    before?.stop.abort(new Error("the base is no longer asked for"));
    await Promise.all([before?.over, difference.over()]);
  };

  const start = (tree: string): void => {
    if (stopped || begun?.tree === tree || !isWanted(run())) return;
    const last = begun?.over;
    begun?.stop.abort(new Error("the base is another one now"));
    const stop = new AbortController();
    const signal = AbortSignal.any([run().signal, stop.signal]);
    const work = async () => {
      await last;
      await findOut({ ...run(), signal }, began);
    };
    begun = { tree, stop, over: work().catch((error: unknown) => (stop.signal.aborted ? undefined : error)) };
  };
  const difference = createDifference(run, start);

  /** Results that other Tasks have found for this tree. */
  let known: { tree: string; results: ReadonlyMap<string, KeptResult> } | undefined;
  const lookUp = (tree: string): void => {
    if (known?.tree === tree || run().own().length === 0 || !isAtWork(run().state())) return;
    known = { tree, results: new Map() };
    void knownOf(run(), tree).then(
      (results) => {
        known = { tree, results };
      },
      // Without known results, the checks run once more.
      () => undefined,
    );
  };
  const resultOn = ({ id }: RunCheck): { result: BaseResult; before: boolean } | undefined => {
    const state = run().state();
    const found = known?.tree === state.workspace?.baseTree ? known?.results.get(id) : undefined;
    const result = found ?? onBase(state, id);
    return result === undefined ? undefined : { result, before: found !== undefined };
  };

  return {
    begin() {
      const tree = run().state().workspace?.baseTree;
      if (tree != null) lookUp(tree);
      if (stopped || tree == null || begun?.tree === tree || !isWanted(run())) return;
      if (isChanged(run().state())) start(tree);
      else difference.look(tree);
    },
    slowChecks: () =>
      [...running].flatMap(([spec, at]) =>
        "timeoutSeconds" in spec && performance.now() - at > spec.timeoutSeconds * 500 ? [spec.id] : [],
      ),
    async settled() {
      // The Task was about to end when a message came in.
      stopped = false;
      const tree = run().state().workspace?.baseTree;
      if (tree != null) start(tree);
      const now = begun;
      const failure = await now?.over;
      if (failure === undefined) return;
      if (begun === now) begun = undefined;
      throw failure;
    },
    news(isKnown) {
      return checksOf(run().state(), run().own()).flatMap((spec) => {
        const found = resultOn(spec);
        if (found === undefined || isKnown(spec, found.result)) return [];
        const words = newsOf(found.result, found.before);
        return words === undefined ? [] : [`The service ran \`${aboutOf(spec)}\` on the project as it was: ${words}.`];
      });
    },
    stop: end,
    [Symbol.asyncDispose]: end,
  };
};

/**
 * What an agent should know of the result; undefined: it may rely on the check. `before`: another Task has found it.
 */
const newsOf = (result: BaseResult, before: boolean): string | undefined => {
  if (isInconclusive(result)) return `${causeOf(result)}. It says nothing of your work; prove it by other commands`;
  if (isRed(result)) return `${causeOf(result)}. It was red without you, and does not count against your work`;
  return before ? "it passed" : undefined;
};

const knownOf = async (run: Run, tree: string): Promise<ReadonlyMap<string, KeptResult>> => {
  const workspace = await run.workspace();
  return new Map(
    run.own().flatMap((spec) => {
      const found = run.checkResults.find(resultKey(run, workspace, spec, tree));
      return found === undefined ? [] : [[spec.id, found] as const];
    }),
  );
};

const isAtWork = (state: TaskState): boolean =>
  state.workspace?.kind === "worktree" &&
  isActive(state) &&
  state.cancel === null &&
  state.landed === null &&
  state.production === null;

/** Whether a check's result on the base is missing while the Task continues. */
const isWanted = (run: Run): boolean => {
  const state = run.state();
  const checks = checksOf(state, run.own());
  return checks.length > 0 && isAtWork(state) && checks.some(({ id }) => onBase(state, id) === undefined);
};

const checksOf = ({ ownChecks }: TaskState, own: readonly RunCheck[]): readonly RunCheck[] =>
  ownChecks.length > 0 ? ownChecks.filter(isRun) : own;

type Began = (spec: RunCheck) => Disposable;

const findOut = async (run: Run, began: Began): Promise<void> => {
  while (run.state().ownChecks.length === 0)
    await run.record([{ type: "checks.found", data: { checks: [...run.own()] } }], { decidedAt: run.state().version });
  await using files = createRunCheckout(() => beside, "base");
  const beside: Run = { ...run, checkout: files };
  for (const spec of checksOf(run.state(), [])) {
    const { workspace, round } = run.state();
    if (workspace === null || onBase(run.state(), spec.id) !== undefined) continue;
    const { baseCommit: commit, baseTree: tree } = workspace;
    if (commit !== null && tree !== null)
      await findOne(beside, spec, { checkID: spec.id, on: "base", round, commit, tree }, began);
  }
};

type About = EventData["check.started"] & { tree: string };

const findOne = async (run: Run, spec: RunCheck, about: About, began: Began): Promise<void> => {
  const key = resultKey(run, await run.workspace(), spec, about.tree);
  using _turn = await run.checkResults.turn(key, run.signal);
  const known = run.checkResults.find(key);
  if (known !== undefined) {
    await record(run, about, known);
    return remember(run, spec);
  }
  using _place = await run.backgroundSlots.take(0, run.signal);
  using _slot = await run.slot(run.signal);
  await run.record([{ type: "check.started", data: about }]);
  using _running = began(spec);
  await finish(run, spec, about, await tried(run, spec, about));
  remember(run, spec);
};

/** Remembers a result for the first request of the next Task, if it is likely to come again whatever the tree. */
const remember = (run: Run, spec: RunCheck): void => {
  const result = onBase(run.state(), spec.id);
  if (result === undefined) return;
  const lasts = result.exitCode === 127 || (result.unfinished === true && result.reason?.startsWith("did not end"));
  const key = projectKey(run, spec);
  if (!(lasts && isInconclusive(result)) && !isRed(result)) return run.checkResults.forget(key);
  const { state, exitCode, durationMs, log, unfinished } = result;
  const reason = result.reason === null ? null : run.store.redact(result.reason);
  const ended = unfinished === true ? { unfinished } : {};
  run.checkResults.keep(key, { state, exitCode, durationMs, log, tail: "", reason, ranFor: run.stream, ...ended });
};

/** A check that cannot be run on the base gets a result as well: an error, which decides nothing. */
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

/** Records the result that another Task found for the same tree. Its log may have been deleted with that Task. */
const record = async (run: Run, about: About, { log, ...known }: KeptResult): Promise<void> => {
  const { blobs } = run.store;
  const isThere = (await blobs.read(log.sha256)) !== undefined;
  const kept = isThere ? blobs.write(piecesOf(blobs, log.sha256)) : blobs.put(Buffer.from(known.tail));
  await run.record([{ type: "check.finished", data: { ...about, ...known, log: await kept } }]);
};
