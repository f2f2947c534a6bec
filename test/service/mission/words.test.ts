import { expect, test } from "vitest";
import { agentNotice } from "../../../src/domain/mission/wording.ts";
import { noUsage } from "../../../src/domain/state/stream.ts";
import { post } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Say,
  taskIn,
  wake,
} from "../../harness/double/missions.ts";
import { textOf } from "../../harness/double/mock-provider.ts";
import { readText, until } from "../../harness/project.ts";

/** What is told on: to the Mission's agent of an end, to a Task of all that was before it, over a summary. */

const writer: Say = (turn, { first }) => {
  const name = /Write (\S+)\./.exec(first)?.[1] ?? "x.txt";
  return turn === 0
    ? { calls: [{ tool: "write", input: { path: name, content: "made\n" } }] }
    : { text: `The report on ${name}.\n\nCommit: Add ${name}` };
};

test("an end comes with its evidence and with what is next; a Task hears of all that was before it", {
  timeout: 60_000,
}, async () => {
  await using stage = await openStage();
  const heard: string[] = [];
  const handed: Record<string, string> = {};
  let outcome = "";
  stage.play("told", {
    mission: (_turn, _request, newest) => {
      heard.push(newest);
      return (
        [
          {
            calls: [
              { tool: "remember", input: { text: "The user wants blue." } },
              plan("a", { id: "b", after: ["a"] }, { id: "c", after: ["b"] }),
              dispatch("a", "Write a1.txt. [told]", { checks: ["test -f a1.txt"] }),
            ],
          },
          { text: "Runs." },
          {
            calls: [
              { tool: "task_evidence", input: { task: taskIn(newest), part: "outcome" } },
              dispatch("b", "Write b1.txt. [told]", { checks: ["test -f b1.txt"] }),
            ],
          },
          { text: "Runs." },
          { calls: [dispatch("c", "Write c1.txt. [told]", { checks: ["test -f never"] })] },
          { calls: [dispatch("c", "Write c2.txt. [told]", { checks: [] })] },
        ][heard.length - 1] ?? { calls: [finish()] }
      );
    },
    task: (turn, request, newest) => {
      const name = /Write (\w+)\.txt/.exec(request.first)?.[1] ?? "";
      if (turn === 0) handed[name] ??= request.body.messages.map(({ content }) => textOf(content)).join("\n");
      // What the failed attempt left is taken over with the very words that it is told of with.
      const told = /`(git diff HEAD\.\.\.\S+ \| git apply)`/.exec(handed[name] ?? "")?.[1];
      if (turn === 0 && told !== undefined)
        return {
          calls: [
            { tool: "shell", input: { command: told } },
            { tool: "write", input: { path: "c2.txt", content: "made\n" } },
          ],
        };
      if (name === "b1" && turn === 0)
        return { calls: [{ tool: "write", input: { path: "b1.txt", content: "made at length\n".repeat(500) } }] };
      return writer(turn, request, newest);
    },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[told]" });
  const { finished, tasks } = await restOf(url, directory, missionID, 50_000);
  expect(finished?.outcome).toBe("done");
  const [, , first = "", evidence = ""] = heard;
  outcome = evidence;
  expect(first).toMatch(
    /Files changed: 1 \(\+1 -0\): new "a1\.txt" \+1\.\n<data from="task_\w+ diff">\ndiff --git [^<]*\+made\n<\/data>\nChecks, all passed: test -f a1\.txt\./,
  );
  // A longer change is told by its files alone.
  const long = heard.find((text) => text.includes('new "b1.txt"')) ?? "";
  expect(long).toContain('new "b1.txt" +500.\nChecks, all passed');
  expect(long).not.toContain("diff --git");
  expect(first).toMatch(/It used \d+ model calls, \d+ tokens\./);
  expect(first).toMatch(/Review of "[^"]+": accepted/);
  expect(first).toContain("The report on a1.txt.\n</data>");
  expect(first).toContain("Ready: b. Not done: 2.");
  expect(outcome).toContain('"lastWords": "The report on a1.txt."');
  const failed = heard.find((text) => text.includes("ended failed")) ?? "";
  expect(failed).toContain("Checks: 0 of 1 passed.\ntest -f never: failed");
  expect(heard.at(-1)).toContain("Every phase of the plan is done.");

  // The third starts from the second alone, and hears of the first all the same.
  expect(handed["c1"]).toMatch(/# What the phases left that it starts from\n## Phase b[\s\S]*The report on b1\.txt\./);
  expect(handed["c1"]).toMatch(/# What other phases left\n## Phase a[\s\S]*The report on a1\.txt\./);
  expect(handed["c1"]).toContain("# What the Mission keeps in mind\nThe user wants blue.");
  expect(handed["c1"]).not.toContain("What was tried");
  const left = tasks[2]?.git.headCommit?.slice(0, 12);
  expect(handed["c2"]).toContain(`What it left is commit ${left}: \`git diff HEAD...${left}\` shows it.`);
  expect(readText(directory, "c1.txt")).toBe("made\n");
});

test("that an end changed no files is said once; control: of one that failed, too", () => {
  const notice = (outcome: "completed" | "failed") =>
    agentNotice({
      type: "task.ended",
      data: {
        sessionID: "ses_1",
        taskID: "task_1",
        attempt: 1,
        phase: "a",
        title: "A",
        outcome,
        summary: "Looked.",
        landedCommit: null,
        branch: null,
        usage: { ...noUsage, modelCalls: 1, costUSD: null },
        evidence: { diffStat: null, checks: [], contrast: null, reviews: [] },
      },
    })?.split(/\n+/);
  const [first, ...rest] = ["It had no checks.", "It used 1 model call, 0 tokens.", "Its last words:"];
  expect(notice("completed")?.slice(0, 4)).toEqual([
    'Task task_1 of phase a, "A", ended completed. It changed no files of the project.',
    first,
    ...rest,
  ]);
  expect(notice("failed")?.slice(0, 3)).toEqual([
    'Task task_1 of phase a, "A", ended failed.',
    "It changed no files.",
    first,
  ]);
});

test("an end by the user is told as theirs, with their reason as their words; control: one of the Mission's own", () => {
  const at = { sessionID: "ses_1", taskID: "task_1", attempt: 1, phase: "a", title: "Write a" };
  const end = { outcome: "cancelled" as const, summary: "", landedCommit: null, branch: null, usage: noUsage };
  const notice = (more: object) => agentNotice({ type: "task.ended", data: { ...at, ...end, ...more } });
  const error = "Cancelled by cli: 007 is a product code, keep it";
  expect(notice({ error, cancelledByUser: { reason: "007 is a product code, keep it" } })).toBe(
    'Task task_1 of phase a, "Write a", ended cancelled: the user cancelled it.\n\nThe user\'s reason, in their words: 007 is a product code, keep it',
  );
  expect(notice({ error, cancelledByUser: { reason: "" } })).toContain(
    "the user cancelled it.\n\nThe user gave no reason.",
  );
  const own = notice({ error: "Cancelled by mission: another way" });
  expect(own).toContain('<data from="task_1 error">\nCancelled by mission: another way\n</data>');
  expect(own).not.toContain("user");
});

test("a wake by time says what it was for", () => {
  const notice = (more: object) =>
    agentNotice({ type: "mission.woken", data: { sessionID: "ses_1", by: "time", ...more } });
  expect(notice({ reason: "The release is due." })).toBe(
    "The time that you set is over. You had said: The release is due.",
  );
  expect(notice({})).toBe("The time that you set is over.");
});

test("a summary of a Mission has headings of its own, and the user's answers word for word, over the next one too", {
  timeout: 60_000,
}, async () => {
  await using stage = await openStage({}, { model: "mock/small" }, [{ id: "small", contextWindow: 16_000 }]);
  const phases = Array.from({ length: 30 }, (_, index) => ({
    id: `p-${index}`,
    title: `Phase ${index}`,
    objective: `${"word ".repeat(80)}${index}.`,
  }));
  const asked: string[] = [];
  const isSummary = (text: string) =>
    text.startsWith("Note from the service, not from the user: this conversation is about");
  let turn = 0;
  stage.play("sum", {
    mission: (_turn, { body }) => {
      const usage = { input: Math.ceil(JSON.stringify(body).length / 4), output: 20 };
      const last = textOf(body.messages.at(-1)?.content);
      if (isSummary(last)) {
        asked.push(last);
        return { text: "## Goal and directions\nAll of it is to be blue, and nothing else counts here.", usage };
      }
      turn += 1;
      if (turn === 1) return { calls: [{ tool: "ask", input: { question: "Red or blue?" } }], usage };
      if (turn === 2) return { calls: [{ tool: "plan", input: { phases } }], usage };
      if (asked.length >= 2) return { calls: [finish("blocked", "Enough.")], usage };
      return { calls: [{ tool: "task_status", input: { phases: [`p-${turn % 30}`] } }], usage };
    },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[sum]" });
  const { pending } = await until(
    () => missionOf(url, directory, missionID),
    (mission) => mission.pending.length > 0,
  );
  await post(url, `/mission/${missionID}/pending/${pending[0]?.id}`, directory, { answer: "Blue, like the sea." });
  await until(
    () => missionOf(url, directory, missionID),
    ({ state }) => state === "blocked",
    40_000,
  );
  for (const heading of ["Goal and directions", "Phases", "Tasks", "Decisions", "Open ends"])
    expect(asked[0]).toContain(`## ${heading}\n`);
  expect(asked[0]).not.toContain("State of the files");
  const summaries = (await eventsOf(url, directory, missionID)).flatMap(({ type, data }) =>
    type === "conversation.compacted" ? [String(data["summary"])] : [],
  );
  expect(summaries.length).toBeGreaterThanOrEqual(2);
  for (const summary of summaries)
    expect(summary.split("## What the user answered\n")).toEqual([
      expect.stringContaining("All of it is to be blue"),
      "- Red or blue?: The user answered: Blue, like the sea.",
    ]);
});
