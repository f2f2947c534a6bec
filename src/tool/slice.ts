import { z } from "zod";
import type { DomainEvent } from "../domain/event.ts";
import { isOpen, type Slice } from "../domain/slices.ts";
import { newID } from "../id.ts";
import { failed, ok, type Tool } from "./tool.ts";

const contract = {
  title: z.string().min(1).max(120),
  objective: z.string().min(1).max(1000).describe("What it is for, and where it ends"),
  acceptance: z.array(z.string().min(1).max(300)).min(1).max(12).describe("What can be seen or run when it is done"),
  weight: z
    .enum(["blocking", "advisory"])
    .optional()
    .describe("blocking (default): the Task cannot complete without it"),
};

const input = z.strictObject({
  define: z.array(z.strictObject(contract)).min(1).max(20).optional().describe("New slices, in order"),
  revise: z
    .strictObject({
      slice: z.string(),
      title: contract.title.optional(),
      objective: contract.objective.optional(),
      acceptance: contract.acceptance.optional(),
      weight: contract.weight,
    })
    .optional(),
  order: z.array(z.string()).min(1).optional().describe("All slice ids, first to last"),
  drop: z.strictObject({ slice: z.string(), reason: z.string().min(1).max(500) }).optional(),
});

/** The most slices of one Task. */
const most = 40;

export const slice: Tool<z.infer<typeof input>> = {
  name: "slice",
  description:
    "Plans delivery slices: parts of the Task that can be delivered and judged one by one, each with acceptance criteria that somebody can check. " +
    "A Task begins as one slice, the whole request: leave it so when one person would do it in one sitting. " +
    "The first `define` turns that slice into the first of yours. Each slice is reviewed against its criteria by somebody who did not write it; " +
    "`revise` when the contract was wrong (what was found under the old one no longer counts), `drop` what is not needed, and say why. Without arguments it shows the plan.",
  input,
  effect: "log",
  run: (request, context) => {
    const { slices } = context.state();
    const { define = [], revise, order = [], drop } = request;
    for (const id of [revise?.slice, drop?.slice, ...order])
      if (id !== undefined && !slices.some(({ sliceID }) => sliceID === id))
        return Promise.resolve(
          failed(`There is no slice ${JSON.stringify(id)}. The plan:\n${slices.map(shown).join("\n")}`),
        );
    if (slices.length + define.length > most)
      return Promise.resolve(failed(`Expected at most ${most} slices, got ${slices.length + define.length}.`));

    const by = { sessionID: context.sessionID, callID: context.callID };
    const whole = slices.find((each) => each.whole && isOpen(each));
    const facts: Fact[] = define.map(({ weight = "blocking", ...rest }, index) => {
      const before = index === 0 ? whole : undefined;
      const revision = (before?.contract.revision ?? 0) + 1;
      const data = { sliceID: before?.sliceID ?? newID("slice"), weight, contract: { ...rest, revision }, ...by };
      return { type: before === undefined ? "slice.defined" : "slice.revised", data };
    });
    const revised = slices.find(({ sliceID }) => sliceID === revise?.slice);
    if (revise !== undefined && revised !== undefined) {
      const { title, objective, acceptance, revision } = revised.contract;
      const contract = {
        revision: revision + 1,
        title: revise.title ?? title,
        objective: revise.objective ?? objective,
        acceptance: revise.acceptance ?? acceptance,
      };
      const data = { sliceID: revised.sliceID, weight: revise.weight ?? revised.weight, contract, ...by };
      facts.push({ type: "slice.revised", data });
    }
    const dropped = drop && { sliceID: drop.slice, reason: drop.reason, ...by };
    const told = facts.length === 0 && drop === undefined ? slices : facts.map(({ data }) => data);
    return Promise.resolve({
      ...ok(`${told.map(shown).join("\n")}${dropped === undefined ? "" : `\n${dropped.sliceID} is dropped`}`.trim()),
      facts: [
        ...facts,
        ...(dropped === undefined ? [] : [{ type: "slice.dropped" as const, data: dropped }]),
        ...(order.length === 0 ? [] : [{ type: "slice.ordered" as const, data: { sliceIDs: order, ...by } }]),
      ],
    });
  },
};

type Fact = Extract<DomainEvent, { type: "slice.defined" | "slice.revised" }>;

const shown = ({ sliceID, weight, contract: { title, revision } }: Pick<Slice, "sliceID" | "weight" | "contract">) =>
  `${sliceID} "${title}" (revision ${revision}, ${weight})`;
