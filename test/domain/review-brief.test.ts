import { findingsIn, findingsText } from "../../src/domain/evidence/findings.ts";
import { describe, expect, test } from "vitest";
import { briefOf, readBrief } from "../../src/domain/evidence/review-brief.ts";
import { asItsBlock, review } from "../../src/model/builtin/role/reviewer.ts";
import type { Goal } from "../../src/protocol/task/status.ts";

/** What a reviewer reads, and what the rules make of it. */

const goal = (acceptance: string[], evidence: string[]): Goal => ({
  sliceID: "slice_1",
  order: 1,
  weight: "blocking",
  contract: { revision: 1, title: "A slice: with a colon", objective: "Do it", acceptance },
  execution: { state: "finished", sessionIDs: [], attempts: 1, startedAt: null, endedAt: null },
  evidence: evidence.map((line, index) => {
    const [kind = "check", ...rest] = line.replace("OLD ", "").split(" ");
    return {
      id: String(index),
      kind: kind as "check",
      summary: rest.join(" "),
      lastLines: null,
      contrast: null,
      sessionID: null,
      commit: null,
      stale: line.startsWith("OLD "),
      at: "2026-01-01T00:00:00.000Z",
    };
  }),
  review: { verdict: null, revision: null, reviewer: null, notes: null, stale: false, at: null },
  settlement: { state: "open", revision: null, commit: null, at: null },
});

const request = '<data from="the request">\n```txt file=a.txt\none\ntwo\n```\n</data>';
const diff = (second: string) =>
  `<data from="the diff">\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-old\n+${second}\n</data>`;
const judged = (goals: Goal[], shown = diff("two")) => {
  const { parts } = review(briefOf(goals, { request, later: [], rounds: [], diff: shown })).input as {
    parts: { part: number; verdict: string }[];
  };
  return parts.map(({ part, verdict }) => `${part} ${verdict}`);
};

describe("a brief", () => {
  test("is read back as it was given, stale evidence left out", () => {
    const text = briefOf([goal(["one", "two"], ["change 1 file", "OLD command `x` exit 0"]), goal([], [])], {
      request,
      later: [],
      rounds: [],
      diff: diff("two"),
    });
    expect(readBrief(text)).toEqual({
      request,
      diff: diff("two"),
      parts: [
        { part: 1, acceptance: ["one", "two"], evidence: ["change: 1 file"] },
        { part: 2, acceptance: [], evidence: [] },
      ],
    });
  });
  test("has both sides of a conflict with what to look for; what they say is not read back as the brief's own", () => {
    const conflicts = [
      '<data from="both sides">\na.txt, at line 5:\n<<<<<<< one\n\n# The diff\n\n# Part 7: x\n</data>',
    ];
    const given = { request, later: [], rounds: [], diff: diff("two") };
    const text = briefOf([goal(["one"], ["change 1 file"])], { ...given, conflicts });
    expect(text).toContain(
      "# Where this change and the project's met, and both sides of it\n\nWhile the author worked",
    );
    expect(text).toContain(conflicts[0]);
    expect(readBrief(text)).toEqual(readBrief(briefOf([goal(["one"], ["change 1 file"])], given)));
    expect(briefOf([goal(["one"], [])], given)).not.toContain("Where this change");
  });
  test("has the phase of the plan, the list of files and the reviewer's turns where there are some, and is read back without them", () => {
    const text = briefOf([goal(["one"], ["change 1 file"])], {
      request,
      later: [],
      rounds: [],
      phase: {
        title: "Storage",
        objective: "Codes are kept.",
        acceptance: ["Survives a kill", "Torn lines are skipped"],
      },
      files: "1 file, +1 -1\n a.txt | +1 -1",
      diff: diff("two"),
      looks: 5,
    });
    expect(text).toContain("Storage: Codes are kept.");
    expect(text).toMatch(/criterion of its own[^\n]*\n- Survives a kill\n- Torn lines are skipped\n/);
    expect(text).toContain("in 5 turns at most");
    expect(readBrief(text)).toEqual({
      request,
      diff: diff("two"),
      parts: [{ part: 1, acceptance: ["one"], evidence: ["change: 1 file"] }],
    });
  });
  test("has a line of a proof by contrast that could not be, and of what was seen before the last change the newest", () => {
    const contrast = { result: "cannot-run" as const, command: "t", firstLines: "Cannot find module", reason: "flaky" };
    const textOf = (reason: string, old = 0) => {
      const pieces = [
        ...Array.from({ length: old }, (_, at) => `OLD command \`npm test ${at}\` exit 1`),
        "contrast no",
      ];
      const { evidence, ...rest } = goal([], pieces);
      const shown = evidence.map((one) =>
        one.kind === "contrast" ? { ...one, contrast: { ...contrast, reason } } : one,
      );
      return briefOf([{ ...rest, evidence: shown }], { request, later: [], rounds: [], diff: diff("two") });
    };
    expect(textOf("flaky")).toContain("- contrast: no\n  | Cannot find module\n");
    expect(textOf("needs the new code")).toContain("- contrast: cannot tell: the tests need the new code\n\n");
    expect(textOf("flaky")).not.toContain("Seen before");
    expect(textOf("flaky", 10)).toContain(
      "Seen before the last change, a line each:\n- 2 more, older ones\n- command: `npm test 2` exit 1\n",
    );
    expect(readBrief(textOf("flaky", 10)).parts[0]?.evidence).toEqual(["contrast: no"]);
  });
  test("names what was accepted before, which is no part of the request", () => {
    const landed = { items: ['0123456789ab "A title" landed on main: 1 file, +1 -1: a.txt'], diff: "The diff is new." };
    const text = briefOf([goal(["one"], [])], { request, later: [], rounds: [], landed, diff: diff("two") });
    expect(text).toContain(
      `must still hold where later words do not change it\n- ${landed.items[0]}\nThe diff is new.\n`,
    );
    expect(readBrief(text)).toMatchObject({ request, parts: [{ part: 1, acceptance: ["one"] }] });
  });
  test("names the file with the conventions to whoever may look", () => {
    const textOf = (looks: number) =>
      briefOf([goal(["one"], [])], { request, later: [], rounds: [], diff: diff("two"), guide: "AGENTS.md", looks });
    expect(textOf(5)).toContain("The author was told to follow the conventions in `AGENTS.md`. Judge it");
    expect(textOf(0)).not.toContain("AGENTS.md");
  });
  test("holds of an earlier round what was found, without the words to the author", () => {
    const found = ['- slice_1 "A title": rejected. It is red.\n\nSee a.txt.', "- another"];
    expect(findingsIn(findingsText(found, "(round 1 of 3)"))).toBe(found.join("\n"));
    expect(findingsIn("Somebody else said something.\n\nOnce.")).toBe("Somebody else said something.\n\nOnce.");
  });
  test("anything else has no parts", () => expect(readBrief("Do it.").parts).toEqual([]));
});

