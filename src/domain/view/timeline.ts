import { serviceSourceOf } from "../../protocol/event/source.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { TimelineEntry } from "../../protocol/task/board.ts";
import type { Recorded } from "../event.ts";
import { contrastWords } from "../contrast/wording.ts";
import { missionSentence } from "../mission/wording.ts";
import { answerWords, permissionWords } from "../session/ask.ts";

/** The timeline: every event in a few words. */

export const timelineOf = (events: readonly Recorded[]): TimelineEntry[] =>
  events.map((event) => ({ id: event.position, type: event.type, at: event.at, summary: wordsOf(event) }));

/** An event written by a node of a newer version, which shares the database, is described by its type. */
const wordsOf = (event: Recorded): string => {
  const words: string | undefined = describeEvent(event);
  return words ?? event.type;
};

/** The MCP servers that a project's file requests, whether they were granted, and what is wrong with the file. */
const askedWords = ({ file, granted, names, problems }: EventData["mcp.asked"]): string => {
  const wrong = Object.entries(problems).map(([name, why]) => (name === "" ? why : `${name}: ${why}`));
  const asks =
    names.length === 0
      ? []
      : [`${file} requests MCP servers: ${names.join(", ")}; ${granted ? "granted" : "not granted (`sortie trust`)"}`];
  return [...asks, ...wrong.map((one) => `${file}: ${one}`)].join("; ");
};

/** The environment of the project's commands, and whether it was granted. */
const environmentWords = ({
  from,
  granted,
  secrets,
  network,
  setup,
  image,
  problem,
}: EventData["environment.given"]): string => {
  const what = [
    ...(image === undefined ? [] : [`image: ${image}`]),
    ...(setup === null ? [] : [`setup \`${setup}\``]),
    ...(network === null ? [] : [`network: ${typeof network === "string" ? network : network.join(", ")}`]),
    ...(secrets.length === 0 ? [] : [`secrets: ${secrets.join(", ")}`]),
  ].join("; ");
  const whose = from === "operator" ? "Environment of the configuration" : "The project requests an environment";
  if (problem !== null) return `${whose}: ${problem}`;
  return `${whose}${what === "" ? "" : ` (${what})`}${granted ? "" : "; not granted (`sortie trust`)"}`;
};

