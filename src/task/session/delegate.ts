import type { DelegatedWork, SessionContext } from "../../agent/session.ts";
import { activityOf, activityText, changedOf } from "../../domain/conversation/activity.ts";
import { lastWordOf } from "../../domain/conversation/message.ts";
import { findSession, interruptOf } from "../../domain/session/session.ts";
import type { Session } from "../../domain/state/stream.ts";
import { messageOf } from "../../error.ts";
import { newID } from "../../id.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { ClaimLost } from "../../store/claimed-stream.ts";
import { GitError } from "../../workspace/git/git.ts";
import { keepText, loadText } from "../../store/blob/text.ts";
import type { Squad } from "../../squad/squad.ts";
import { counted, failed, truncatedResult } from "../../tool/result.ts";
import { type ToolResult, WaitsForAnswer } from "../../tool/tool.ts";
import type { ForkMerge } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { commitTree } from "../workspace/commit.ts";

/**
 * The `delegate` call. The session is identified by its call, so that a run after a crash continues it and never starts
 * a second one. Agents that may change files at the same time work in forks of the worktree, which are merged into it
 * one after another; a conflict is reported to the agent that delegated.
 */

type Work = DelegatedWork & { callID: string };

/** The squad whose agents can be delegated to, and the runner of their sessions. */
type Team = { squad: Squad; runSession(sessionID: string): Promise<unknown> };

/** How many sessions a Task may have. */
const most = 64;

export const delegate = async (run: Run, team: Team, parent: SessionContext, work: Work): Promise<ToolResult> => {
  const known = run.state().sessions.find(({ callID }) => callID === work.callID);
  const refused = known === undefined ? refusal(run, team, parent, work) : undefined;
  if (refused !== undefined) return failed(refused);
  const sessionID = known?.sessionID ?? (await begin(run, team, parent, work));
  const session = findSession(run.state(), sessionID);
  using _ended = { [Symbol.dispose]: () => run.chats.close(sessionID) };
  if (session.end === null) await carryOut(run, team, session);
  const ended = findSession(run.state(), sessionID);
  if (ended.fork !== null)
    await run.workspaces.closeFork(await run.workspace(), ended.fork.name, ended.end?.joined?.commit);
  const chat = await run.chats.of(sessionID);
  const said = await loadText(run.store.blobs, lastWordOf(chat));
  return resultOf(ended, said, activityText(activityOf(chat), ended.end?.changed), work.callID);
};

/** Runs the session to its end and records the end. */
const carryOut = async (run: Run, team: Team, { sessionID, agent, fork, from }: Session): Promise<void> => {
  // Agents that may change the Task's own files take turns; an agent with a fork takes its turn only for the merge.
  const holder = holderAbove(run, team, sessionID);
  using _files = mayWrite(team, agent) && fork === null ? await inTurn(run, holder) : nothing;
  const ended = await team.runSession(sessionID).then(
    () => endOf(run, sessionID),
    (error: unknown) => cannot(run, error),
  );
  // The session waits for an answer or a quota, so its call stays open.
  if (ended === undefined) throw new WaitsForAnswer();
  const changed = await changeOf(run, { fork, from });
  // Held until the merge is recorded, because the next one starts from what is committed.
  using _joining = fork === null ? nothing : await inTurn(run, holder);
  const joined = fork === null ? undefined : await join(run, agent, fork);
  const told = joined && {
    joined: joined.ok
      ? { files: joined.files, conflicts: [], branch: null }
      : { files: 0, conflicts: joined.paths, branch: joined.branch, commit: joined.commit },
  };
  await run.record([{ type: "session.ended", data: { sessionID, ...ended, ...told, ...changed } }]);
};

/** A longer diff, in characters, is not counted. */
const longestDiff = 4 * 1024 * 1024;

/**
 * The files that a session changed, with the numbers of lines: in its fork, or in the Task's own files while it had
 * them alone. Empty when unknown.
 */
const changeOf = async (
  run: Run,
  { fork, from }: Pick<Session, "fork" | "from">,
): Promise<Pick<EventData["session.ended"], "changed">> => {
  const base = fork?.commit ?? from;
  if (base === null || base === undefined) return {};
  try {
    const workspace = await run.workspace();
    const own = fork === null ? workspace : await run.workspaces.fork(workspace, fork.name, fork);
    using _slot = await run.slot();
    const diff = await own.diff(null, base);
    return diff.length > longestDiff ? {} : { changed: changedOf(diff) };
  } catch (error) {
    run.signal.throwIfAborted();
    if (error instanceof GitError) return {};
    throw error;
  }
};

type End = Pick<EventData["session.ended"], "outcome" | "reason">;

const nothing: Disposable = { [Symbol.dispose]() {} };

