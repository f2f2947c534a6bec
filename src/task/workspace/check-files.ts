import type { CheckResult } from "../../check/check.ts";
import type { Checkout } from "../../workspace/workspace.ts";
import type { RunCheckout, Run } from "../run.ts";
import { withDiskBound } from "./disk-bound.ts";
import { reasonOf } from "./setup.ts";
import { withTamperGuard } from "./tamper.ts";

/** The files of a run's checks, as `RunCheckout` describes. */
export const createRunCheckout = (run: () => Run, of: "work" | "base"): RunCheckout => {
  let open: Checkout | undefined;
  let setUp: Promise<CheckResult | undefined> | undefined;
  return {
    async at(commit) {
      if (commit === null) return undefined;
      open = await run().workspaces.checkout(await run().workspace(), commit, of);
      return open;
    },
    setUp: () => (setUp ??= open === undefined ? Promise.resolve(undefined) : setUpIn(run(), open)),
    async [Symbol.asyncDispose]() {
      await open?.[Symbol.asyncDispose]();
    },
  };
};

const setUpIn = async (run: Run, checkout: Checkout): Promise<CheckResult | undefined> => {
  const { setup, limits, signal } = run;
  if (setup === undefined) return undefined;
  const place = withDiskBound(run, withTamperGuard(run, await checkout.whole()));
  await run.space();
  const pauses = run.disk.pauses();
  const ran = await place.run({
    run: setup.run,
    cwd: place.root,
    timeoutMs: limits.setupSeconds * 1000,
    keepBytes: limits.commandOutputBytes,
    signal,
    ...(setup.network ? { network: true } : {}),
  });
  signal.throwIfAborted();
  if (ran.ended === "exit" && ran.exitCode === 0) {
    await checkout.keep();
    return undefined;
  }
  // What is held for a while may fail for that alone.
  if (run.disk.pauses() !== pauses) return setUpIn(run, checkout);
  const reason = `workspace.setup failed before it (${reasonOf(ran, limits.setupSeconds)}): mend \`${setup.run}\` in the service's configuration`;
  const { exitCode, durationMs, output } = ran;
  return { state: "error", exitCode, durationMs, output, tail: output.slice(-4000), reason, final: true };
};
