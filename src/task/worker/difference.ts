import { messageOf } from "../../error.ts";
import type { Run } from "../run.ts";

/**
 * Finds out whether a Task has changed a file yet. Of calls that surely change one their record tells; after commands,
 * which mostly only read, the tree on disk is compared with the base's, beside the agent's next request.
 */
export const createDifference = (run: () => Run, found: (baseTree: string) => void) => {
  /** What was looked at last. `writes`: when the base was first seen. */
  let seen: { tree: string; edits: number; writes: number } | undefined;
  let looking: Promise<void> | undefined;

  const compare = async (tree: string): Promise<void> => {
    for (;;) {
      const { edits } = run().state();
      const now = await (await run().workspace()).tree();
      // Not known: then it may differ.
      if (now !== tree) return found(tree);
      if (seen === undefined || seen.tree !== tree) return;
      seen.edits = edits;
      if (run().state().edits === edits) return;
    }
  };

  return {
    /** Calls `found` once the files differ from `tree`. Cheap; call it after each event. */
    look(tree: string): void {
      const { edits, writes, touched } = run().state();
      if (seen?.tree !== tree) seen = { tree, edits: -1, writes };
      if (writes > seen.writes) return found(tree);
      if (!touched || edits === seen.edits || looking !== undefined) return;
      looking = compare(tree)
        .catch((error: unknown) => {
          run().log.debug({ task: run().stream, error: messageOf(error) }, "the tree could not be compared");
        })
        .finally(() => {
          looking = undefined;
        });
    },
    /** Resolves when nothing is looked at any more. */
    async over(): Promise<void> {
      await looking;
    },
  };
};
