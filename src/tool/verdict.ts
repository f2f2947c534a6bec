import { z } from "zod";
import type { DomainEvent } from "../domain/event.ts";
import { failed, ok, type Tool } from "./tool.ts";

const input = z.strictObject({
  slices: z
    .array(
      z.strictObject({
        slice: z.string(),
        verdict: z.enum(["accepted", "rejected", "inconclusive"]),
        notes: z
          .string()
          .max(2000)
          .describe("accepted: what convinced you; else each thing that is missing or wrong, with its place"),
      }),
    )
    .min(1),
});

/** How a reviewer answers; given to sessions that review, and to no other. */
export const verdict: Tool<z.infer<typeof input>> = {
  name: "verdict",
  description:
    "Your judgement of each slice, all of them in one call. `accepted` only when the diff and the evidence show every criterion met; " +
    "`rejected` when one is not, or something else broke; `inconclusive` when what you were given cannot tell.",
  input,
  effect: "log",
  run: ({ slices: given }, context) => {
    const { sessionID, callID } = context;
    const { sessions, slices, tree } = context.state();
    const session = sessions.find((each) => each.sessionID === sessionID);
    if (session?.purpose !== "review") return Promise.resolve(failed("Only a review has a verdict."));
    const missing = session.sliceIDs.filter((id) => !given.some(({ slice }) => slice === id));
    const unknown = given.filter(({ slice }) => !session.sliceIDs.includes(slice));
    if (missing.length > 0 || unknown.length > 0)
      return Promise.resolve(
        failed(
          `Expected a verdict for each of ${session.sliceIDs.join(", ")}${missing.length > 0 ? `; missing: ${missing.join(", ")}` : ""}${unknown.length > 0 ? `; unknown: ${unknown.map(({ slice }) => slice).join(", ")}` : ""}. Nothing was recorded.`,
        ),
      );
    const facts = given.map(({ slice: sliceID, verdict: said, notes }): DomainEvent => {
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
