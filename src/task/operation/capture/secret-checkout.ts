import { ownServer, type Server } from "../../../check/project/own-server.ts";
import type { TaskState } from "../../../domain/state/task.ts";
import { ServiceError } from "../../../error.ts";
import type { Limits } from "../../../protocol/limit.ts";
import type { Store } from "../../../store/store.ts";
import type { CheckEnvironment, Workspace, Workspaces } from "../../../workspace/workspace.ts";
import type { CapturesDeps } from "../../tasks.ts";
import { setUpCheckout, withSecrets } from "../../workspace/setup.ts";

/**
 * Opens the place for a capture's server that gets the project's secrets: a fresh checkout, as for a check, which has
 * none of the files that agents leave in a workspace.
 */

type Request = {
  state: TaskState;
  /** The commit that is served; undefined: the Task worked in place. */
  commit: string | undefined;
  server: Server;
  given: Awaited<ReturnType<CapturesDeps["environment"]>>;
  guard: <P extends Pick<CheckEnvironment, "run">>(place: P) => P;
  signal: AbortSignal;
};

/** undefined: the server gets no secrets. Rejects with `preview_failed` when the setup fails. */
export const openApart = async (
  { store, workspaces, limits }: { store: Store; workspaces: Workspaces; limits: Limits },
  workspace: Workspace,
  { state, commit, server, given, guard, signal }: Request,
): Promise<(CheckEnvironment & AsyncDisposable) | undefined> => {
  const base = state.workspace?.baseCommit;
  if (given === undefined || commit === undefined || base == null) return undefined;
  const { secrets, shell } = given.environment;
  if (Object.keys(secrets).length === 0) return undefined;
  await using opening = new AsyncDisposableStack();
  const checkout = opening.use(await workspaces.checkout(workspace, commit, "work"));
  const own = await ownServer(server, shell, await checkout.before(base));
  if (own === undefined) return undefined;
  const run = {
    setup: given.setup,
    limits: { ...limits, ...given.limits },
    signal,
    space: async () => {},
    // The caller can simply ask for the capture again.
    disk: { pauses: () => 0 },
  };
  const failed = await setUpCheckout(run, checkout, guard);
  if (failed !== undefined)
    throw new ServiceError("preview_failed", `${failed.reason ?? "The setup failed"}.`, {
      details: { log: store.redact(failed.output) },
    });
  const place = opening.use(await checkout.open("preview", own.laid));
  const opened = opening.move();
  return { ...withSecrets(place, secrets), [Symbol.asyncDispose]: () => opened.disposeAsync() };
};
