import { serviceSource } from "../../protocol/event/source.ts";
import type { Message } from "../../protocol/task/board.ts";
import type { TaskStatus } from "../../protocol/task/status.ts";
import { connect, dataOf, type Target } from "../connection.ts";
import { resolveID } from "../resolve-id.ts";
import { exit } from "../terminal/exit.ts";
import { clean, indented, line, table } from "../terminal/format.ts";
import type { Context } from "./action.ts";
import { changedNothing, closing, outputText } from "./follow.ts";
import { nowWords } from "./activity.ts";

/** `sortie task show`: a Task's request, the messages to it, its state and its results. */

export const view = async (given: string, { target, screen, emit }: Context) => {
  const service = connect(target);
  const taskID = await resolveID(service, target, given);
  const task = dataOf(await service.task.get({ path: { taskID } }), target.url);
  if (emit !== undefined) {
    emit(task);
    return exit.completed;
  }
  const { bold } = screen.colors;
  const later = await saidLater(service, target, taskID);
  const checks = task.checks.map((check) => [
    `  ${line(check.name, 60)}`,
    `${check.state}${check.stale ? " (from an earlier tree)" : ""}`,
    check.baseline === null ? "" : `before the work: ${check.baseline.state}`,
  ]);
  const rows = [
    ["Title", line(task.title)],
    ["Project", line(projectOf(task), 400)],
    ["State", `${task.lifecycleStatus}, ${task.phase}${task.queue === null ? "" : `: ${line(task.queue.reason)}`}`],
    ...(task.now === null ? [] : [["Now", nowWords(task.now, Date.now(), 160, task.queue)]]),
    ...(task.revertOf === null ? [] : [["Reverts", task.revertOf]]),
    ["Model", `${line(task.model)}, squad ${line(task.squad.id)} ${line(task.squad.version)}`],
    ...effortRow(task),
    ...(changedNothing(task) ? [["Landed", "nothing changed"]] : placeRows(task)),
    ["Created", task.createdAt],
  ];
  screen.say(
    [
      table(rows.map(([name = "", value = ""]) => [bold(name), value])),
      ...(task.goals.length < 2 ? [] : [bold("Slices"), table(task.goals.map(sliceRow))]),
      ...(checks.length === 0 ? [] : [bold("Checks"), table(checks)]),
      bold("Request"),
      indented(clean(task.request)),
      ...later.flatMap(({ source, at, text }) => [
        bold(`Then ${line(source, 40)}, ${at.slice(0, 16).replace("T", " ")} UTC`),
        indented(clean(text)),
      ]),
      ...(task.summary === null || task.summary === "" ? [] : [bold("Report"), indented(clean(task.summary))]),
      ...(task.output === null ? [] : [bold("Output"), indented(outputText(task.output))]),
      closing(task, screen, target.url),
    ].join("\n"),
  );
  return exit.completed;
};

/** The repository's address with the ref that the request named, otherwise the directory. */
const projectOf = ({ directory, repository }: TaskStatus): string =>
  repository === null ? directory : `${repository.url}${repository.ref === null ? "" : ` (${repository.ref})`}`;

/** The requested effort, and the effort that its models were told if it differs. */
const effortRow = ({ effort, sessionInvocationTopology: { nodes } }: TaskStatus): string[][] => {
  const told = [...new Set(nodes.flatMap((node) => (node.usage.modelCalls > 0 ? [node.effort ?? "not told"] : [])))];
  const other = told.length === 0 || (told.length === 1 && told[0] === effort);
  if (effort === null && told.every((level) => level === "not told")) return [];
  return [["Effort", other ? (effort ?? "") : `${effort === null ? "" : `${effort}; `}its models: ${told.join(", ")}`]];
};

/** The messages of people and programs after the request. */
const saidLater = async (service: ReturnType<typeof connect>, target: Target, taskID: string) => {
  const said: { source: string; at: string; text: string }[] = [];
  for (let after: number | null = 0; after !== null; ) {
    const asked = await service.task.messages({ path: { taskID }, query: { after } });
    const page: { messages: Message[]; nextAfter: number | null } = dataOf(asked, target.url);
    said.push(...page.messages.filter(({ role, source }) => role === "user" && serviceSource(source) === undefined));
    after = page.nextAfter;
  }
  return said.slice(1);
};

/** The Task's branch, and where its work landed or will land. */
const placeRows = ({ git, landingBranch, isolation, pullRequest }: TaskStatus): string[][] => [
  ["Branch", `${line(git.branch ?? "none")}, base ${git.baseCommit?.slice(0, 10) ?? "none"}`],
  ...(git.landings.length === 0
    ? [["Landed", "no"]]
    : git.landings.map(({ commit, branch, diffStat }) => [
        "Landed",
        `${commit} on ${line(branch, 100)}${diffStat === null ? "" : `, ${diffStat.files} ${diffStat.files === 1 ? "file" : "files"}, +${diffStat.insertions} -${diffStat.deletions}`}`,
      ])),
  ...(pullRequest === null ? [] : [["Pull request", `${line(pullRequest.url, 400)}, ${pullRequest.state}`]]),
  [
    "Goes to",
    landingBranch === null
      ? isolation === "directory"
        ? "your files, in place"
        : "not known yet"
      : line(landingBranch),
  ],
];

/** A slice with its state and the verdict of its review. */
const sliceRow = ({ contract, settlement, execution, review }: TaskStatus["goals"][number]): string[] => [
  `  ${line(contract.title, 60)}`,
  settlement.state === "open" ? execution.state : settlement.state,
  review.verdict === null || settlement.state === "dropped"
    ? ""
    : `review: ${review.verdict}${review.stale ? ", stale" : ""}`,
];
