import { mayInstall } from "../../domain/session/approval.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { Manager } from "../../squad/install/manager.ts";
import { decode, type PackageFile } from "../../squad/package/package.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { packageProblems } from "../session/squad-author.ts";
import type { Run } from "../run.ts";
import { commitTree } from "../workspace/commit.ts";
import { remoteOf } from "../../domain/state/task.ts";
import { push } from "./landing/push.ts";
import { land } from "./landing/land.ts";
import { settle } from "./settle.ts";

/**
 * Installs the squad that a Task staged, as its landing. It is validated once more and installed whole or not at all.
 * After `squad.installing` the installation is only carried to its end: repeating it after a crash finds what is
 * already installed.
 */
export const install = async (
  run: Run,
  manager: Pick<Manager, "install" | "installIn" | "validate">,
): Promise<void> => {
  const { staged, production, installed, directory, onto, repository, version } = run.state();
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
    if (onto !== null || repository !== null) return await landPackage(run, manager, files);
    const done = await manager.install({ files }, "project", directory, installed?.squad.digest);
    await run.record([{ type: "squad.installed", data: { squad: done.squad, replaced: done.replaced } }]);
  } catch (error) {
    run.signal.throwIfAborted();
    if (!(error instanceof ServiceError) || error.retryable) throw error;
    await fail(error.code, messageOf(error));
  }
};

/**
 * On the branch of a Mission, in a directory or on a remote, the package is a commit of its own, and lands there like any change: step by step, each with a
 * fact, until it has. A run that died before writes it again.
 */
const landPackage = async (
  run: Run,
  manager: Pick<Manager, "installIn">,
  files: readonly PackageFile[],
): Promise<void> => {
  const { staged, installed, tree, landed, workspace: prepared } = run.state();
  if (staged === null) throw new Error("Expected a staged squad to land, got none.");
  const { squad } = staged;
  const done: DomainEvent = { type: "squad.installed", data: { squad, replaced: installed?.squad.digest ?? null } };
  if (landed !== null || tree?.tree === prepared?.baseTree) {
    await run.record([done]);
    return;
  }
  if (tree !== null) return (remoteOf(run.state()) === null ? land : push)(run, false);
  const workspace = await run.workspace();
  // What an earlier run, or an earlier package, left there.
  if (workspace.prepared.baseCommit !== null) await workspace.reset(workspace.prepared.baseCommit);
  await manager.installIn(workspace.root, { files }, installed?.squad.digest);
  if ((await commitTree(run)) !== undefined || run.state().denied !== null)
    throw new ServiceError("squad_invalid", "its files may not be committed in the project.");
};
