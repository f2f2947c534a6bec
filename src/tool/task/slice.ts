import { z } from "zod";
import type { DomainEvent } from "../../domain/event.ts";
import { isOpenSlice, type Slice } from "../../domain/state/task.ts";
import { newID } from "../../id.ts";
import { failed, ok } from "../result.ts";
import { type Tool, hiddenFromModels } from "../tool.ts";

const input = z.strictObject({
  plan: z
    .array(
      z.strictObject({
        slice: z.string().optional().describe("Id of the one it revises"),
        title: z.string().min(1).max(120),
        objective: z.string().min(1).max(1000).describe("What it is for, and where it ends"),
        acceptance: z
          .array(z.string().min(1).max(300))
          .min(1)
          .max(12)
          .describe("What can be seen or run then: a behaviour, a file, a command and its result"),
        weight: z.enum(["blocking", "advisory"]).optional().describe("Default blocking: the Task needs it"),
      }),
    )
    .min(1)
    .max(20)
    .optional(),
  order: z.array(z.string()).min(1).optional().meta(hiddenFromModels),
  drop: z.strictObject({ slice: z.string(), reason: z.string().min(1).max(500) }).optional(),
});

/** Maximum number of slices of one Task. */
const most = 40;

export const slice: Tool<z.infer<typeof input>> = {
  name: "slice",
  description:
    "Plans slices: parts of the Task that are delivered and judged one by one, by somebody who did not write them. " +
    "A Task begins as one, the whole request, which your first plan replaces. " +
    "What was found under a contract that you revise counts no more. Without arguments: the plan.",
  input,
  effect: "log",
  run: (request, context) => {
    const { slices } = context.state();
    const { plan = [], order = [], drop } = request;
    for (const id of [...plan.map((each) => each.slice), drop?.slice, ...order])
      if (id !== undefined && !slices.some(({ sliceID }) => sliceID === id))
        return Promise.resolve(
          failed(`There is no slice ${JSON.stringify(id)}. The plan:\n${slices.map(shown).join("\n")}`),
        );
    if (new Set(plan.map(({ slice: id }) => id ?? {})).size < plan.length)
      return Promise.resolve(failed("Expected each slice once, got one twice. Nothing was planned."));
    const added = plan.filter((each) => each.slice === undefined).length;
    if (slices.length + added > most)
      return Promise.resolve(failed(`Expected at most ${most} slices, got ${slices.length + added}.`));

    const by = { sessionID: context.sessionID, callID: context.callID };
    let whole = slices.find((each) => each.whole && isOpenSlice(each));
    const facts = plan.map(({ slice: id, weight, ...rest }): Fact => {
      const before = id === undefined ? whole : slices.find(({ sliceID }) => sliceID === id);
      if (before === whole) whole = undefined;
      const contract = { ...rest, revision: (before?.contract.revision ?? 0) + 1 };
      const as = weight ?? before?.weight ?? "blocking";
      return before === undefined
        ? { type: "slice.defined", data: { sliceID: newID("slice"), weight: as, contract, ...by } }
        : { type: "slice.revised", data: { sliceID: before.sliceID, weight: as, contract, ...by } };
    });
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