const refusal = (run: Run, team: Team, { agent }: SessionContext, work: Work): string | undefined => {
  const { sessions, slices } = run.state();
  if (!agent.delegates.includes(work.agent))
    return `There is no agent ${JSON.stringify(work.agent)} to delegate to. Expected one of ${agent.delegates.join(", ")}.`;
  if (!team.squad.agents.some(({ name }) => name === work.agent))
    return `The squad ${team.squad.id} has no agent ${JSON.stringify(work.agent)}.`;
  if (sessions.length >= most) return `A Task may have ${most} sessions, and this one has. Do the rest yourself.`;
  const unknown = (work.slices ?? []).filter((id) => !slices.some(({ sliceID }) => sliceID === id));
  if (unknown.length > 0)
    return `There are no slices ${unknown.join(", ")}. Expected some of ${slices.map(({ sliceID }) => sliceID).join(", ")}.`;
  return undefined;
};

const begin = async (run: Run, team: Team, parent: SessionContext, work: Work): Promise<string> => {
  const sessionID = newID("ses");
  const forked = mayWrite(team, work.agent) && isOneOfSeveral(run, parent.sessionID);
  const alone = !forked && mayWrite(team, work.agent) && hasFilesAlone(run, team, parent.sessionID);
  // Commit the tree from which the session starts, before another agent changes it.
  using _files = forked ? await inTurn(run, holderFrom(run, team, parent.sessionID)) : nothing;
  const from = forked || alone ? await treeNow(run, alone) : undefined;
  const agent = team.squad.agents.find(({ name }) => name === work.agent);
  const data = {
    sessionID,
    parentSessionID: parent.sessionID,
    agent: work.agent,
    model: agent?.model ?? run.state().model,
    purpose: "work" as const,
    callID: work.callID,
    sliceIDs: [...(work.slices ?? [])],
    brief: await keepText(run.store.blobs, briefOf(run, work)),
    ...(from === undefined ? {} : forked ? { fork: { name: sessionID.slice(-8), ...from } } : { from: from.commit }),
  };
  await run.record([{ type: "session.started", data }]);
  return sessionID;
};

/** The brief with the contracts of its slices, because the work is judged by them. */
const briefOf = (run: Run, { brief, slices: ids = [] }: Work): string => {
  const given = run.state().slices.filter(({ sliceID }) => ids.includes(sliceID));
  if (given.length === 0) return brief;
  const contracts = given.map(
    ({ contract: { title, objective, acceptance } }) =>
      `## ${title}\n${objective}\n${acceptance.map((criterion) => `- ${criterion}`).join("\n")}`,
  );
  return `${brief}\n\n# What you deliver, and how it will be judged\n\n${contracts.join("\n\n")}`;
};

/**
 * Whether other calls of the same reply delegate too. With a setup command the answer is no, because running it in
 * every fork takes too long.
 */
const isOneOfSeveral = (run: Run, sessionID: string): boolean =>
  run.setup === undefined &&
  run.state().workspace?.kind === "worktree" &&
  run.state().open.filter((call) => call.tool === "delegate" && call.sessionID === sessionID).length > 1;

/** Whether no other session works in the Task's files meanwhile, and no other call of the same reply delegates. */
const hasFilesAlone = (run: Run, team: Team, sessionID: string): boolean => {
  const { open, sessions } = run.state();
  const besides = sessions.some(
    ({ callID, end, fork, agent, sessionID: other }) =>
      callID !== null && end === null && fork === null && other !== sessionID && mayWrite(team, agent),
  );
  return !besides && open.filter((call) => call.tool === "delegate" && call.sessionID === sessionID).length === 1;
};

/**
 * The Task's current tree as a commit. undefined: the Task has no worktree, or, if `optional`, the tree could not be
 * committed.
 */
const treeNow = async (run: Run, optional = false): Promise<{ commit: string; tree: string } | undefined> => {
  if ((await run.workspace()).prepared.kind !== "worktree") return undefined;
  const failure = run.state().touched ? await commitTree(run) : undefined;
  if (failure !== undefined) {
    if (optional) return undefined;
    throw new Error(failure.message);
  }
  const { tree, workspace } = run.state();
  if (tree !== null) return { commit: tree.commit, tree: tree.tree };
  return workspace?.baseCommit == null || workspace.baseTree === null
    ? undefined
    : { commit: workspace.baseCommit, tree: workspace.baseTree };
};

/**
 * Merges the fork's change into the Task's files. A merge that a crash interrupted first restores these files: no agent
 * has changed them since, and the fork is kept until the end is recorded.
 */
const join = async (run: Run, agent: string, fork: NonNullable<Session["fork"]>): Promise<ForkMerge> => {
  using _still = await run.checkpoints.hold();
  const tip = await treeNow(run);
  const workspace = await run.workspace();
  const own = await run.workspaces.fork(workspace, fork.name, fork);
  using _slot = await run.slot();
  return await run.workspaces.mergeFork(
    workspace,
    own,
    tip?.commit ?? fork.commit,
    `${agent}\n\nTask: ${run.stream}\n`,
  );
};

