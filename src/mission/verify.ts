import { browserForImage } from "../check/browser/find.ts";
import type { Browser, CheckResult } from "../check/check.ts";
import { runCheck } from "../check/run.ts";
import { dueNow } from "../engine/due.ts";
import type { Network } from "../process/network/allow-list.ts";
import { aboutOf, type CheckSpec, isRun, type RunCheck } from "../protocol/check.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Verification } from "../protocol/mission/status.ts";
import { setUpCheckout } from "../task/workspace/setup.ts";
import { guardCommands } from "../task/workspace/tamper.ts";
import { EnvironmentLost } from "../workspace/error.ts";
import { NoFiles } from "../tool/tool.ts";
import type { CheckEnvironment, Checkout, Head } from "../workspace/workspace.ts";
import type { MissionRun } from "./run.ts";

/**
 * Runs checks on the project's head, in the sandbox, on files that are thrown away: the Mission records nothing but the
 * results. A call whose results were recorded before the service died is not run again.
 */

export type Verified = Pick<EventData["mission.verified"], "commit" | "results">;

/** A string says why nothing was run. */
export const verify = async (
  run: MissionRun,
  { callID, of, checks }: Pick<EventData["mission.verified"], "callID" | "of"> & { checks: readonly CheckSpec[] },
  { signal, onOutput }: { signal: AbortSignal; onOutput: (text: string) => void },
): Promise<Verified | string> => {
  const { acceptance, verification } = run.state();
  const known = of === "acceptance" ? acceptance : verification;
  if (known?.callID === callID) return known;
  const opened = await headOf(run);
  if (typeof opened === "string") return opened;
  const { commit } = opened;
  if (of === "acceptance" && known?.commit === commit && isGreen(known.results)) return known;
  const results: Verification[] = [];
  const given = await run.environment(run.state()).catch((error: unknown) => {
    if (error instanceof EnvironmentLost) return error.message;
    throw error;
  });
  if (typeof given === "string") return given;
  using _given = run.processes.setEnvironment(run.stream, given?.environment);
  const browser = browserForImage(run.browser(), given?.environment.image);
  const network = given?.environment.network ?? run.sandbox.network;
  const setup = given === undefined ? run.setup : given.setup;
  const failed = await setUpCheckout({ ...run, setup, signal }, opened.checkout, (place) =>
    guard(run, opened, place, []),
  );
  for (const spec of checks.filter(isRun)) {
    using _slot = await run.slots.take(dueNow(run.now(), run.state().priority).rank, signal);
    const result =
      failed !== undefined && spec.kind !== "file"
        ? failed
        : await resultOf(run, opened, spec, { signal, network, browser, onOutput });
    results.push(await recorded(run, spec, result, checks.length));
  }
  await run.record([{ type: "mission.verified", data: { sessionID: run.stream, callID, of, commit, results } }]);
  return { commit, results };
};

type Opened = { commit: string; checkout: Checkout; files: Head["files"] };

const headOf = async (run: MissionRun): Promise<Opened | string> => {
  const head = await run.head().catch((error: unknown) => {
    if (error instanceof NoFiles) return error.message;
    throw error;
  });
  if (typeof head === "string") return head;
  const { commit, checkout, files } = head;
  if (commit === null || checkout === undefined)
    return "Expected a project with a commit, got one in which nothing is committed: checks have no files of their own there.";
  return { commit, checkout: await checkout(), files };
};

/** Whether every required check passed, and at least one check did. */
export const isGreen = (results: readonly Verification[]): boolean =>
  failedRequired(results).length === 0 && results.some(({ state }) => state === "passed");

/** The required checks that did not pass. */
export const failedRequired = (results: readonly Verification[]): Verification[] =>
  results.filter(({ required, state }) => required && state !== "passed");

type How = { signal: AbortSignal; network: Network; browser: Browser; onOutput?: (text: string) => void };

const resultOf = async (run: MissionRun, opened: Opened, spec: RunCheck, how: How): Promise<CheckResult> => {
  for (;;) {
    await run.space();
    const pauses = run.disk.pauses();
    await using place = await opened.checkout.open(spec.id);
    const touched: string[] = [];
    const guarded = guard(run, opened, place, touched);
    const result = await runCheck(spec, guarded, {
      limits: run.limits,
      blob: (sha256) => run.store.blobs.get(sha256),
      ...how,
    });
    how.signal.throwIfAborted();
    if (touched.length > 0)
      return { ...result, state: "failed", reason: `changed Git's own files: ${touched.slice(0, 5).join(", ")}` };
    // A check that was paused for lack of disk space may have failed for that alone, so it runs again.
    if (result.state === "passed" || run.disk.pauses() === pauses) return result;
  }
};

const guard = <P extends Pick<CheckEnvironment, "run"> & Partial<Pick<CheckEnvironment, "startInteractive">>>(
  run: MissionRun,
  { files }: Opened,
  place: P,
  touched: string[],
): P =>
  guardCommands(
    place,
    { taskID: run.stream, project: run.state().project, workspace: files.prepared },
    { tier: run.sandbox.tier, log: run.log },
    (found) => touched.push(...found.map(({ path }) => path)),
  );

/** Characters, of all checks together: their tails have to fit into one event. */
const tailChars = 12_000;
const longestReason = 300;

const recorded = async (
  { store }: MissionRun,
  spec: RunCheck,
  { state, exitCode, durationMs, reason, tail, output }: CheckResult,
  count: number,
): Promise<Verification> => ({
  checkID: spec.id,
  name: (spec.name === "" ? aboutOf(spec) : spec.name).slice(0, 200),
  required: spec.required,
  state,
  exitCode,
  durationMs: Math.round(durationMs),
  reason: reason === null ? null : reason.slice(0, longestReason),
  tail: state === "passed" ? "" : tail.slice(-Math.floor(tailChars / count)),
  log: await store.blobs.put(Buffer.from(output)),
});
