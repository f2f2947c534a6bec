import type { CheckResult } from "../../check/check.ts";
import type { Network } from "../../process/network/allow-list.ts";
import type { CommandResult } from "../../process/process.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Given } from "../../protocol/event/workspace.ts";
import type { CheckEnvironment, Checkout, Workspace } from "../../workspace/workspace.ts";
import type { Setup } from "../environment.ts";
import type { Run } from "../run.ts";

/**
 * What a Task's commands need in addition to its tree: the project's dependency folders, recorded as they were
 * provided, and the operator's `workspace.setup`, which runs once in new files, before the first command.
 */

/** How many characters from the end of the setup's output are kept for the Task's `error`. */
const tailBytes = 4000;

export const recordDependencies = async (run: Run, { prepared, dependencies }: Workspace): Promise<void> => {
  const known = run.state().dependencies;
  if (prepared.kind === "directory" || same(known ?? [], dependencies)) return;
  await run.record([{ type: "dependencies.given", data: { folders: [...dependencies] } }]);
};

const same = (a: readonly Given[], b: readonly Given[]): boolean => JSON.stringify(a) === JSON.stringify(b);

/**
 * Makes the setup run before the workspace's first command. Unchanged when there is no setup, or the Task works in
 * place.
 */
export const withSetup = (run: Run, workspace: Workspace): Workspace => {
  const { setup } = run;
  if (setup === undefined || workspace.prepared.kind === "directory") return workspace;
  let done: Promise<string | undefined> | undefined;
  const runCommand = workspace.run.bind(workspace);
  const startTalk = workspace.startInteractive.bind(workspace);
  const first = () => (done ??= setUp(run, workspace, setup, runCommand));
  workspace.run = async (command) => {
    const failed = await until(first(), command.signal);
    return failed === undefined ? runCommand(command) : notStarted(failed);
  };
  workspace.startInteractive = async (talk) => {
    const failed = await until(first(), talk.signal);
    if (failed !== undefined) throw new Error(failed);
    return startTalk(talk);
  };
  return workspace;
};

/** Stops waiting when `signal` aborts; the work continues for later callers. */
const until = async <T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> => {
  const { promise: stopped, resolve } = Promise.withResolvers<undefined>();
  const stop = () => resolve(undefined);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, stopped]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
};

const notStarted = (output: string): CommandResult => ({
  exitCode: null,
  output,
  stdout: "",
  dropped: 0,
  ended: "not-started",
  durationMs: 0,
});

/** Resolves to undefined when the setup has passed, now or before; otherwise to the failure. */
const setUp = async (
  run: Run,
  workspace: Workspace,
  setup: Setup,
  runCommand: Workspace["run"],
): Promise<string | undefined> => {
  const about = { run: setup.run, worktree: workspace.stamp() };
  const before = run.state().setup;
  if (before?.worktree === about.worktree) {
    if (before.run === about.run && before.finished !== null) return failure(before.finished);
    // The earlier setup was interrupted, failed, or was another command, so its results are removed.
    await workspace.clearDependencies();
  }
  await run.record([{ type: "setup.started", data: about }]);
  await run.space();
  const pauses = run.disk.pauses();
  // The setup runs in a sandbox of its own, because only it may use this network, and nobody else may see its secrets.
  const alone = setup.network !== undefined || Object.keys(setup.env ?? {}).length > 0;
  if (alone) await run.processes.closeSandboxes(run.stream);
  const ran = await runCommand({
    run: setup.run,
    cwd: workspace.root,
    timeoutMs: run.limits.setupSeconds * 1000,
    keepBytes: run.limits.commandOutputBytes,
    signal: run.signal,
    ...givenTo(setup),
  });
  if (alone) await run.processes.closeSandboxes(run.stream);
  run.signal.throwIfAborted();
  const passed = ran.ended === "exit" && ran.exitCode === 0;
  // A command that was suspended for want of disk space may fail for that alone.
  if (!passed && run.disk.pauses() !== pauses) {
    await run.space();
    return setUp(run, workspace, setup, runCommand);
  }
  const finished: EventData["setup.finished"] = {
    ...about,
    state: passed ? "passed" : "failed",
    exitCode: ran.exitCode,
    durationMs: Math.round(ran.durationMs),
    log: await run.store.blobs.put(Buffer.from(ran.output)),
    tail: passed ? "" : ran.output.trimEnd().slice(-tailBytes),
    reason: passed ? null : reasonOf(ran, run.limits.setupSeconds),
  };
  await run.record([{ type: "setup.finished", data: finished }]);
  return failure(finished);
};

/**
 * Runs the setup in all files of a checkout, wrapped by `guarded`, and keeps the outcome for each check. Resolves to
 * undefined when the setup passed or there is none; otherwise to the result of every check that needs it.
 */
export const setUpCheckout = async (
  run: Pick<Run, "setup" | "limits" | "signal" | "space"> & { disk: Pick<Run["disk"], "pauses"> },
  checkout: Checkout,
  guarded: (place: Place) => Place,
): Promise<CheckResult | undefined> => {
  const { setup, limits, signal } = run;
  if (setup === undefined) return undefined;
  const place = guarded(await checkout.whole());
  await run.space();
  const pauses = run.disk.pauses();
  const ran = await place.run({
    run: setup.run,
    cwd: place.root,
    timeoutMs: limits.setupSeconds * 1000,
    keepBytes: limits.commandOutputBytes,
    signal,
    ...givenTo(setup),
  });
  signal.throwIfAborted();
  if (ran.ended === "exit" && ran.exitCode === 0) {
    await checkout.keep();
    return undefined;
  }
  // A command that was suspended for want of disk space may fail for that alone.
  if (run.disk.pauses() !== pauses) return setUpCheckout(run, checkout, guarded);
  const reason = `workspace.setup failed before (${reasonOf(ran, limits.setupSeconds)}): fix \`${setup.run}\` in the service's configuration`;
  const { exitCode, durationMs, output } = ran;
  return { state: "error", exitCode, durationMs, output, tail: output.slice(-tailBytes), reason, final: true };
};

/** Adds secrets to the environment of everything that runs in the place. undefined: there are none. */
export const withSecrets = <P extends Pick<CheckEnvironment, "run" | "startInteractive">>(
  place: P,
  env: Readonly<Record<string, string>> | undefined,
): P => {
  if (env === undefined) return place;
  const runCommand = place.run.bind(place);
  const startTalk = place.startInteractive.bind(place);
  place.run = (command) => runCommand({ ...command, env: { ...command.env, ...env } });
  place.startInteractive = (talk) => startTalk({ ...talk, env: { ...talk.env, ...env } });
  return place;
};

const givenTo = ({ network, env }: Setup): { network?: Network; env?: Record<string, string> } => ({
  ...(network === undefined ? {} : { network }),
  ...(env === undefined ? {} : { env: { ...env } }),
});

type Place = Awaited<ReturnType<Checkout["whole"]>>;

const reasonOf = (ran: CommandResult, seconds: number): string => {
  switch (ran.ended) {
    case "exit":
      return ran.exitCode === null ? "killed by a signal" : `exit ${ran.exitCode}`;
    case "timeout":
      return `timed out after ${seconds} s`;
    case "not-started":
      return "could not be started";
    case "aborted":
      return "aborted";
    case "disk":
      return "stopped, because the Task uses too much disk space";
  }
};

const failure = ({ state, reason }: EventData["setup.finished"]): string | undefined =>
  state === "passed"
    ? undefined
    : `Nothing was run: the workspace could not be set up (${reason ?? "no exit"}), so the Task ends here.`;
