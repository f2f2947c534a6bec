import { hash } from "node:crypto";
import { z } from "zod";
import { showDiff } from "../domain/evidence/diff.ts";
import { shareOf } from "../domain/mission/grant.ts";
import { planOf } from "../domain/mission/status.ts";
import type { MissionState } from "../domain/state/mission.ts";
import { messageOf, ServiceError } from "../error.ts";
import { type MissionBudget, verdict } from "../protocol/mission/status.ts";
import { loadText } from "../store/blob/text.ts";
import { ClaimLost } from "../store/claimed-stream.ts";
import { filesIn } from "../task/workspace/read-diff.ts";
import { type MissionDispatch, MissionMovedOn } from "../task/tasks.ts";
import { counted, markForeign, truncateMiddle } from "../tool/result.ts";
import { NoFiles } from "../tool/tool.ts";
import { readyLocalBranch } from "./branch.ts";
import { serviceTask } from "./service-task.ts";
import { readyRemoteBranch } from "./repository.ts";
import type { MissionRun } from "./run.ts";

/**
 * Has the whole Mission judged by a session that did not plan it: by a Task of the service's own, created in one commit
 * with the Mission's record of it. Its agent gets the user's words and the whole change, may run anything in a worktree
 * of its own, and returns its verdict as the Task's output. None of its files land.
 */

/** The squad that judges: a general one that is always available. */
const judgingSquad = "base";

/** Characters. */
const longest = { text: 16_000, said: 48_000, diff: 48_000, notes: 4_000 };

/** Later directions beyond this number are left out, the oldest first. */
const mostSaid = 40;

const schema = {
  type: "object",
  properties: {
    verdict: { enum: ["accepted", "rejected", "inconclusive"] },
    notes: {
      type: "string",
      minLength: 1,
      maxLength: longest.notes,
      description:
        "accepted: what convinced you, in a few sentences. rejected: what is missing or broken, each with its place and how it is seen. inconclusive: what kept you from telling",
    },
  },
  required: ["verdict", "notes"],
  additionalProperties: false,
};

/** The verdict in a Task's output; undefined: the output is none. */
export const readVerdict = (output: unknown): z.infer<typeof verdict> | undefined => verdict.safeParse(output).data;

/**
 * Takes up that the agent said done: dispatches the Task that judges, or finishes the Mission by the verdict on it.
 * Where nobody can judge, the Mission finishes unverified.
 */
export const judge = async (run: MissionRun): Promise<void> => {
  const state = run.state();
  const { judging, verdict: known } = state;
  if (judging === null) throw new Error("Expected a Mission whose agent says that it is done.");
  if (known?.callID === judging.callID) return finished(run, state, known.verdict === "accepted");
  try {
    if (!(await dispatch(run, state, judging.commit, judging.callID))) return await finished(run, state, false);
    await run.record([]);
  } catch (error) {
    if (error instanceof MissionMovedOn) {
      if (error.reason === "fence") throw new ClaimLost();
      await run.record([]);
      return;
    }
    run.signal.throwIfAborted();
    if (!(error instanceof NoFiles) && (!(error instanceof ServiceError) || error.retryable)) throw error;
    run.log.warn({ mission: run.stream, error: messageOf(error) }, "a Mission's whole could not be judged");
    await finished(run, state, false);
  }
};

const finished = async (run: MissionRun, { judging, version }: MissionState, verified: boolean): Promise<void> => {
  if (judging === null) return;
  const { callID, summary } = judging;
  const outcome = "done" as const;
  await run.record(
    [{ type: "mission.finished", data: { sessionID: run.stream, callID, outcome, summary, wakeAt: null, verified } }],
    { decidedAt: version },
  );
};

