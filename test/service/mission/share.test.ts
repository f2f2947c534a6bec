import { afterAll, beforeAll, expect, test } from "vitest";
import {
  answer,
  direction,
  goal,
  isState,
  type Measured,
  openEight,
  playEight,
  told,
} from "../../harness/double/eight-phases.ts";
import type { Stage } from "../../harness/double/missions.ts";
import type { MockRequest } from "../../harness/double/mock-provider.ts";

/** What a Mission's agent reads, beside its Tasks; and that nothing of what the user said is lost to it. */

let stage: Stage;
let measured: Measured;
beforeAll(async () => {
  stage = await openEight();
  measured = await playEight(stage);
}, 240_000);
afterAll(() => stage[Symbol.asyncDispose]());

test("of eight phases its agent reads a third of all input at most, and would 40 % and more with all its turns", () => {
  console.log(told(measured));
  const { roles, share, whole } = measured;
  expect(roles.mission.requests).toBeGreaterThan(16);
  // 35 % is the goal. What Tasks reported, which it plans by, is 2 %.
  expect(share).toBeLessThan(1 / 3);
  const others = roles.mission.bytes / share - roles.mission.bytes;
  expect(whole / (whole + others)).toBeGreaterThan(0.4);
});

const textOf = ({ body }: MockRequest): string => JSON.stringify(body.messages);
/** From the first request that has it on, every one has it. */
const stays = (words: string): boolean[] => {
  const written = JSON.stringify(words).slice(1, -1);
  const from = measured.requests.findIndex((request) => textOf(request).includes(written));
  return measured.requests.slice(from).map((request) => from >= 0 && textOf(request).includes(written));
};

test("goal, direction and answer stay word for word, and its newest note; what a Task's evidence said does not", () => {
  for (const words of [goal, direction, answer]) {
    expect(stays(words).length).toBeGreaterThan(6);
    expect(new Set(stays(words))).toEqual(new Set([true]));
  }
  expect(textOf(measured.requests.at(-1) as MockRequest)).toContain("quantities stay exact, point 1");
  expect(stays("export const book_7").includes(false)).toBe(true);
});

test("its tools and its handbook, which are read with every request, are half of what it reads at most", () => {
  const [first] = measured.requests;
  const { tools, messages } = (first as MockRequest).body;
  expect([tools, messages[0]].map((part) => JSON.stringify(part).length).reduce((a, b) => a + b)).toBeLessThan(15_000);
});

test("what is done is told in a line for each phase, with its commit; what is not, with its words", () => {
  const state = (at: number) => textOf(measured.requests.at(at) as MockRequest);
  const done =
    /- storage \\"A store that survives a torn write\\": task_\w{26}; landed [0-9a-f]{12}; 1 file \+\d+ -0; it said: /;
  expect(state(-1)).toMatch(done);
  expect(state(-1)).toContain("of 2 Tasks; landed");
  expect(state(-1)).not.toContain("## Tasks whose phase is not done");
  const midway = measured.requests.findLastIndex((request) =>
    textOf(request).includes("## Briefs of what is not done"),
  );
  expect(state(midway)).toMatch(done);
  // An end that follows in full is not in the state as well.
  expect(measured.requests.filter((request) => textOf(request).includes("; told below"))).not.toEqual([]);
  const reports = (request: MockRequest) => textOf(request).match(/Report of \w+, point 1:/g) ?? [];
  for (const request of measured.requests) expect(new Set(reports(request)).size).toBe(reports(request).length);
  expect(state(midway)).toMatch(/- release \\"A release that can be installed\\" \(code\/release\): \w+/);
});

test("within a wake each request begins with the one before; between two the state is told anew", () => {
  let [longer, renewed] = [0, 0];
  for (const [at, request] of measured.requests.entries()) {
    const before = measured.requests[at - 1];
    if (before === undefined) continue;
    const [now, then] = [request, before].map(({ body }) => body.messages.map((message) => JSON.stringify(message)));
    if (then?.every((message, index) => now?.[index] === message) === true) {
      longer += 1;
      continue;
    }
    renewed += 1;
    // What follows the state is what woke it: no reply of its own stands there yet.
    const { messages } = request.body;
    expect(messages.slice(messages.findIndex(isState)).some(({ role }) => role === "assistant")).toBe(false);
    expect(request.body.tools).toEqual(before.body.tools);
    expect(messages[0]).toEqual(before.body.messages[0]);
  }
  expect(renewed).toBeGreaterThan(5);
  expect(longer).toBeGreaterThan(5);
});
