import { duration, short } from "../../format.ts";
import type { Turn } from "../conversation/fold.ts";
import type { Log } from "../conversation/log.ts";
import { patchesOf } from "./turn-diff.ts";

/** Which part of a Task's work a diff shows. */

export type Scope =
  | { kind: "whole" }
  | { kind: "commit"; from: string; to: string; words: string }
  | { kind: "turn"; id: number };

export const scopesOf = (log: Log): { value: string; words: string; scope: Scope }[] => {
  const commits = log.frames().flatMap((frame) => (frame.type === "tree.committed" ? [frame.data] : []));
  const turns = log.items().filter((item): item is Turn => item.kind === "turn" && patchesOf(item) !== "");
  return [
    { value: "whole", words: "The whole Task", scope: { kind: "whole" } },
    ...commits.map(({ commit, parent }, index) => {
      const from = commits[index - 1]?.commit ?? parent;
      const words = `Commit ${short(commit)}, round ${index + 1}`;
      return { value: `commit-${commit}`, words, scope: { kind: "commit" as const, from, to: commit, words } };
    }),
    ...turns.map((turn, index) => ({
      value: `turn-${turn.id}`,
      words: `Turn ${index + 1}, ${turn.agent}, ${duration(turn.durationMs)}`,
      scope: { kind: "turn" as const, id: turn.id },
    })),
  ];
};