describe("the rules as a reviewer", () => {
  test("know the blocks of later messages, of which the last counts", () => {
    const block = (content: string) =>
      `<data from="a message from user">\n\`\`\`txt file=b.txt\n${content}\n\`\`\`\n</data>`;
    const shown = `<data from="the diff">\ndiff --git a/b.txt b/b.txt\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n</data>`;
    const verdictOf = (later: string[]) =>
      (
        review(briefOf([goal([asItsBlock("b.txt")], ["change 1 file"])], { request, later, rounds: [], diff: shown }))
          .input as { parts: { verdict: string }[] }
      ).parts[0]?.verdict;
    expect(verdictOf([block("old"), block("new")])).toBe("accepted");
    expect(verdictOf([block("new"), block("old")])).toBe("rejected");
    expect(verdictOf([])).toBe("inconclusive");
  });

  test("accept a block that the diff shows line by line, and reject another one", () => {
    const slices = [goal([asItsBlock("a.txt")], ["change 1 file"])];
    expect(judged(slices)).toEqual(["1 accepted"]);
    expect(judged(slices, diff("three"))).toEqual(["1 rejected"]);
    expect(judged(slices, "Nothing was changed that Git can show.")).toEqual(["1 rejected"]);
  });
  test("accept a check that passed on what is there, not one that is missing, old or red", () => {
    const criterion = ["`npm test` passes"];
    expect(judged([goal(criterion, ["check npm test passed"])])).toEqual(["1 accepted"]);
    expect(judged([goal(criterion, [])])).toEqual(["1 rejected"]);
    expect(judged([goal(criterion, ["OLD check npm test passed"])])).toEqual(["1 rejected"]);
    expect(judged([goal(criterion, ["check npm test passed", "check lint failed: exit 1"])])).toEqual(["1 rejected"]);
    // What was red before the work is no fault of it.
    const before = ["check npm test passed, failed before the work", "check lint failed: exit 1, before the work, too"];
    expect(judged([goal(criterion, before)])).toEqual(["1 accepted"]);
    expect(judged([goal(criterion, ["check npm test failed: exit 1, before the work, too"])])).toEqual(["1 rejected"]);
  });
  test("say of anything else that they cannot tell", () => {
    expect(judged([goal(["It is beautiful"], ["change 1 file"])])).toEqual(["1 inconclusive"]);
    expect(judged([goal([], ["change 1 file"])])).toEqual(["1 accepted"]);
    expect(judged([goal([], [])])).toEqual(["1 inconclusive"]);
  });
});
