import { mayInstall } from "../../domain/session/approval.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { Manager } from "../../squad/install/manager.ts";
import { decode, type PackageFile } from "../../squad/package/package.ts";
import { packageProblems } from "../session/squad-author.ts";
import type { Run } from "../run.ts";
import { messageFor, unchanged } from "../workspace/commit.ts";
import { folderOf } from "../../squad/catalog/scope.ts";
import { remoteOf } from "../../domain/state/task.ts";
import { push } from "./landing/push.ts";
import { land } from "./landing/land.ts";
import { settle } from "./settle.ts";

type Installing = Pick<Manager, "install" | "validate" | "expectInstallable">;

/**
 * Installs the squad that a Task staged, as its landing. It is validated once more and installed whole or not at all.
 * After `squad.installing` the installation is only carried to its end: repeating it after a crash finds what is
 * already installed.
 */
export const install = async (run: Run, manager: Installing): Promise<void> => {
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
    if (await doesLand(run, files)) return await landPackage(run, manager, files);
    const done = await manager.install({ files }, "project", directory, installed?.squad.digest);
    await run.record([{ type: "squad.installed", data: { squad: done.squad, replaced: done.replaced } }]);
  } catch (error) {
    run.signal.throwIfAborted();
    if (!(error instanceof ServiceError) || error.retryable) throw error;
    await fail(error.code, messageOf(error));
  }
};

const folderFor = (id: string): string => `${folderOf.project}/${id}`;

/**
 * Whether the package becomes a commit. It always does on a Mission's branch and in a repository by address; in a
 * user's directory, if a change would land on the project's branch and Git keeps the package as it is. Otherwise its
 * files are written to the project's folder.
 */
const doesLand = async (run: Run, files: readonly PackageFile[]): Promise<boolean> => {
  const { staged, onto, repository, tree, landed } = run.state();
  if (onto !== null || repository !== null || tree !== null || landed !== null) return true;
  const workspace = await run.workspace();
  const { kind, targetRef } = workspace.prepared;
  if (staged === null || kind === "directory" || targetRef === null) return false;
  return run.workspaces.keepsBelow(workspace, folderFor(staged.squad.id), files);
};

/**
 * Lands the package as a commit of its own, like any change: step by step, each with a fact. The service makes the
 * commit, because agents commit nothing below `.sortie`.
 */
const landPackage = async (run: Run, manager: Installing, files: readonly PackageFile[]): Promise<void> => {
  const { staged, installed, tree, landed, workspace: prepared, directory, onto, repository } = run.state();
  if (staged === null) throw new Error("Expected a staged squad to land, got none.");
  const { squad } = staged;
  if (landed !== null || (tree !== null && tree.tree === prepared?.baseTree)) {
    const replaced = installed?.squad.digest ?? null;
    await run.record([{ type: "squad.installed", data: { squad, replaced } }]);
    return;
  }
  // Somebody may have put another package under this id into the project's folder; the two are not merged.
  if (onto === null && repository === null) await manager.expectInstallable(squad, directory, installed?.squad.digest);
  if (tree !== null) return (remoteOf(run.state()) === null ? land : push)(run, false);
  const workspace = await run.workspace();
  const commit = await run.workspaces.commitBelow(workspace, folderFor(squad.id), files, await messageFor(run));
  await run.record([{ type: "tree.committed", data: commit ?? unchanged(workspace.prepared) }]);
};
