import { browserForImage } from "../../check/browser/find.ts";
import { runCheck } from "../../check/run.ts";
import type { CheckResult } from "../../check/check.ts";
import { ownServer } from "../../check/project/own-server.ts";
import { findRedefined } from "../../check/project/redefined.ts";
import { isGating, onBase } from "../../domain/evidence/check.ts";
import { isCommand, type RunCheck } from "../../protocol/check.ts";
import type { Checkout, FileOverride } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { withDiskBound } from "../workspace/disk-bound.ts";
import { withSecrets } from "../workspace/setup.ts";
import { withTamperGuard } from "../workspace/tamper.ts";

/** One check, from its first attempt to the result that counts. */

export type Result = CheckResult & { flaky: boolean; redefined: string[] };

export const resultOf = async (
  run: Run,
  spec: RunCheck,
  checkout: Checkout | undefined,
  on: "base" | "work",
): Promise<Result> => {
  // Output of checks that run beside the work is not published: readers of the live frames follow the work.
  const quiet = on === "base" && isOwn(run, spec);
  const secrets = checkout === undefined ? undefined : await secretsFor(run, spec, checkout, on);
  const how: How = { ...secrets, quiet };
  const first = { ...(await attempt(run, spec, checkout, how)), flaky: false, redefined: secrets?.redefined ?? [] };
  if (checkout === undefined || on === "base") return first;
  const result = await again(run, spec, checkout, first, how);
  if (secrets !== undefined) return result;
  return result.state === "passed" ? checkWithOriginal(run, spec, checkout, result) : result;
};

/**
 * The result, without a run, of a project's check that did not end on the base: it decides nothing, so nobody waits for
 * it again. undefined: the check has to run.
 */
export const unfinishedOnBaseResult = (run: Run, spec: RunCheck): Result | undefined => {
  const before = isOwn(run, spec) ? onBase(run.state(), spec.id) : undefined;
  if (before?.unfinished !== true) return undefined;
  const reason = `not run, because before the work it ${before.reason ?? "did not end"}`;
  const none = { exitCode: null, durationMs: 0, output: `${reason}\n`, tail: reason, final: true };
  return { ...none, state: "error", reason, unfinished: true, flaky: false, redefined: [] };
};

/** `laid`: files to write over the tree; `env`: secrets; `quiet`: the output is not published. */
type How = { laid?: readonly FileOverride[]; env?: Readonly<Record<string, string>>; quiet?: boolean };

/**
 * The secrets that a check gets if it is a command of the project's own, or a server, as the base commit defines it. If
 * the work has changed the definition, the files of the base are put back, and the result with them is the one that
 * counts. undefined: the check gets no secrets.
 */
const secretsFor = async (
  run: Run,
  spec: RunCheck,
  checkout: Checkout,
  on: "base" | "work",
): Promise<(How & { redefined: string[] }) | undefined> => {
  const { secrets: env } = run.environment;
  if (Object.keys(env).length === 0 || spec.kind === "file") return undefined;
  const base = run.state().workspace?.baseCommit;
  if (base == null) return undefined;
  if (!isCommand(spec)) {
    const own = await ownServer(spec, run.environment.shell, await checkout.before(base));
    return own && { env, laid: own.laid, redefined: own.names };
  }
  if (Object.keys(spec.env ?? {}).length > 0) return undefined;
  if ((spec.cwd ?? ".") !== "." || !run.commands().includes(spec.run)) return undefined;
  if (on === "base" || base === run.state().tree?.commit) return { env, redefined: [] };
  const { laid, names } = await findRedefined(spec.run, ".", await checkout.before(base));
  return { env, laid, redefined: names };
};

const isOwn = (run: Run, spec: RunCheck): boolean => run.state().ownChecks.some(({ id }) => id === spec.id);

/**
 * Runs a failed check once more on the same files, to find out whether its result is reliable. A project's check runs
 * again only if it may decide, that is, unless it is known not to have passed on the base.
 */
const again = async (run: Run, spec: RunCheck, checkout: Checkout, first: Result, how: How): Promise<Result> => {
  const idle = isOwn(run, spec) && onBase(run.state(), spec.id) !== undefined && !isGating(run.state(), spec);
  if (first.state !== "failed" || first.final || idle) return first;
  const second = await attempt(run, spec, checkout, { ...how, quiet: false });
  if (second.state !== "passed") return first;
  const output = `${first.output}\n--- ${first.reason ?? "failed"}; once more ---\n${second.output}`;
  return { ...first, ...second, output, durationMs: first.durationMs + second.durationMs, flaky: true };
};

/** If the work changed the files that define the check, it must also pass with their earlier versions. */
const checkWithOriginal = async (run: Run, spec: RunCheck, checkout: Checkout, green: Result): Promise<Result> => {
  const command = spec.kind === "file" ? undefined : "run" in spec ? spec.run : spec.start;
  const base = run.state().workspace?.baseCommit;
  if (command === undefined || base == null || base === run.state().tree?.commit) return green;
  const cwd = (spec.kind === "file" ? undefined : spec.cwd) ?? ".";
  const { laid, names } = await findRedefined(command, cwd, await checkout.before(base));
  if (names.length === 0) return green;
  const second = await attempt(run, spec, checkout, { laid });
  const told = names.join(", ");
  const output = `${green.output}\n--- with ${told} as before the work ---\n${second.output}`;
  const durationMs = green.durationMs + second.durationMs;
  const result = { ...green, output, durationMs, redefined: names };
  if (second.state === "passed") return result;
  const reason = `passes only with the Task's own ${told}; with that as before the work: ${second.reason ?? "failed"}`;
  const { state, exitCode, tail } = second;
  return { ...result, state, exitCode, tail, reason };
};

/**
 * Repeats a failed run that a pause interrupted: a command that was suspended for want of disk space may fail for that
 * alone.
 */
const attempt = async (run: Run, spec: RunCheck, checkout: Checkout | undefined, how: How): Promise<CheckResult> => {
  for (;;) {
    await run.space();
    const pauses = run.disk.pauses();
    const result = await runOnce(run, spec, checkout, how);
    if (result.state === "passed" || run.disk.pauses() === pauses) return result;
  }
};

const runOnce = async (
  run: Run,
  spec: RunCheck,
  checkout: Checkout | undefined,
  { laid = [], env, quiet = false }: How,
): Promise<CheckResult> => {
  const options = {
    limits: run.limits,
    browser: browserForImage(run.browser(), run.environment.image),
    blob: (sha256: string) => run.store.blobs.get(sha256),
    signal: run.signal,
    network: run.environment.network ?? run.sandbox.network,
    ...(quiet ? {} : { onOutput: (text: string) => publish(run, spec, text) }),
  };
  if (checkout === undefined) return runCheck(spec, await run.workspace(), options);
  const failed = spec.kind === "file" ? undefined : await run.checkout.setUp();
  if (failed !== undefined) return failed;
  await using place = await checkout.open(spec.id, laid);
  return await runCheck(spec, withDiskBound(run, withTamperGuard(run, withSecrets(place, env))), options);
};

const publish = (run: Run, { id: callID }: RunCheck, text: string): void =>
  run.store.live.publish(
    { type: "tool.output", taskID: run.stream, at: run.now().toISOString(), data: { callID, text } },
    run.state().position,
  );
