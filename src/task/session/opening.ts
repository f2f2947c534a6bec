import { promptChange } from "../../agent/prompt/change.ts";
import type { Opening } from "../../agent/session.ts";
import { staysOnBranch } from "../../domain/state/task.ts";
import { branchName } from "../../domain/task/landing.ts";
import { truncateMiddle } from "../../tool/result.ts";
import type { Run } from "../run.ts";

/**
 * All requests of the Orchestrator reuse the system prompt of its first one, so that a provider's cache stays valid
 * over a follow-up. What has changed in the prompt since is told before the message that begins the next attempt.
 */
export const createOpening =
  (run: Run) =>
  async (now: string): Promise<Opening> => {
    const { system: ref, model } = run.state();
    // The built-in rules have no cache, and take the message itself as their instructions.
    if (model.startsWith("builtin/")) return { system: now, isNew: false };
    const bytes = ref === null ? undefined : await run.store.blobs.get(ref.sha256);
    const kept = bytes?.toString("utf8");
    const first = run.chat.unread.find(({ message }) => message.summary === undefined)?.message;
    if (first !== undefined) {
      const news =
        first.retried === true
          ? [await attemptBefore(run)]
          : [...landedSince(run), ...(first.restarted === true ? changedSince(kept ?? now, now) : [])];
      if (news.length > 0) first.before = `[From the service: ${news.join(" ")}]`;
    }
    return { system: kept ?? now, isNew: ref === null };
  };

/** How the attempt before a retry ended, and where its work is. */
const attemptBefore = async (run: Run): Promise<string> => {
  // Opening the workspace moves the earlier attempt's files out of the way; only then is it known whether there were
  // any.
  await run.workspace();
  const { workspace, isolation } = run.state();
  const [end] = await run.store.read(run.stream, { types: ["task.settled"], last: true, limit: 1 });
  const { lifecycleStatus, error = "" } = end?.type === "task.settled" ? end.data : { lifecycleStatus: "failed" };
  const why = error === "" ? "" : `: ${truncateMiddle(error, "the rest is not shown", longestError)}`;
  const made =
    isolation === "directory"
      ? "What it changed is in your files."
      : workspace?.before === undefined
        ? "It left no changes."
        : `What it changed is on the branch ${workspace.before}, and not in your files: they are the project's as it is now.`;
  return `This was tried before, by an attempt that ${lifecycleStatus === "cancelled" ? "was cancelled" : lifecycleStatus}${why}${/[.!?]$/.test(why) ? "" : "."} ${made}`;
};

const longestError = 1000;

/** What landed since the agent's last reply. */
const landedSince = ({ state, chat }: Run): string[] => {
  const last = chat.said.findLast((message) => message.role === "assistant")?.version ?? Number.POSITIVE_INFINITY;
  // The Task's own branch has one commit with all of its work, which the next landing replaces.
  const landing = staysOnBranch(state()) ? undefined : state().landings.findLast(({ version }) => version > last);
  return landing === undefined
    ? []
    : [
        `Your work so far landed as ${landing.commit.slice(0, 12)} on ${branchName(landing.ref)}; the next commit holds what you change from now on.`,
      ];
};

const longestNews = 2000;

/**
 * How the current prompt would differ from the one in use. Changed conventions of the project are mentioned, not
 * repeated.
 */
const changedSince = (kept: string, now: string): string[] => {
  const [before = "", theirsBefore] = kept.split(conventions);
  const [ours = "", theirs] = now.split(conventions);
  const guide =
    theirs === undefined
      ? theirsBefore === undefined
        ? []
        : ["The project's conventions that you were told are there no more."]
      : kept.includes(theirs)
        ? []
        : ["The project's conventions have changed: read them."];
  const change = promptChange(before, ours);
  return change === undefined ? guide : [...guide, truncateMiddle(change, "the rest is not shown", longestNews)];
};

const conventions = "\n\nThe project's conventions. ";
