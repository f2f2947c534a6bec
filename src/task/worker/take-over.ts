import type { DomainEvent } from "../../domain/event.ts";
import type { Checkpoint } from "../../domain/state/task.ts";
import { plainLine } from "../../process/plain-text.ts";
import { delegatesReading } from "../operation/reader.ts";
import type { Run } from "../run.ts";
import { messageFromService, passedByService } from "../step/message.ts";
import { fetchCheckpoint } from "../checkpoint.ts";
import { repositoryPlace } from "../repository-place.ts";
import { baseLeft } from "../workspace/repository.ts";

/** How a node continues a repository's Task whose files were on another node. */

/**
 * The node from which this one has to take the Task over; undefined: none, also for a Task that only ends. It is this
 * node itself when its files are gone: another node had taken the Task over, so that the files were removed here, and
 * died before it recorded that.
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
 * Records that this node takes the Task over, and tells its agents what they have to know. Sessions that worked in
 * forks continue in them if the forks can be made again. The mirror must already have what the remote has now.
 */
export const takeOver = async (run: Run, from: string): Promise<void> => {
  const to = run.store.nodes?.name ?? "";
  const checkpoint = await fetchCheckpoint(run);
  const forks = await forksLeft(run, checkpoint);
  const ended = run
    .state()
    .sessions.filter(({ sessionID, fork, end }) => fork !== null && end === null && !forks.has(sessionID))
    .map(
      ({ sessionID }): DomainEvent => ({
        type: "session.ended",
        data: { sessionID, outcome: "stopped", reason: `the node ${from} is gone` },
      }),
    );
  const { calls, joined } = await changesIn(run);
  const forked = new Set(run.state().sessions.flatMap(({ sessionID, fork }) => (fork === null ? [] : [sessionID])));
  const cameAt = ({ sessionID, version }: Call) => (forked.has(sessionID) ? joined.get(sessionID) : version) ?? 0;
  const lost = calls.filter((call) => cameAt(call) > (checkpoint?.version ?? 0));
  const words = textOf(await filesAt(run, checkpoint), lost);
  const told = lost.length === 0 ? [] : [await messageFromService(run, "node", words)];
  // A delegating agent reads the message only once its delegates are done, so they get it themselves.
  const passed = delegatesReading(run.state(), "steered").map(async ({ sessionID, fork }): Promise<DomainEvent[]> => {
    if (fork === null) return lost.length === 0 ? [] : [await passedByService(run, sessionID, "node", words)];
    const left = forks.get(sessionID);
    const own = calls.filter((call) => call.sessionID === sessionID && call.version > (left?.upTo ?? 0));
    if (left === undefined || own.length === 0) return [];
    const files = left.begun ? "as they were when you began" : keptAt(left.commit);
    return [await passedByService(run, sessionID, "node", textOf(files, own))];
  });
  const commit = checkpoint?.commit ?? null;
  const tips = [...forks.values()].map(({ name, commit: tip }) => ({ name, commit: tip }));
  const moved = { from, to, commit, lost: lost.length, ...(tips.length > 0 ? { forks: tips } : {}) };
  await run.record([
    { type: "workspace.moved", data: moved },
    ...ended,
    ...told,
    ...(await Promise.all(passed)).flat(),
  ]);
};

/** `begun`: nothing of the work in the fork is left. */
type ForkLeft = { name: string; commit: string; upTo: number; begun: boolean };

/** By session: the forks that can be made again, as they were kept, or as they were when the session began. */
const forksLeft = async (run: Run, checkpoint: Checkpoint | null): Promise<Map<string, ForkLeft>> => {
  const place = repositoryPlace(run);
  const left = new Map<string, ForkLeft>();
  for (const { sessionID, fork, end } of run.state().sessions) {
    if (fork === null || end !== null || !(await run.repositories.has(place, fork.commit))) continue;
    const kept = checkpoint?.forks?.find(({ name }) => name === fork.name);
    const isThere = kept !== undefined && (await run.repositories.has(place, kept.commit));
    const { commit, upTo } = isThere ? kept : { commit: fork.commit, upTo: 0 };
    left.set(sessionID, { name: fork.name, commit, upTo, begun: !isThere });
  }
  return left;
};

type Call = { sessionID: string; version: number; words: string };

/**
 * Calls that may have changed files, in words for the agents. `joined`: at which version the changes of a session with
 * a fork were joined to the Task's files.
 */
const changesIn = async (run: Run): Promise<{ calls: Call[]; joined: Map<string, number> }> => {
  const events = await run.store.read(run.stream, { types: ["tool.started", "session.ended"] });
  const calls: Call[] = [];
  const joined = new Map<string, number>();
  for (const { type, data, version } of events)
    if (type === "tool.started" && (data.effect === "workspace" || data.effect === "unknown")) {
      const words = `${data.tool} ${plainLine(JSON.stringify(data.input)).slice(0, 160)}`;
      calls.push({ sessionID: data.sessionID, version, words });
    } else if (type === "session.ended" && (data.joined?.files ?? 0) > 0) joined.set(data.sessionID, version);
  return { calls, joined };
};

const keptAt = (commit: string): string => `as they were kept while you worked (${commit.slice(0, 12)})`;

const filesAt = async (run: Run, checkpoint: Checkpoint | null): Promise<string> => {
  if (checkpoint?.upTo !== undefined) return keptAt(checkpoint.commit);
  if (checkpoint !== null) return `as they were when they were last committed (${checkpoint.commit.slice(0, 12)})`;
  const { commit: base, isOwn } = await baseLeft(run);
  return isOwn ? "as they were when you began" : `as the repository has them now (${base.slice(0, 12)})`;
};

const mostNamed = 40;

const textOf = (files: string, lost: readonly Call[]): string => {
  const named = lost.slice(-mostNamed);
  const more = lost.length - named.length;
  return `The machine on which you worked is gone, and another one goes on. The files are ${files}. What these calls changed in them after that is lost, whatever their results say:

${more === 0 ? "" : `- ${more} earlier ones\n`}${named.map(({ words }) => `- ${words}`).join("\n")}

Whether an effect of theirs outside of the files came about is not known. Look at the files, do again what is missing, then go on.`;
};
