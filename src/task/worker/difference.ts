import { messageOf } from "../../error.ts";
import type { Run } from "../run.ts";

/**
 * Finds out whether a Task has changed a file yet. The log says so for calls that certainly change one. After commands,
 * which mostly only read, the tree on disk is compared with the base's, concurrently with the agent's next request.
 */
export const createDifference = (run: () => Run, found: (baseTree: string) => void) => {
  /** The base, and the count of edits at the last comparison. `writes`: the count when this base was first seen. */
  let seen: { tree: string; edits: number; writes: number } | undefined;
  let looking: Promise<void> | undefined;

  const compare = async (tree: string): Promise<void> => {
    for (;;) {
      const { edits } = run().state();
      const now = await (await run().workspace()).tree();
      // An unknown tree may differ, too.
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
    /** Resolves when no comparison is under way. */
    async over(): Promise<void> {
      await looking;
    },
  };
};
