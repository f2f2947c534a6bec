import { mayInstall } from "../../domain/session/approval.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { Manager } from "../../squad/install/manager.ts";
import { decode } from "../../squad/package/package.ts";
import { packageProblems } from "../session/squad-author.ts";
import type { Run } from "../run.ts";
import { settle } from "./settle.ts";

/**
 * Installs the squad that a Task staged, as its landing. It is validated once more and installed whole or not at all.
 * After `squad.installing` the installation is only carried to its end: repeating it after a crash finds what is
 * already installed.
 */
export const install = async (run: Run, manager: Pick<Manager, "install" | "validate">): Promise<void> => {
  const { staged, production, installed, directory, version } = run.state();
  if (staged === null || production === null) throw new Error("Expected a staged squad to install, got none.");
  if (!mayInstall(run.state())) throw new Error("Expected the staged squad to be approved before it is installed.");
  const { squad } = staged;
  const fail = (code: string, message: string) =>
    settle(run, {
      lifecycleStatus: "failed",
      failure: {
        code,
        message: `The squad ${squad.id} could not be installed: ${message}`,
        retryable: true,
        remedy: "Send a message that says what to change.",
      },
    });
  const bytes = await run.store.blobs.get(squad.digest);
  const files = bytes === undefined ? undefined : decode(bytes);
  if (files === undefined) return fail("text_lost", "its staged package is gone from the data folder.");
  const problems = await packageProblems(files, production, { redact: run.store.redact, validate: manager.validate });
  if (problems.length > 0) return fail("squad_invalid", `${problems.join("; ")}.`);
  // Committed at the version it was decided at, so that no cancel or message can come in between.
  if (
    run.state().installing === null &&
    !(await run.record([{ type: "squad.installing", data: { squad } }], { decidedAt: version }))
  )
    return;
  try {
    const done = await manager.install({ files }, "project", directory, installed?.squad.digest);
    await run.record([{ type: "squad.installed", data: { squad: done.squad, replaced: done.replaced } }]);
  } catch (error) {
    run.signal.throwIfAborted();
    if (!(error instanceof ServiceError) || error.retryable) throw error;
    await fail(error.code, messageOf(error));
  }
};
