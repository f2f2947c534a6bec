import { serviceSourceOf } from "../../protocol/event/source.ts";
import { editedAfter } from "../../domain/conversation/edited.ts";
import { isService, messagesOf } from "../../domain/conversation/message.ts";
import { showDiff } from "../../domain/evidence/diff.ts";
import { cutWords } from "../../domain/evidence/output.ts";
import { type BriefTexts, briefOf, type Part } from "../../domain/evidence/review-brief.ts";
import { aboutOf } from "../../domain/evidence/shown.ts";
import { goalsOf, sliceOf } from "../../domain/evidence/slice.ts";
import { type Slice, staysOnBranch, type TaskState } from "../../domain/state/task.ts";
import { findingsIn } from "../../domain/evidence/findings.ts";
import { readEnd } from "../../domain/task/commit-text.ts";
import type { ReviewCheck } from "../../protocol/check.ts";
import type { Goal } from "../../protocol/task/status.ts";
import type { LongText } from "../../protocol/text.ts";
import { loadText } from "../../store/blob/text.ts";
import { counted, markForeign, truncateMiddle } from "../../tool/result.ts";
import type { Run } from "../run.ts";
import { guideOf } from "../session/project-facts.ts";
import { conflictsBefore } from "./landing/conflict-excerpt.ts";
import { filesIn } from "../workspace/read-diff.ts";

/**
 * Composes what a reviewer is given: the request and all that was said since, the contracts with their evidence, the
 * diff.
 */

/** Limits in characters. */
const longestRequest = 16_000;
const longestReport = 4000;
const longestDiff = 48_000;
/** For the built-in rules, which read a diff line by line and have no context window. */
const longestForRules = 60_000;

/** The length of a text that is shortened to one line, in characters, and how many files of a commit are named. */
const longestFirst = 120;
const mostPaths = 12;

/** Later messages beyond this number are left out, the oldest first. */
const mostLater = 30;

type Said = Pick<BriefTexts, "later" | "rounds"> & {
  /** The number in `later` of the message that began a slice; undefined: the message is not there. */
  number: (sliceID: string) => number | undefined;
};

/**
 * What people said after the request, answers to the author's questions, and the earlier rounds of review with the
 * author's answers.
 */
const saidSince = async (run: Run): Promise<Said> => {
  const wordsAs = (name: string, text: string): string =>
    markForeign(name, truncateMiddle(text, "the rest is not shown", longestRequest));
  const whole = async (name: string, text: LongText): Promise<string> =>
    wordsAs(name, await loadText(run.store.blobs, text));
  const slices = new Set(run.state().slices.map(({ sliceID }) => sliceID));
  const begins = new Map<string, number>();
  const later: string[] = [];
  let rounds: { findings: string; answer: string }[] = [];
  const asked = new Map<string, string>();
  const messages = messagesOf(run.chat);
  const first = messages.find(({ role }) => role === "user");
  for (const [at, message] of messages.entries()) {
    if (message.role === "assistant")
      for (const { callID, input } of message.calls) asked.set(callID, questionOf(input));
    if (message.role === "tool")
      for (const { callID, tool, outcome, output } of message.results)
        if (tool === "ask" && outcome === "ok")
          later.push(
            wordsAs(
              "the answer to a question of the author",
              `The author asked: ${asked.get(callID) ?? ""}\n${await loadText(run.store.blobs, output)}`,
            ),
          );
    if (message.role !== "user" || message === first || message.summary !== undefined || isService(message)) continue;
    if (serviceSourceOf(message) === undefined) {
      const sliceID = sliceOf(message.messageID);
      later.push(await whole(`a message from ${message.source}`, message.text));
      if (slices.has(sliceID)) {
        begins.set(sliceID, later.length);
        // Earlier findings are about work that has been accepted since.
        rounds = [];
      }
    }
    if (serviceSourceOf(message) !== "review") continue;
    const answer = await answerTo(run, messages.slice(at + 1));
    rounds.push({
      findings: wordsAs("what an earlier review found", findingsIn(await loadText(run.store.blobs, message.text))),
      answer: answer === "" ? "" : wordsAs("what the author answered", answer),
    });
  }
  const left = Math.max(0, later.length - mostLater);
  const number = (sliceID: string): number | undefined => {
    const at = (begins.get(sliceID) ?? 0) - left;
    return at > 0 ? at : undefined;
  };
  return { later: later.slice(left), rounds, number };
};

/**
 * What the author answered to a review: its first words without a call, whatever it was told in between; if its turn
 * was cut off, its last words.
 */
const answerTo = async (run: Run, since: ReturnType<typeof messagesOf>): Promise<string> => {
  const next = since.findIndex((message) => message.role === "user" && serviceSourceOf(message) === "review");
  const replies = since.slice(0, next === -1 ? undefined : next).filter((message) => message.role === "assistant");
  const answer = replies.find(({ calls }) => calls.length === 0) ?? replies.at(-1);
  return answer === undefined ? "" : (await wordsOf(run, answer.text)).trim();
};