/** false: there is no budget or no branch for the Task. */
const dispatch = async (run: MissionRun, state: MissionState, commit: string, callID: string): Promise<boolean> => {
  const share = shareOf(state, undefined, { first: false, kept: run.limits.reservePercent });
  if (!share.ok) return false;
  const own = await readyLocalBranch(run);
  if ("why" in own) return false;
  const place = await readyRemoteBranch(run);
  if ("why" in place) return false;
  if (run.state().version !== state.version) return dispatch(run, run.state(), commit, callID);
  const base = await baseOf(run, state);
  const request = await requestOf(run, state, { base, commit });
  const budget = halfOf(share.budget);
  const judges = { commit, base, heard: state.words };
  const of = { callID, phase: "verdict", brief: hash("sha256", request), reserved: budget, judges };
  const task = serviceTask(state, of, run.fence);
  const origin: MissionDispatch = {
    ...task,
    model: state.models.review ?? task.model,
    approve: [],
    attachments: state.attachments.slice(-run.limits.attachments),
    onto: own.onto,
    judges: true,
  };
  await run.tasks.create(
    place.directory,
    {
      title: `Judge the whole: ${state.title}`.slice(0, 200),
      request,
      productPillar: state.productPillar,
      promptProfile: judgingSquad,
      priority: state.priority,
      source: "mission",
      checks: [],
      outputSchema: schema,
      landing: "branch",
      ...(Object.keys(state.limits).length === 0 ? {} : { limits: state.limits }),
      ...(budget === null ? {} : { budget }),
    },
    undefined,
    origin,
  );
  return true;
};

/** The other half stays available for what a person asks for meanwhile. */
const halfOf = (budget: MissionBudget | null): MissionBudget | null => {
  if (budget === null) return null;
  const { maxCostUSD, maxTokens, maxSteps, maxMinutes } = budget;
  return {
    ...(maxCostUSD === undefined ? {} : { maxCostUSD: maxCostUSD / 2 }),
    ...(maxTokens === undefined ? {} : { maxTokens: Math.ceil(maxTokens / 2) }),
    ...(maxSteps === undefined ? {} : { maxSteps: Math.ceil(maxSteps / 2) }),
    ...(maxMinutes === undefined ? {} : { maxMinutes: maxMinutes / 2 }),
  };
};

const branchesOf = async (run: MissionRun) => {
  const { project } = await run.workspaces.inspect(run.state().directory);
  return run.workspaces.branches(project);
};

/** The commit before the first one that the Mission landed; null: unknown. */
const baseOf = async (run: MissionRun, { tasks, branch, repository }: MissionState): Promise<string | null> => {
  if (branch !== null) return branch.commit;
  const commits = tasks.flatMap(({ merge, ends }) =>
    merge === undefined ? ends.flatMap(({ landedCommit }) => landedCommit ?? []) : [],
  );
  if (commits.length === 0 || repository !== null) return null;
  return (await branchesOf(run)).before(commits);
};

// ---- The brief -----------------------------------------------------------------------------------------------------

/** The first line of every request to judge. */
export const verdictHeading = "# Has this goal been reached?";

const requestOf = async (
  run: MissionRun,
  state: MissionState,
  { base, commit }: { base: string | null; commit: string },
): Promise<string> => {
  const summary = state.judging?.summary ?? "";
  const phases = planOf(state).map(
    ({ id, title, objective, acceptance }) =>
      `- ${id}: ${title}. ${objective}${acceptance.map((one) => `\n  - ${one}`).join("")}`,
  );
  return [
    verdictHeading,
    `Somebody planned this goal, had it carried out in ${counted(phases.length, "phase")}, and says that it is done. You took no part in that. Judge what is there, not what is said of it.`,
    "## The goal, in its user's words\nWhere two of them contradict each other, the later one counts.",
    ...(await saidBy(run)),
    `## What whoever planned it says\n${markForeign("the planner", truncateMiddle(summary, "the rest is not shown", longest.text))}`,
    `## The phases, and what each was to be accepted by\n${truncateMiddle(phases.join("\n"), "the rest is not shown", longest.text)}`,
    ...earlierOf(state),
    `## The whole change\n${await changeOf(run, base, commit)}`,
    `## What to look for besides
What nobody looked at phase by phase: parts that do not fit together, a requirement that fell between two phases or out of the plan, a document that is untrue now, a caller of what was changed, debris. What the user did not ask for is no reason to reject, nor is how you would have done it. Whatever you write to files is thrown away.

Then give the Task's output: \`accepted\` where all of it is there and works; \`rejected\` where something is missing or broken, and you can say what and how it is seen; \`inconclusive\` where you could not tell.`,
  ].join("\n\n");
};

