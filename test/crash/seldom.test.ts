import { expect, test } from "vitest";
import { statusOf } from "../harness/double/hostile-text.ts";
import { type MockRequest, type MockTurn, textOf } from "../harness/double/mock-provider.ts";
import { sampleByDay } from "../harness/night.ts";
import { readText } from "../harness/project.ts";
import { type Scene, sameFromEach } from "./scene.ts";
import { create, isOver, pictureOf, taskIn, typesOf } from "./task-scene.ts";

/** A Task that meets what the sweep's own runs do not, killed right after each of it: the same end from every point. */

const seldom = [
  "permissions.read",
  "checks.found",
  "reply.retried",
  "slice.defined",
  "slice.ordered",
  "slice.dropped",
  "slice.revised",
  "artifact.recorded",
  "budget.warned",
  "commit.described",
] as const;

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const part = (title: string) => ({ title, objective: `${title} is there.`, acceptance: [`${title} says so.`] });

/** Ids of the plan's slices, as their tool told them. */
const slicesIn = ({ body }: MockRequest): string[] => [
  ...new Set(textOf(body.messages.map(({ content }) => textOf(content)).join("\n")).match(/slice_\w+/g) ?? []),
];

const turns: ((slices: string[]) => MockTurn)[] = [
  () => call("slice", { plan: [part("One"), part("Two"), part("Three")] }),
  ([one, two, three]) => call("slice", { order: [two, one, three] }),
  ([, , three]) => call("slice", { drop: { slice: three, reason: "Nobody asked for it." } }),
  ([, two]) => call("slice", { plan: [{ slice: two, ...part("Two, anew") }] }),
  () => call("write", { path: "b.txt", content: "b\n" }),
  () => call("artifact", { path: "b.txt", title: "What was made" }),
  // Enough to come near the budget.
  ...[1, 2, 3, 4, 5, 6, 7].map((limit) => () => call("read", { path: "long.txt", limit })),
  () => ({ text: "All is there." }),
];

/** More than one line: what the commit says is asked for. */
const longRequest = "Make it.\n\nAnd say in b.txt what was done, because nobody can tell otherwise.";

const scene: Scene = {
  points: seldom,
  files: {
    "package.json": JSON.stringify({ scripts: { test: "test -e long.txt" } }),
    "long.txt": "line\n".repeat(20),
    ".sortie/permissions.jsonc": '{ "deny": ["read(secret.txt)"] }',
  },
  say(request, memo) {
    if (request.turn === 4 && memo["refused"] === undefined) {
      memo["refused"] = "yes";
      return { fail: { status: 503, message: "busy" } };
    }
    return turns[request.turn]?.(slicesIn(request)) ?? { text: "Nothing more." };
  },
  begin: (here) => create(here, { request: longRequest, budget: { maxSteps: 16 } }),
  over: async (here) => isOver(await statusOf(here.url, await taskIn(here))),
  async picture(here) {
    const { goals, verified } = await statusOf(here.url, await taskIn(here));
    return {
      ...(await pictureOf(here)),
      verified,
      slices: goals.map(({ contract }) => contract.title),
      b: readText(here.directory, "b.txt"),
    };
  },
  typesOf,
};

test("killed right after each of it: the same end; control: without a kill it meets all of it", {
  timeout: 600_000,
}, async () => {
  const { picture } = await sameFromEach(scene, sampleByDay("what is seldom", seldom, 1));
  expect(picture).toMatchObject({
    lifecycleStatus: "completed",
    attempt: 1,
    verified: true,
    slices: ["Two, anew", "One", "Three"],
    commits: 2,
    b: "b\n",
  });
});
