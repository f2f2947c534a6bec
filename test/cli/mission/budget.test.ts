import { expect, test } from "vitest";
import type { Service } from "../../../src/cli/connection.ts";
import { budgetFor, type Caps } from "../../../src/cli/mission/budget.ts";
import { Exit } from "../../../src/cli/terminal/exit.ts";

/** What a person names of a budget is changed, and the rest of it stays. */

const of = (status: number, budget: object | null) =>
  ({
    mission: {
      status: () =>
        Promise.resolve({
          data: status === 200 ? { budget } : undefined,
          error: status === 200 ? undefined : { message: "no", code: "x" },
          response: new Response(null, { status }),
        }),
    },
  }) as unknown as Service;
const asked = (caps: Caps, { id = "m", status = 200, budget = null as object | null } = {}) =>
  budgetFor(of(status, budget), "http://127.0.0.1:1", id === "" ? undefined : id, caps);

const both = { maxCostUSD: 5, maxSteps: 100 };
test.each<[name: string, caps: Caps, given: Parameters<typeof asked>[1], budget: object | null | undefined]>([
  ["one cap is raised", { maxSteps: 200 }, { budget: both }, { maxCostUSD: 5, maxSteps: 200 }],
  ["one is taken away", { maxCost: "none" }, { budget: both }, { maxSteps: 100 }],
  ["the last one is taken away", { maxSteps: "none" }, { budget: { maxSteps: 1 } }, null],
  ["it had none", { maxMinutes: 9 }, {}, { maxMinutes: 9 }],
  ["a Mission with an id that nobody knows", { maxTokens: 9 }, { status: 404, budget: both }, { maxTokens: 9 }],
  ["a new Mission", { maxTokens: 9 }, { id: "", budget: both }, { maxTokens: 9 }],
  ["none is named", {}, { budget: both }, undefined],
])("%s", async (_name, caps, given, budget) => {
  expect(await asked(caps, given)).toEqual(budget);
});

test("while nobody can say which caps it has, none is dropped", async () => {
  await expect(asked({ maxSteps: 200 }, { status: 503 })).rejects.toBeInstanceOf(Exit);
});