/** What an earlier verdict found: whether it was fixed is for the new one to say. */
const earlierOf = ({ verdict: before }: MissionState): string[] =>
  before === null
    ? []
    : [
        `## What was found when it was judged before, at ${before.commit}: ${before.verdict}\n${markForeign("an earlier verdict", before.notes)}`,
      ];

/** What people wrote to the Mission and its Tasks, what they answered, and why they cancelled Tasks, in order. */
const saidBy = async (run: MissionRun): Promise<string[]> => {
  const types = [
    "message.received",
    "ask.opened",
    "ask.answered",
    "task.answered",
    "task.messaged",
    "task.ended",
  ] as const;
  const asked = new Map<string, string>();
  const said: string[] = [];
  for (const event of await run.store.read(run.stream, { types: [...types] })) {
    // Words given with an approval are recorded as a message, too.
    if (event.type === "ask.opened" && event.data.kind === "question") asked.set(event.data.askID, event.data.prompt);
    if (event.type === "ask.answered" && event.data.by === "caller" && event.data.answer !== undefined) {
      const question = asked.get(event.data.askID);
      if (question !== undefined)
        said.push(markForeign("an answer of the user", `To: ${question}\n${event.data.answer}`));
    }
    if (event.type === "task.answered" && event.data.said !== undefined) {
      const { question, answer } = event.data.said;
      said.push(markForeign("an answer of the user to a Task", `To: ${question}\n${answer}`));
    }
    if (event.type === "task.messaged") said.push(markForeign("a message of the user to a Task", event.data.text));
    if (
      event.type === "task.ended" &&
      event.data.cancelledByUser !== undefined &&
      event.data.cancelledByUser.reason !== ""
    )
      said.push(markForeign("the user, who cancelled a Task", event.data.cancelledByUser.reason));
    if (event.type === "message.received" && event.data.source === "user")
      said.push(
        markForeign(
          "the user",
          truncateMiddle(await loadText(run.store.blobs, event.data.text), "the rest is not shown", longest.text),
        ),
      );
  }
  // The goal itself always stays.
  const later = said.slice(1).slice(-mostSaid);
  let room = longest.said;
  const kept = later.toReversed().filter((text) => (room -= text.length) > 0);
  const left = said.length - 1 - kept.length;
  return [
    ...said.slice(0, 1),
    ...(left > 0 ? [`(${counted(left, "later message")} left out)`] : []),
    ...kept.toReversed(),
  ];
};

/** The folder of a project's own squads. */
const squadsFolder = ".sortie/squads/";

const changeOf = async (run: MissionRun, base: string | null, commit: string): Promise<string> => {
  const landed = "Look at it with `git`: its first phase landed as";
  const commits = run.state().tasks.flatMap(({ ends }) => ends.flatMap(({ landedCommit }) => landedCommit ?? []));
  const diff = base === null ? null : await (await branchesOf(run)).diff(base, commit);
  if (base === null || diff === null)
    return `The project's head is ${commit}. ${landed} ${commits[0] ?? "a commit that is gone"}${commits.length > 1 ? `, the others as ${commits.slice(1).join(", ")}` : ""}.`;
  const changed = await filesIn(diff, run.signal);
  const files = changed.filter(({ path }) => !path.startsWith(squadsFolder));
  const squads =
    changed.length === files.length
      ? ""
      : `\nLeft out: ${counted(changed.length - files.length, "file")} below ${squadsFolder}, squads that the service had made for this work with its user's leave.`;
  const { list, text } = showDiff(files, () => false, longest.diff);
  return `From ${base}, before the first phase, to ${commit}, as the project is now; \`git\` shows any part of it (\`diff\` of ${base.slice(0, 12)}..${commit.slice(0, 12)}).\n${markForeign("the changed files", list)}${squads}\n${text === "" ? "None of it is text that people write." : markForeign("the diff", text.trimEnd())}`;
};
