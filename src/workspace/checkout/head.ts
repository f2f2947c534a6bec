import { existsSync, readdirSync } from "node:fs";
import type { createKeyedMutex } from "../../async/mutex.ts";
import type { Processes } from "../../process/process.ts";
import { WorkspaceLost } from "../error.ts";
import { removeTree } from "../file/remove-tree.ts";
import { findRepository } from "../git/repository.ts";
import type { WorktreeRecord } from "../record.ts";
import type { createDependencyProvider } from "../dependency/provide.ts";
import type { WorktreeFolder } from "../worktree/create.ts";
import { directoryOnly, scratchOf } from "../worktree/in-place.ts";
import { readerSandboxOwner } from "../worktree/inside.ts";
import type { Checkout, Head, HeadRequest, Prepared, Project, Workspace } from "../workspace.ts";
import type { createCheckouts } from "./checkout.ts";

/**
 * The files of a project's head for an agent that only reads and has no worktree: a checkout, removed when it is
 * closed. Where nothing is committed, the directory itself.
 */
export const createHeads = (deps: {
  home: string;
  folder: WorktreeFolder;
  checkouts: ReturnType<typeof createCheckouts>;
  provider: Pick<ReturnType<typeof createDependencyProvider>, "forCheckout" | "tier">;
  processes: Pick<Processes, "closeSandboxes">;
  inspect: (directory: string) => Promise<Project>;
  /** Opens a workspace in the user's own files. */
  inPlace: (key: string, prepared: Prepared) => Promise<Workspace>;
  /**
   * Keeps a head from being opened while leftovers of a killed service are removed under the same key; Missions go on
   * at that time.
   */
  alone: ReturnType<typeof createKeyedMutex>;
}) => {
  const { home, folder, checkouts, provider, processes, inspect, inPlace, alone } = deps;
  const open = new Set<string>();

  const recordOf = (key: string, project: Project, commit: string | undefined) => {
    const gitDir = folder.gitDirOf(key);
    const { mirror: commonDir } = project;
    if (commonDir !== undefined) {
      if (commit === undefined) throw new Error(`Expected a commit of the mirror ${commonDir}, got none.`);
      const { directory: toplevel } = project;
      const record: WorktreeRecord = { toplevel, prefix: "", projectGitDir: commonDir, commonDir, gitDir };
      return { head: commit, record };
    }
    const { git } = project;
    if (git?.head == null) return undefined;
    const found = findRepository(git.toplevel);
    if (typeof found === "string")
      throw new WorkspaceLost(`Expected the Git repository of ${git.toplevel}, got nothing there.`);
    const { toplevel, prefix } = git;
    const record: WorktreeRecord = {
      toplevel,
      prefix,
      projectGitDir: found.gitDir,
      commonDir: project.project,
      gitDir,
    };
    return { head: commit ?? git.head, record };
  };

  const close = async (key: string): Promise<void> => {
    await processes.closeSandboxes(key);
    await processes.closeSandboxes(readerSandboxOwner(key));
    await checkouts.remove(key);
    await removeTree(scratchOf(home, key));
    open.delete(key);
  };

  return {
    async openHead({ key, directory, commit }: HeadRequest): Promise<Head> {
      using _alone = await alone(key);
      open.add(key);
      const project = await inspect(directory);
      const committed = recordOf(key, project, commit);
      if (committed === undefined) {
        const files = await inPlace(key, directoryOnly(project, null));
        return { commit: null, files, checkout: undefined };
      }
      const { head, record } = committed;
      const checkout = await checkouts.open(key, record, head, "work");
      const { root, ...more } = checkout.readable();
      const prepared: Prepared = {
        kind: "worktree",
        root,
        worktree: root,
        branch: null,
        baseCommit: head,
        baseTree: null,
        targetRef: null,
      };
      const withDependencies = async (): Promise<Checkout> => {
        // A mirror has no files, and so no folders beside them.
        if (project.mirror !== undefined) return checkout;
        const folders = await provider.forCheckout(record, checkouts.treeOf(key), folder.gitOf(key, record));
        return checkouts.open(key, { ...record, given: { tier: provider.tier, folders } }, head, "work");
      };
      return { commit: head, files: { root, ...more, prepared, dependencies: [] }, checkout: withDependencies };
    },
    async closeHead(key: string): Promise<void> {
      using _alone = await alone(key);
      await close(key);
    },
    /** Removes what a killed service left for keys with this prefix. */
    async removeHeads(prefix: string): Promise<void> {
      if (!existsSync(home)) return;
      const left = new Set(
        readdirSync(home).flatMap((name) => (name.startsWith(prefix) ? [name.split(".")[0] ?? ""] : [])),
      );
      for (const key of left) {
        using _alone = await alone(key);
        if (!open.has(key)) await close(key);
      }
    },
  };
};
