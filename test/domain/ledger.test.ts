import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { frameOf } from "../../src/domain/view/frame.ts";
import { canonical, type Entry, hashOf, ledgerOf } from "../../src/domain/evidence/ledger.ts";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { Frame } from "../../src/protocol/event/frame.ts";
import { created } from "../harness/events.ts";

/** The ledger's fold and its hashes, against vectors that another program made by the words of the manual. */

const taskID = "task_01arz3ndektsv4rrffq69g5fav";
const at = "2026-11-21T08:00:00.000Z";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const git = (letter: string) => letter.repeat(40);

const frame = (id: number, event: DomainEvent): Frame =>
  frameOf({ ...event, stream: taskID, position: id, version: id, at });

const call = (data: object = {}): DomainEvent => ({
  type: "tool.finished",
  data: {
    callID: "call_1",
    sessionID: "ses_1",
    tool: "shell",
    outcome: "error",
    output: 'naïve "2"\n',
    exitCode: 1,
    durationMs: 5,
    ...data,
  },
});
const check: DomainEvent = {
  type: "check.finished",
  data: {
    checkID: "tests",
    on: "work",
    round: 0,
    commit: git("a"),
    tree: git("b"),
    state: "passed",
    exitCode: 0,
    durationMs: 7,
    log: { sha256: "c".repeat(64), bytes: 3 },
    tail: "ok",
    reason: null,
  },
};
const dropped: DomainEvent = {
  type: "slice.dropped",
  data: { sliceID: "slice_1", reason: "not needed", sessionID: "ses_1", callID: "call_2" },
};
const end: DomainEvent = { type: "task.settled", data: { lifecycleStatus: "completed", summary: "Done." } };

const story = [
  frame(3, created({ taskID })),
  frame(4, call()),
  frame(9, check),
  frame(10, dropped),
  frame(11, { type: "task.updated", data: { archived: true } }),
  frame(12, end),
];