/** The text without its description of the commit. */
const wordsOf = async (run: Run, text: LongText): Promise<string> =>
  readEnd(await loadText(run.store.blobs, text)).report;

/** The author's report on the finished work. Its answers to reviews are shown with the reviews. */
const reportOf = async (run: Run): Promise<string> => {
  const { summary } = run.state();
  const said = summary === null ? "" : (await wordsOf(run, summary)).trim();
  return said === ""
    ? ""
    : markForeign("the author's report", truncateMiddle(said, "the rest is not shown", longestReport));
};

const questionOf = (input: unknown): string => {
  const question = typeof input === "object" && input !== null && "question" in input ? input.question : "";
  return typeof question === "string" ? question : "";
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

/**
 * For a slice that stands for the request or a message: its contract only repeats their words, which the brief has
 * already, so it refers to them instead.
 */
const ownWords = (
  state: TaskState,
  { later, number }: Said,
  { sliceID, contract }: Goal,
): Pick<Part, "contract" | "criterion"> => {
  if (!state.slices.some((slice) => slice.whole && slice.sliceID === sliceID)) return { contract };
  if (!state.slices.some(isAccepted))
    return { contract: { ...contract, title: "All that was asked for", objective: "" } };
  const at = number(sliceID) ?? later.length;
  return {
    contract: { ...contract, title: "What was asked for after that", objective: "" },
    criterion: `what ${at === later.length ? "the last message above asks" : `the messages above ask, from number ${at} of ${later.length} on`}; what was accepted before must still hold where these words do not change it`,
  };
};

/** How many landings a brief names. */
const mostLandings = 10;

const isAccepted = ({ settlement }: Slice): boolean => settlement.state === "accepted";

/** What a follow-up builds on: commits of this Task that landed, and contracts that were accepted. */
const landedBefore = async (run: Run): Promise<NonNullable<BriefTexts["landed"]> | null> => {
  const { slices, landings } = run.state();
  // The Task's own branch keeps all of its work, so the next diff contains these landings as well.
  const landed = staysOnBranch(run.state()) ? [] : landings.slice(-mostLandings);
  const accepted = slices.filter(isAccepted);
  if (accepted.length === 0) return null;
  const workspace = await run.workspace();
  const commits = await Promise.all(
    landed.map(async ({ commit, ref, diffStat }) => {
      const { files, insertions, deletions } = diffStat ?? { files: 0, insertions: 0, deletions: 0 };
      const about = await workspace.about(commit);
      const paths = about?.paths ?? [];
      const named = [...paths.slice(0, mostPaths), ...(paths.length > mostPaths ? ["…"] : [])].join(", ");
      const title = about === undefined ? "" : ` "${cutWords(about.title, longestFirst)}"`;
      return `${commit.slice(0, 12)}${title} landed on ${ref.replace("refs/heads/", "")}: ${counted(files, "file")}, +${insertions} -${deletions}${named === "" ? "" : `: ${named}`}`;
    }),
  );
  const contracts = accepted.flatMap(({ whole, contract: { title, acceptance } }) =>
    whole && acceptance.length === 0 ? [] : [[title, ...acceptance].join("; ")],
  );
  return {
    items: [...commits, ...contracts],
    diff:
      commits.length === 0
        ? "It has not landed: the diff below holds it, too."
        : "The diff below holds only what was changed since; the tree that will land holds both.",
  };
};

/** `model`: the reviewer's model. */
export const reviewBrief = async (
  run: Run,
  sliceIDs: readonly string[],
  checks: readonly ReviewCheck[],
  model: string,
): Promise<string> => {
  const state = run.state();
  const request = await loadText(run.store.blobs, state.request);
  const since = await saidSince(run);
  const messages = messagesOf(run.chat);
  const goals = goalsOf(state).map((goal) => ({
    ...goal,
    ...ownWords(state, since, goal),
    evidence: goal.evidence.map((seen) => ({
      ...seen,
      about: aboutOf(state, seen, (callID) => editedAfter(messages, callID)),
    })),
  }));
  // These checks are about the whole result, so they get all evidence on it.
  const open = goals.filter(({ settlement }) => settlement.state === "open");
  const about = open.length === 0 ? goals : open;
  const evidence = [...new Map(about.flatMap((goal) => goal.evidence).map((seen) => [seen.id, seen])).values()];
  const criteria = checks.map(({ name, criteria: acceptance }) => ({
    contract: { title: name, objective: "The whole result is judged by this.", acceptance: [acceptance] },
    evidence,
  }));
  return briefOf([...sliceIDs.flatMap((id) => goals.filter(({ sliceID }) => sliceID === id)), ...criteria], {
    request: markForeign("the request", truncateMiddle(request, "the rest is not shown", longestRequest)),
    later: since.later,
    rounds: since.rounds,
    report: await reportOf(run),
    conflicts: await conflictsBefore(run),
    landed: await landedBefore(run),
    phase: state.phase,
    ...(await changeOf(run, model)),
    guide: (await guideOf(run))?.path ?? "",
    looks: model === "builtin/rules-1" ? 0 : Math.max(0, run.limits.reviewTurns - 1),
  });
};
