import type { CheckResult } from "../../check/check.ts";
import { messageOf } from "../../error.ts";
import type { Checkout } from "../../workspace/workspace.ts";
import type { RunCheckout, Run } from "../run.ts";
import { withDiskBound } from "./disk-bound.ts";
import { setUpCheckout } from "./setup.ts";
import { withTamperGuard } from "./tamper.ts";

/** The files of a run's checks; see `RunCheckout`. */
export const createRunCheckout = (run: () => Run, of: "work" | "base"): RunCheckout => {
  let open: Checkout | undefined;
  /** The checkout that is being opened: the check that asked for it may be aborted before it is there. */
  let opening: Promise<Checkout | undefined> = Promise.resolve(undefined);
  let setUp: Promise<CheckResult | undefined> | undefined;
  return {
    async at(commit) {
      if (commit === null) return undefined;
      const opened = run()
        .workspace()
        .then((workspace) => run().workspaces.checkout(workspace, commit, of));
      opening = opened.catch(() => open);
      open = await opened;
      return open;
    },
    setUp: () => (setUp ??= open === undefined ? Promise.resolve(undefined) : guardedSetUp(run(), open)),
    async [Symbol.asyncDispose]() {
      await (await opening)?.[Symbol.asyncDispose]();
      // An earlier run may have been killed before it removed its checkout, and this run may never have opened one.
      const { workspaces, stream, log } = run();
      await workspaces.removeLeftCheckouts(stream).catch((error: unknown) => {
        log.warn({ task: stream, error: messageOf(error) }, "a checkout could not be removed yet");
      });
    },
  };
};

const guardedSetUp = (run: Run, checkout: Checkout): Promise<CheckResult | undefined> =>
  setUpCheckout(run, checkout, (place) => withDiskBound(run, withTamperGuard(run, place)));