describe("the ledger", () => {
  test("has the hashes that sha256sum gives for the text the manual describes", () => {
    const { ledger, entries, head } = ledgerOf(taskID, story, sha256);
    expect(ledger.map(({ seq, eventID, kind, prev, hash }) => ({ seq, eventID, kind, prev, hash }))).toEqual([
      {
        seq: 1,
        eventID: 4,
        kind: "call",
        prev: "723a647f0d111a4415066c5e7097b955232c35739976eae22841ac5ae2574f14",
        hash: "c4d31573e3d801288fde92fd3121c0b32775b18200edba6bf56e334d710c42a9",
      },
      {
        seq: 2,
        eventID: 9,
        kind: "check",
        prev: "c4d31573e3d801288fde92fd3121c0b32775b18200edba6bf56e334d710c42a9",
        hash: "219a14acce04c99e222c7c7506b3f4f4c75ab7d5c9c5abd7e6e9db18662c3fca",
      },
      {
        seq: 3,
        eventID: 10,
        kind: "settlement",
        prev: "219a14acce04c99e222c7c7506b3f4f4c75ab7d5c9c5abd7e6e9db18662c3fca",
        hash: "e05be24f8ec6334e406551b59dcfae686364bb5ebc2af6004b191fa76072464f",
      },
      {
        seq: 4,
        eventID: 12,
        kind: "end",
        prev: "e05be24f8ec6334e406551b59dcfae686364bb5ebc2af6004b191fa76072464f",
        hash: "58b4634c1afc2b7e57e61dd331ff464938d71b6118da627aa513f6660caf9006",
      },
    ]);
    expect({ entries, head }).toEqual({ entries: 4, head: ledger[3]?.hash });
    const { prev, hash } = ledger[0] as Entry;
    const text = `sortie ledger 1\n${prev}\n{"at":"2026-11-21T08:00:00.000Z","callID":"call_1","eventID":4,"exitCode":1,"kind":"call","outcome":"error","output":"b886ae199b021f2f4fb3b0380d1c3786ecb0ca2a03e65d5ebfa7761aa89ca2c4","seq":1,"sessionID":"ses_1","tool":"shell"}`;
    expect(sha256(text)).toBe(hash);
  });

  test("an empty log has none, and its head is the Task's own", () => {
    const none = ledgerOf(taskID, [frame(3, created({ taskID }))], sha256);
    expect(none).toEqual({ ledger: [], entries: 0, head: sha256(`sortie ledger 1\n${taskID}`) });
    expect(ledgerOf("task_other", [], sha256).head).not.toBe(none.head);
  });

  test("a call's output is that of the whole text, wherever it is kept", () => {
    const outputOf = (data: object) => {
      const [entry] = ledgerOf(taskID, [frame(1, call(data))], sha256).ledger;
      return entry?.kind === "call" ? entry.output : undefined;
    };
    const blob = { sha256: "d".repeat(64), bytes: 70_000 };
    expect(outputOf({ output: "short" })).toBe(sha256("short"));
    expect(outputOf({ output: { blob, head: "lo" } })).toBe(blob.sha256);
    expect(outputOf({ output: "head and tail", full: blob })).toBe(blob.sha256);
  });

  test("says of every other kind what matters", () => {
    const on = { commit: git("a"), tree: git("b") };
    const by = { sessionID: "ses_2", callID: "call_3" };
    const review = { reviewID: "call_9", sliceID: "slice_1", revision: 2, sessionID: "ses_2", reviewer: "reviewer" };
    const file = { artifactID: "art_1", filename: "a.md", bytes: 2, sha256: "e".repeat(64) };
    const diff = { parent: git("c"), files: 1, insertions: 1, deletions: 0, omitted: [] };
    const all: DomainEvent[] = [
      { type: "review.finished", data: { ...review, verdict: "rejected", notes: "No.", ...on } },
      { type: "slice.settled", data: { sliceID: "slice_1", revision: 2, commit: git("a") } },
      { type: "tree.committed", data: { ...on, ...diff } },
      { type: "workspace.rebased", data: { baseCommit: git("d"), baseTree: git("e"), ...on } },
      { type: "landing.finished", data: { ...on, ref: "refs/heads/main", kept: [] } },
      {
        type: "artifact.recorded",
        data: { ...file, title: "A", mime: "text/markdown", by: { kind: "call", ...by } },
      },
    ];
    const { ledger } = ledgerOf(
      taskID,
      all.map((event, index) => frame(index + 1, event)),
      sha256,
    );
    expect(ledger.map(({ seq: _s, eventID: _e, at: _a, prev: _p, hash: _h, ...said }) => said)).toEqual([
      { kind: "review", ...review, verdict: "rejected", ...on },
      { kind: "settlement", state: "accepted", sliceID: "slice_1", revision: 2, commit: git("a") },
      { kind: "tree", ...on, parent: git("c") },
      { kind: "tree", ...on, parent: git("d") },
      { kind: "landing", ...on, ref: "refs/heads/main" },
      { kind: "artifact", ...file },
    ]);
  });

  test("changes its head with any value of any entry, and with their order", () => {
    const { ledger } = ledgerOf(taskID, story, sha256);
    for (const entry of ledger)
      for (const key of Object.keys(entry).filter((name) => name !== "hash"))
        expect(hashOf({ ...entry, [key]: "other" }, sha256), key).not.toBe(entry.hash);
    const swapped = [story[0], story[2], story[1]].filter((each) => each !== undefined);
    expect(ledgerOf(taskID, swapped, sha256).head).not.toBe(ledgerOf(taskID, story.slice(0, 3), sha256).head);
  });
});

describe("canonical JSON", () => {
  test("is RFC 8785's: keys sorted, no white space, strings and numbers as JSON.stringify has them", () => {
    expect(
      canonical({ b: [1e21, 0.000001, null, true], a: { "\u20ac": 1, "\r": 2, "1": 3, "\ud83d\ude00": "\u000f" } }),
    ).toBe('{"a":{"\\r":2,"1":3,"€":1,"😀":"\\u000f"},"b":[1e+21,0.000001,null,true]}');
  });

  test("is the same however the keys came, and says the same", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const turned = Object.fromEntries(Object.entries(value).toReversed());
        expect(canonical(turned)).toBe(canonical(value));
        expect(JSON.parse(canonical(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 200 },
    );
  });
});