/**
 * The session could not run at all, for example because its model is not configured. That is recorded as its end, and
 * the agent that delegated continues.
 */
const cannot = (run: Run, error: unknown): End => {
  run.signal.throwIfAborted();
  if (error instanceof ClaimLost || error instanceof WaitsForAnswer) throw error;
  return { outcome: "failed", reason: messageOf(error).slice(0, 2000) };
};

/** How the session ended; undefined: it waits for something and has not ended. */
const endOf = (run: Run, sessionID: string): End | undefined => {
  const { reply } = findSession(run.state(), sessionID);
  const { open, deferred, cancel, lifecycle } = run.state();
  const interrupted = interruptOf(run.state(), sessionID);
  if (interrupted !== null) {
    const why = interrupted.reason === "" ? "" : `: ${interrupted.reason.slice(0, 1000)}`;
    return { outcome: "stopped", reason: `It was interrupted by ${interrupted.surface}${why}.` };
  }
  if (open.some((call) => call.sessionID === sessionID) || deferred !== null) return undefined;
  if (reply?.failure) return { outcome: "failed", reason: reply.failure.message.slice(0, 2000) };
  if (reply?.finish === "end") return { outcome: "finished", reason: null };
  const ended = cancel !== null || lifecycle !== "active";
  return { outcome: "stopped", reason: ended ? "The Task was asked to stop." : "A limit of the Task was reached." };
};

/**
 * Built only from what is recorded, so that the result is the same if the service died between the session's end and
 * the call's.
 */
const resultOf = ({ end, fork }: Session, said: string, did: string, callID: string): ToolResult => {
  if (end === null) throw new Error("Expected a session that has ended, got one that works.");
  const { outcome, reason, joined } = end;
  const words = said === "" ? "It ended without a message." : said;
  const joinedFiles =
    joined === undefined || joined.branch !== null ? "" : `${counted(joined.files, "changed file")} joined the Task's.`;
  const seen = [did, joinedFiles].filter((part) => part !== "").join("\n");
  const facts = seen === "" ? "" : `\n\n[What the service saw]\n${seen}`;
  if (joined !== undefined && joined.branch !== null)
    return failed(
      `Its change is not in the Task's files, for these were changed there too: ${joined.conflicts.join(", ")}. ${joined.commit === undefined ? `It is on ${joined.branch}.` : `It is commit ${joined.commit.slice(0, 12)}: see it with \`git diff ${fork?.commit.slice(0, 12)} ${joined.commit.slice(0, 12)}\` and take over what holds.`}\n\nIts last words: ${words.slice(0, 4000)}${facts}`,
    );
  if (outcome === "finished") return truncatedResult(`${words}${facts}`, { callID });
  const how = outcome === "failed" ? "The agent failed" : "The agent was stopped";
  return failed(`${how}: ${reason ?? "no reason is known"}\n\nIts last words: ${words.slice(0, 4000)}${facts}`);
};

const writers = new Set(["write", "edit", "apply_patch", "shell", "git", "process"]);

const mayWrite = (team: Team, agent: string): boolean =>
  team.squad.agents.find(({ name }) => name === agent)?.tools.some((tool) => writers.has(tool)) ?? false;

/**
 * The session that has the Task's own files while this session works: the nearest one above it that took its turn and
 * waits for it, directly or through others. undefined: only the Task's own agent, which waits as well.
 */
const holderAbove = (run: Run, team: Team, sessionID: string): string | undefined => {
  const { parentSessionID } = findSession(run.state(), sessionID);
  return parentSessionID === null ? undefined : holderFrom(run, team, parentSessionID);
};

const holderFrom = (run: Run, team: Team, sessionID: string): string | undefined => {
  const { callID, fork, agent } = findSession(run.state(), sessionID);
  if (callID !== null && fork === null && mayWrite(team, agent)) return sessionID;
  return holderAbove(run, team, sessionID);
};

/**
 * The last turn in each queue. There is one queue per run and session that has the Task's own files ("": the Task's own
 * agent), for the sessions below it.
 */
const last = new WeakMap<Run, Map<string, Promise<void>>>();

/** Waits for a turn among the sessions under the same holder, which itself waits for all of them. */
const inTurn = async (run: Run, holder = ""): Promise<Disposable> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const turns = last.get(run) ?? new Map<string, Promise<void>>();
  last.set(run, turns);
  const before = turns.get(holder);
  turns.set(
    holder,
    Promise.resolve(before).then(() => promise),
  );
  await before;
  // The next one must not wait for a session that gave up.
  if (run.signal.aborted) resolve();
  run.signal.throwIfAborted();
  return { [Symbol.dispose]: resolve };
};
