import { ofService } from "../../protocol/event/source.ts";
import { isService, messagesOf } from "../../domain/conversation/message.ts";
import { showDiff } from "../../domain/evidence/diff.ts";
import { type BriefTexts, briefOf } from "../../domain/evidence/review-brief.ts";
import { goalsOf } from "../../domain/evidence/slice.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import type { ReviewCheck } from "../../protocol/check.ts";
import type { LongText } from "../../protocol/text.ts";
import { loadText } from "../../store/blob/text.ts";
import { markForeign, truncateMiddle } from "../../tool/result.ts";
import type { Run } from "../run.ts";
import { filesIn } from "../workspace/read-diff.ts";

/** What a reviewer is given: the request and all that was said since, the contracts with their evidence, the diff. */

/** Limits in characters. */
const longestRequest = 16_000;
const longestDiff = 48_000;
/** For the rules, which read a diff line by line and have no window. */
const longestForRules = 60_000;

/** Later messages beyond this number are left out, the oldest first. */
const mostLater = 30;

/** What people said after the request, answers to questions, and the earlier rounds with what the author answered. */
const saidSince = async (run: Run): Promise<Pick<BriefTexts, "later" | "rounds">> => {
  const whole = async (name: string, text: LongText): Promise<string> =>
    markForeign(name, truncateMiddle(await loadText(run.store.blobs, text), "the rest is not shown", longestRequest));
  const later: string[] = [];
  const rounds: { findings: string; answer: string }[] = [];
  const asked = new Map<string, string>();
  const messages = messagesOf(run.chat);
  const first = messages.find(({ role }) => role === "user");
  for (const [at, message] of messages.entries()) {
    if (message.role === "assistant")
      for (const { callID, input } of message.calls) asked.set(callID, questionOf(input));
    if (message.role === "tool")
      for (const { callID, tool, outcome, output } of message.results)
        if (tool === "ask" && outcome === "ok")
          later.push(await whole(`the answer to the question "${asked.get(callID) ?? ""}"`, output));
    if (message.role !== "user" || message === first || message.summary !== undefined || isService(message)) continue;
    if (ofService(message) === undefined) later.push(await whole(`a message from ${message.source}`, message.text));
    if (ofService(message) !== "review") continue;
    const end = messages.findIndex((other, index) => index > at && other.role === "user");
    const answer = messages.slice(at, end === -1 ? undefined : end).findLast(({ role }) => role === "assistant");
    rounds.push({
      findings: await whole("what an earlier review found", message.text),
      answer: await whole(
        "what the author answered",
        answer?.role === "assistant" ? await wordsOf(run, answer.text) : "",
      ),
    });
  }
  return { later: later.slice(-mostLater), rounds };
};

/** Without what it says of the commit. */
const wordsOf = async (run: Run, text: LongText): Promise<string> =>
  readEnd(await loadText(run.store.blobs, text)).report;

const questionOf = (input: unknown): string => {
  const question = typeof input === "object" && input !== null && "question" in input ? input.question : "";
  return typeof question === "string" ? question.slice(0, 300) : "";
};

/** The changed files, and the diff as far as it is shown. */
const changeOf = async (run: Run, model: string): Promise<Pick<BriefTexts, "files" | "diff">> => {
  const state = run.state();
  const workspace = await run.workspace();
  const unchanged = state.workspace?.kind === "worktree" && state.tree === null;
  const diff = unchanged ? "" : await workspace.diff(state.tree?.commit ?? null);
  if (diff === "") return { diff: "Nothing was changed that Git can show." };
  const told = (text: string) => markForeign("the diff", text);
  if (model === "builtin/rules-1")
    return { diff: told(truncateMiddle(diff, "ask for less in one Task", longestForRules)) };
  const files = await filesIn(diff, run.signal);
  const before = files.flatMap(({ how, from, path }) => (how === "new" ? [] : [from ?? path]));
  const { list, text } = showDiff(files, await workspace.generated(before), longestDiff);
  return {
    files: markForeign("the changed files", list),
    diff: text === "" ? "Nothing of it is text that people write: see the list of files." : told(text.trimEnd()),
  };
};

/** `model`: the reviewer's. */
export const reviewBrief = async (
  run: Run,
  sliceIDs: readonly string[],
  checks: readonly ReviewCheck[],
  model: string,
): Promise<string> => {
  const state = run.state();
  const request = await loadText(run.store.blobs, state.request);
  const since = await saidSince(run);
  // A slice that nobody contracted has the words of the request or of a message: they are there already.
  const whole = new Set(state.slices.flatMap((slice) => (slice.whole ? [slice.sliceID] : [])));
  const goals = goalsOf(state).map((goal) =>
    whole.has(goal.sliceID)
      ? { ...goal, contract: { ...goal.contract, title: "All that was asked for", objective: "" } }
      : goal,
  );
  // These checks are about the whole result, so they get all evidence.
  const evidence = [...new Map(goals.flatMap((goal) => goal.evidence).map((seen) => [seen.id, seen])).values()];
  const criteria = checks.map(({ name, criteria: acceptance }) => ({
    contract: { revision: 1, title: name, objective: "The whole result is judged by this.", acceptance: [acceptance] },
    evidence,
  }));
  return briefOf([...sliceIDs.flatMap((id) => goals.filter(({ sliceID }) => sliceID === id)), ...criteria], {
    request: markForeign("the request", truncateMiddle(request, "the rest is not shown", longestRequest)),
    ...since,
    phase: state.phase,
    ...(await changeOf(run, model)),
    looks: model === "builtin/rules-1" ? 0 : Math.max(0, run.limits.reviewTurns - 1),
  });
};
