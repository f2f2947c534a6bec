import type { DomainEvent } from "../../domain/event.ts";
import { plainLine } from "../../process/plain-text.ts";
import type { Run } from "../run.ts";
import { messageFromService } from "../step/message.ts";
import { baseLeft, fetchCheckpoint } from "../workspace/repository.ts";

/** How a node goes on with a repository's Task whose files were on another one. */

/**
 * The node that had the Task's files, if that is another one; undefined also for a Task that only ends. This one itself, where its
 * files are gone: another node had taken the Task over, so that they were removed here, and died before it recorded that.
 */
export const nodeBefore = (run: Run): string | undefined => {
  const { taskID, repository, workspace, landed, moved, cancel } = run.state();
  const self = run.store.nodes?.name;
  const before = workspace?.node;
  if (self === undefined || repository === null || landed !== null || cancel?.mode === "stop") return undefined;
  if (before === undefined || moved?.to === self) return undefined;
  return before === self && run.workspaces.isKnown(taskID) ? undefined : before;
};

/**
 * Records that this node takes the Task over, with what the agent has to know of it. Sessions that worked in files of their
 * own have lost them. The mirror has what the remote has now.
 */
export const takeOver = async (run: Run, from: string): Promise<void> => {
  const to = run.store.nodes?.name ?? "";
  const { checkpoint, sessions } = run.state();
  const commit = await fetchCheckpoint(run);
  const lost = await changesSince(run, commit === null ? 0 : (checkpoint?.version ?? 0));
  const ended = sessions.flatMap(({ sessionID, fork, end }): DomainEvent[] =>
    fork !== null && end === null
      ? [{ type: "session.ended", data: { sessionID, outcome: "stopped", reason: `the node ${from} is gone` } }]
      : [],
  );
  const told =
    lost.length === 0 ? [] : [await messageFromService(run, "node", textOf(await filesAt(run, commit), lost))];
  await run.record([{ type: "workspace.moved", data: { from, to, commit, lost: lost.length } }, ...ended, ...told]);
};

/** What may have changed files after a version, as the agent knows it. */
const changesSince = async (run: Run, version: number): Promise<string[]> => {
  const started = await run.store.read(run.stream, { after: version, types: ["tool.started"] });
  return started.flatMap(({ type, data }) =>
    type === "tool.started" && (data.effect === "workspace" || data.effect === "unknown")
      ? [`${data.tool} ${plainLine(JSON.stringify(data.input)).slice(0, 160)}`]
      : [],
  );
};

const filesAt = async (run: Run, commit: string | null): Promise<string> => {
  if (commit !== null && run.state().checkpoint?.upTo !== undefined)
    return `as they were kept while you worked (${commit.slice(0, 12)})`;
  if (commit !== null) return `as they were when they were last committed (${commit.slice(0, 12)})`;
  const { commit: base, isOwn } = await baseLeft(run);
  return isOwn ? "as they were when you began" : `as the repository has them now (${base.slice(0, 12)})`;
};

const mostNamed = 40;

const textOf = (files: string, lost: readonly string[]): string => {
  const named = lost.slice(-mostNamed);
  const more = lost.length - named.length;
  return `The machine on which you worked is gone, and another one goes on. The files are ${files}. What these calls changed in them after that is lost, whatever their results say:

${more === 0 ? "" : `- ${more} earlier ones\n`}${named.map((call) => `- ${call}`).join("\n")}

Whether an effect of theirs outside of the files came about is not known. Look at the files, do again what is missing, then go on.`;
};