/** One event in a few words, for people. */
export const describeEvent = (event: Recorded): string => {
  switch (event.type) {
    case "task.created":
      return `Created: ${event.data.title}`;
    case "task.updated":
      return event.data.titleBy === "service"
        ? `Renamed after its commit: ${event.data.title}`
        : `Changed ${Object.keys(event.data).join(", ")}`;
    case "run.started":
      return event.data.killed.length === 0
        ? `Started (${event.data.sandbox.name})`
        : `Started; ended ${event.data.killed.length} process groups of an earlier run`;
    case "run.stopped":
      return `Paused: ${event.data.reason}`;
    case "run.stuck":
      return `No progress in step "${event.data.step}"; tried again`;
    case "workspace.prepared":
      return event.data.kind === "worktree"
        ? `Working on ${event.data.branch} from ${event.data.baseCommit?.slice(0, 10)}`
        : `Working in place in ${event.data.root}`;
    case "dependencies.given":
      return dependencyWords(event.data.folders);
    case "mcp.asked":
      return askedWords(event.data);
    case "environment.given":
      return environmentWords(event.data);
    case "mcp.listed":
      return `MCP server ${event.data.server}: ${event.data.count} tools${event.data.problem === null ? "" : `; ${event.data.problem}`}`;
    case "setup.started":
      return `Setting up the workspace: ${event.data.run}`;
    case "setup.finished":
      return `Setup ${event.data.state}${event.data.reason === null ? "" : `: ${event.data.reason}`}`;
    case "agent.attached":
      return `The external agent ${event.data.agent} is working (${event.data.about})`;
    case "message.received":
      if (event.data.retried !== undefined) return `Retried by ${event.data.source}`;
      return serviceSourceOf(event.data) === "checks"
        ? "Failed checks went back to the agent"
        : serviceSourceOf(event.data) === "contrast"
          ? "The agent was told that its tests show no difference"
          : serviceSourceOf(event.data) === "sources"
            ? "The agent was asked to read the sources it cites"
            : serviceSourceOf(event.data) === "output"
              ? "The agent was asked for the output"
              : `Message from ${event.data.source}`;
    case "reply.finished":
      return event.data.calls.length === 0
        ? event.data.finish === "empty"
          ? `${event.data.agent} gave an empty answer and was asked again`
          : `${event.data.agent} answered`
        : `${event.data.agent} called ${event.data.calls.length} ${event.data.calls.length === 1 ? "tool" : "tools"}`;
    case "reply.retried":
      return `${event.data.message} (attempt ${event.data.attempt} of ${event.data.attempts})`;
    case "run.paused":
      return `Paused: ${event.data.reason}`;
    case "run.resumed":
      return `Continued after a pause since ${event.data.since}`;
    case "task.deferred":
      return `Waiting until ${event.data.until}: ${event.data.reason}`;
    case "model.switched":
      return `Switched from ${event.data.from} to ${event.data.to}: ${event.data.reason}`;
    case "tool.started":
      return `${event.data.tool} started`;
    case "tool.finished":
      return `${event.data.tool}: ${event.data.exitCode === null ? event.data.outcome : `exit ${event.data.exitCode}`}, ${event.data.durationMs} ms`;
    case "note.written":
      return "Plan noted";
    case "artifact.recorded":
      return `Kept ${event.data.filename}: ${event.data.title}`;
    case "slice.defined":
    case "slice.revised": {
      const { title, revision } = event.data.contract;
      return revision === 1 ? `Slice planned: ${title}` : `Slice revised (${revision}): ${title}`;
    }
    case "slice.ordered":
      return "Slices reordered";
    case "slice.dropped":
      return `Slice dropped: ${event.data.reason}`;
    case "slice.settled":
      return "Slice accepted";
    case "session.started":
      return event.data.purpose === "review" ? `${event.data.agent} reviews` : `Delegated to ${event.data.agent}`;
    case "message.passed":
      return `Message from ${event.data.source} passed on to a running agent`;
    case "session.interrupted":
      return `Session interrupted by ${event.data.surface}${event.data.reason === "" ? "" : `: ${event.data.reason}`}`;
    case "session.ended":
      return `Session ${event.data.outcome}${event.data.reason === null ? "" : `: ${event.data.reason}`}`;
    case "check.judged":
      return `Judged by the reviewer: ${event.data.verdict}${event.data.notes === "" ? "" : `: ${event.data.notes}`}`;
    case "review.finished":
      return `Review by ${event.data.reviewer}: ${event.data.verdict}${event.data.notes === "" ? "" : `: ${event.data.notes}`}`;
    case "conversation.compacted":
      return `Older turns summarised by ${event.data.by}: about ${event.data.before} tokens became ${event.data.after}`;
    case "budget.warned":
      return `Budget: ${event.data.used} of ${event.data.cap} used (${event.data.name})`;
    case "permission.decided":
      return permissionWords(event.data);
    case "permissions.read":
      return `Rules of ${event.data.file}: ${[...event.data.deny.map((rule) => `deny ${rule}`), ...event.data.ask.map((rule) => `ask ${rule}`)].join(", ")}`;
    case "ask.opened":
      return `${askedFor[event.data.kind]}: ${event.data.prompt}`;
    case "ask.passed":
      return event.data.by === "mission"
        ? "The Mission passed the question to a person"
        : "The Mission did not answer: a person is asked";
    case "ask.reminded":
      return `Reminded of what waits for an answer: ${event.data.askIDs.join(", ")}`;
    case "approval.moved":
      return `The change to approve was moved onto another base unchanged, as ${event.data.commit.slice(0, 10)}`;
    case "ask.answered":
      return answerWords(event.data);
    case "commit.described":
      return event.data.said === null
        ? "The model gave no commit message"
        : `Commit message written: ${event.data.said.title}`;
    case "tree.committed":
      if (event.data.files === 0) return "Nothing changed";
      return `${event.data.files} ${event.data.files === 1 ? "file" : "files"} changed, +${event.data.insertions} −${event.data.deletions}`;
    case "change.denied":
      return `The change did not land: ${event.data.files
        .slice(0, 5)
        .map(({ path, rule }) => `${path} (${rule})`)
        .join(", ")}`;
    case "checks.found":
      return `The project's own checks: ${event.data.checks.map(({ name }) => name).join(", ")}`;
    case "checks.replaced":
      return `The Mission's checks from now on: ${event.data.checks.map(({ name }) => name).join(", ") || "none"}`;
    case "task.abandoned":
      return `Given up: ${event.data.why}`;
    case "output.given":
      return "Output given";
    case "output.refused":
      return `No output: ${event.data.reason}`;
    case "check.started":
      return `Check ${event.data.checkID} started${event.data.on === "base" ? " on the base" : ""}`;
    case "check.finished":
      return `Check ${event.data.checkID} ${event.data.state}${event.data.on === "base" ? " on the base" : ""}${event.data.reason === null ? "" : `: ${event.data.reason}`}`;
    case "contrast.finished":
      return `Proof by contrast ${contrastWords(event.data)}`;
    case "checkpoint.kept":
      return `Commit ${event.data.commit.slice(0, 10)} kept for other nodes`;
    case "workspace.moved":
      return `Taken over from ${event.data.from} by ${event.data.to}${event.data.commit === null ? "" : `, from ${event.data.commit.slice(0, 10)}`}`;
    case "workspace.rebased":
      return `Moved onto ${event.data.baseCommit.slice(0, 10)}`;
    case "landing.conflicted":
      return `Conflict with the project, round ${event.data.round}: ${event.data.paths.slice(0, 5).join(", ")}`;
    case "landing.started":
      return `Landing ${event.data.commit.slice(0, 10)} on ${branchOf(event.data.ref)}`;
    case "landing.withdrawn":
      return `Landing withdrawn: ${event.data.reason}`;
    case "landing.finished":
      return `Landed ${event.data.commit.slice(0, 10)} on ${branchOf(event.data.ref)}`;
    case "landing.proposed":
      return `Pull request ${event.data.number} ${event.data.state}: ${event.data.url}`;
    case "mission.created":
    case "mission.woken":
    case "mission.updated":
    case "mission.aborted":
    case "mission.finished":
    case "mission.proposed":
    case "mission.verified":
    case "mission.judging":
    case "mission.branched":
    case "mission.unmerged":
    case "mission.reminded":
    case "mission.paused":
    case "mission.stalled":
    case "mission.waiting":
    case "phase.written":
    case "phase.dropped":
    case "plan.ordered":
    case "plan.written":
    case "task.dispatched":
    case "task.asked":
    case "task.answered":
    case "task.messaged":
    case "task.watched":
    case "task.overdue":
    case "task.reopened":
    case "task.reserved":
    case "task.ended":
    case "squad.reconciled":
    case "squad.refused":
    case "squad.staged":
    case "squad.installing":
    case "squad.installed":
      return missionSentence(event);
    case "git.tampered":
      return `A command changed Git's own files: ${event.data.files.map(({ path }) => path).join(", ")}`;
    case "cancel.requested":
      return `Cancel requested by ${event.data.surface}`;
    case "task.settled":
      return event.data.error ?? `Task ${event.data.lifecycleStatus}`;
  }
};

const askedFor = { permission: "Asks for permission", question: "Asks", approval: "Asks for approval" } as const;

const branchOf = (ref: string): string => ref.replace(/^refs\/heads\//, "");

/** How the project's dependency folders are provided to the Task's commands. */
export const dependencyWords = (folders: EventData["dependencies.given"]["folders"]): string =>
  folders.length === 0
    ? "No dependency folders"
    : `Dependency folders: ${folders
        .slice(0, 5)
        .map(({ path, how, reason }) => `${path} (${how}${reason === undefined ? "" : `: ${reason}`})`)
        .join(", ")}${folders.length > 5 ? ` and ${folders.length - 5} more` : ""}`;
