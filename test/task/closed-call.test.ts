import { expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { OpenCall } from "../../src/domain/state/stream.ts";
import { closingCalls } from "../../src/task/session/closed-call.ts";

const call = (callID: string, sessionID: string): OpenCall => ({
  callID,
  sessionID,
  tool: "read",
  effect: "none",
  hash: 1,
});
const open = [call("call_1", "session_a"), call("call_2", "session_a"), call("call_3", "session_b")];
const ended: DomainEvent = {
  type: "session.ended",
  data: { sessionID: "session_a", outcome: "stopped", reason: "The files changed meanwhile." },
};
const kinds = (events: readonly DomainEvent[]) =>
  events.map((event) => (event.type === "tool.finished" ? `${event.data.callID} ${event.data.outcome}` : event.type));

test("what ends a session ends its calls first, and those alone", () => {
  expect(kinds(closingCalls({ open }, [ended]))).toEqual(["call_1 interrupted", "call_2 interrupted", "session.ended"]);
});

test("a call that ends in the same commit is not ended twice; without a session's end nothing is added", () => {
  const [first] = closingCalls({ open }, [ended]);
  if (first === undefined) throw new Error("Expected an end of call_1, got none.");
  expect(kinds(closingCalls({ open }, [first, ended]))).toEqual([
    "call_1 interrupted",
    "call_2 interrupted",
    "session.ended",
  ]);
  expect(closingCalls({ open }, [first])).toEqual([first]);
});
