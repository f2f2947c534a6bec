import { z } from "zod";
import type { DomainEvent } from "../../domain/event.ts";
import { failed, ok } from "../result.ts";
import type { Tool } from "../tool.ts";

const input = z.strictObject({
  parts: z
    .array(
      z.strictObject({
        part: z.number().int().min(1),
        verdict: z.enum(["accepted", "rejected", "inconclusive"]),
        notes: z
          .string()
          .max(2000)
          .describe("accepted: what convinced you; else each thing that is missing or wrong, with its place"),
      }),
    )
    .min(1),
});

/** The tool with which a reviewer answers. Only review sessions have it. */
export const verdict: Tool<z.infer<typeof input>> = {
  name: "verdict",
  description:
    "Your judgement of each part, all of them in one call. `accepted` only when what you saw shows every criterion met; " +
    "`rejected` when one is not, or something else broke; `inconclusive` when neither what you were given nor the files can tell.",
  input,
  effect: "log",
  run: ({ parts: given }, context) => {
    const { sessionID, callID } = context;
    const { sessions, slices, tree } = context.state();
    const session = sessions.find((each) => each.sessionID === sessionID);
    if (session?.purpose !== "review") return Promise.resolve(failed("Only a review has a verdict."));
    // In the order of the brief: slices first, then checks.
    const { sliceIDs, checkIDs } = session;
    const count = sliceIDs.length + checkIDs.length;
    const named = given.map(({ part }) => part);
    if (new Set(named).size < named.length || named.length !== count || Math.max(...named) > count)
      return Promise.resolve(
        failed(`Expected one verdict for each part, 1 to ${count}, got ${named.join(", ")}. Nothing was recorded.`),
      );
    const facts = given.map(({ part, verdict: said, notes }): DomainEvent => {
      const checkID = checkIDs[part - 1 - sliceIDs.length];
      if (checkID !== undefined) return { type: "check.judged", data: { checkID, sessionID, verdict: said, notes } };
      const sliceID = sliceIDs[part - 1] ?? "";
      const revision = slices.find((each) => each.sliceID === sliceID)?.contract.revision ?? 1;
      return {
        type: "review.finished",
        data: {
          reviewID: callID,
          sliceID,
          revision,
          sessionID,
          reviewer: session.agent,
          verdict: said,
          notes,
          commit: tree?.commit ?? null,
          tree: tree?.tree ?? null,
        },
      };
    });
    return Promise.resolve({ ...ok("Recorded."), facts });
  },
};
