import { messageOf } from "../../error.ts";
import type { TaskStatus } from "../../protocol/task/status.ts";
import { commandFor, dataOf, type Service, type Target, withManuals } from "../connection.ts";
import { exitOf } from "../resolve-id.ts";
import { Exit, exit } from "../terminal/exit.ts";
import { watchInterrupts } from "../terminal/interrupt.ts";
import type { Screen } from "../terminal/screen.ts";
import { clean, duration, line, money, spent } from "../terminal/format.ts";
import { createActivity } from "./activity.ts";
import { createPrompter, type Prompter } from "./prompt.ts";
import { createWords } from "./event-line.ts";
import { createTree } from "./tree.ts";

/** A Task whose events are shown. */
export type Following = {
  service: Service;
  target: Target;
  taskID: string;
  /** The screen that gets the lines for people. */
  screen: Screen;
  /** Called with every frame of the stream, unchanged; undefined without `--json`. */
  emit?: ((frame: object) => void) | undefined;
  /** Whether to print the Task's output at the end. */
  output?: boolean;
  /** Position of the last event that was already shown. */
  after?: number | undefined;
};

/**
 * Shows a Task's events as they come until it has ended, then its outcome. Resolves to the exit code. Ctrl-C detaches
 * from the Task or cancels it.
 */
export const follow = async (following: Following): Promise<number> => {
  const { service, target, taskID, screen } = following;
  const stop = new AbortController();
  using interrupts = watchInterrupts(screen);
  using prompter = screen.rich && process.stdin.isTTY ? createPrompter(service, target, taskID, screen) : undefined;
  const shown = show(following, "settled", stop.signal, prompter);
  const first = await Promise.race([shown.then(() => "settled" as const), interrupts.wish]);
  if (first === "detach") {
    stop.abort();
    await shown.catch(() => {});
    screen.say(`Detached; the Task continues. Follow it with ${commandFor(target, `task logs -f ${taskID}`)}.`);
    return exit.completed;
  }
  if (first === "cancel") {
    screen.say("Cancelling…");
    const body = { surface: "cli", reason: "Ctrl-C in the command line" };
    const cancelled = await service.task.cancel({ path: { taskID }, body });
    // A Task that has just ended cannot be cancelled; its own end is shown then.
    if (cancelled.response?.status !== 409) dataOf(cancelled, target.url);
    await shown;
  }
  return await conclude(following);
};

/** Like `follow`, for `sortie task logs -f`: Ctrl-C ends the command without touching the Task. */
export const watch = async (following: Following): Promise<number> => {
  await show(following, "settled", new AbortController().signal);
  return conclude(following);
};

const conclude = async ({ service, target, taskID, screen, emit, output }: Following): Promise<number> => {
  const status = dataOf(await service.task.status({ path: { taskID } }), target.url);
  if (output === true) {
    if (emit !== undefined) emit({ taskID, lifecycleStatus: status.lifecycleStatus, output: status.output });
    else if (status.output !== null) screen.say(outputText(status.output));
  }
  screen.say(closing(status, screen, target.url));
  return exitOf(status);
};

/** Prints a Task's events until it has ended (`settled`) or up to the newest event (`now`). */
export const show = async (
  { service, target, taskID, screen, emit, after = 0 }: Following,
  until: "settled" | "now",
  signal: AbortSignal,
  prompter?: Prompter,
): Promise<void> => {
  const { dim } = screen.colors;
  const checks = new Map<string, string>();
  const words = createWords(screen, checks);
  const tree = screen.rich ? createTree(screen) : undefined;
  const events = dataOf(await service.task.events({ path: { taskID }, query: { after }, signal }), target.url);
  let began = Date.now();
  let last = Number.POSITIVE_INFINITY;
  let cost: number | null = 0;
  const doing = createActivity();
  const drawStatus = () =>
    prompter?.busy() === true
      ? screen.status(undefined)
      : screen.status(
          [duration(Date.now() - began), ...(cost === null ? [] : [money(cost)]), doing.words(Date.now())].join("  "),
        );
  const timer = screen.rich && until === "settled" ? setInterval(drawStatus, 500) : undefined;
  const look = async () => {
    const { data } = await service.task.status({ path: { taskID } });
    if (data !== undefined && doing.isQueued()) doing.told(data);
  };
  const looks = timer && setInterval(() => void (doing.isQueued() && look().catch(() => {})), 2000);
  try {
    for await (const event of events) {
      emit?.(event);
      doing.take(event);
      switch (event.type) {
        case "stream.end":
          return;
        case "task.snapshot":
          began = Date.parse(event.data.createdAt);
          for (const { id, name } of event.data.checks) checks.set(id, name);
          if (until === "now") last = event.data.lastEventID;
          continue;
        case "mission.snapshot":
          continue;
        case "message.delta":
        case "reasoning.delta":
        case "tool.output":
        case "now.delta":
          continue;
        case "reply.finished":
          cost = cost === null || event.data.usage.costUSD === null ? null : cost + event.data.usage.costUSD;
          break;
        default:
      }
      const text = words(event);
      const draw = tree?.(event);
      const time = duration(Date.parse(event.at) - began).padStart(9);
      if (text !== undefined) screen.say(draw === undefined ? `${dim(time)}  ${text}` : draw(text, time));
      if (event.type === "ask.opened" && prompter !== undefined) prompter.opened(event.data);
      else if (event.type === "ask.opened" && until === "settled")
        screen.say(dim(`           Answer with ${commandFor(target, `task answer ${taskID} …`)}.`));
      if (event.type === "ask.answered") prompter?.closed(event.data.askID);
      if (event.id >= last) return;
    }
  } catch (error) {
    // The client has given up reconnecting.
    throw new Exit(
      exit.unreachable,
      `Lost the service at ${target.url} (${clean(messageOf(error))}). The Task continues when it is back; follow it with ${commandFor(target, `task logs -f ${taskID}`)}.`,
    );
  } finally {
    clearInterval(timer);
    clearInterval(looks);
    screen.status(undefined);
  }
};

/** The output as JSON, without characters that could control a terminal. */
export const outputText = (output: unknown): string => clean(JSON.stringify(output, null, 2));

type Closing = Pick<
  TaskStatus,
  | "taskID"
  | "lifecycleStatus"
  | "error"
  | "errorInfo"
  | "checks"
  | "usage"
  | "git"
  | "createdAt"
  | "settledAt"
  | "verified"
>;

/** Whether the Task has ended with a branch that does not differ from its base. */
export const changedNothing = ({ lifecycleStatus, git }: Pick<Closing, "lifecycleStatus" | "git">): boolean =>
  lifecycleStatus !== "active" &&
  git.branch !== null &&
  git.landedCommit === null &&
  (git.diffStat === null || git.diffStat.files === 0);

const stateWords: Record<Closing["checks"][number]["state"], string> = {
  passed: "passed on an earlier tree",
  failed: "failed",
  error: "gave no result",
  pending: "did not run",
  running: "did not finish",
};

/** A failed check without an exit code did not finish, because it was ended. */
const beforeWords = ({ state, exitCode }: NonNullable<Closing["checks"][number]["baseline"]>): string =>
  state === "failed" && exitCode === null ? "did not finish" : stateWords[state];

/** How many checks passed, and how many of the others had not passed before the work either. */
const checksWords = (checks: Closing["checks"]): string => {
  if (checks.length === 0) return "no checks";
  const passed = checks.filter(({ state }) => state === "passed").length;
  const before = checks.filter(
    ({ state, baseline }) => state !== "passed" && baseline !== null && baseline.state !== "passed",
  ).length;
  const words = before === checks.length - passed ? "the others" : `${before} of the others`;
  const all = passed === 0 && before === checks.length;
  return `checks ${passed}/${checks.length}${before === 0 ? "" : ` (${all ? "none had passed before the work" : `${words} had not passed before the work either`})`}`;
};

/** The reasons why a completed Task is not verified. */
const doubtsOf = ({ verified, checks }: Pick<Closing, "verified" | "checks">): string[] => {
  if (verified !== false) return [];
  const red = checks.flatMap(({ name, state, baseline, gates, stale }) => {
    if (state === "passed" && !stale) return [];
    const said = stateWords[state];
    const was = baseline === null || baseline.state === "passed" ? undefined : beforeWords(baseline);
    const before = was === undefined ? "" : was === said ? ", as before the work" : `; before the work it ${was}`;
    return [`${line(name, 80)} ${said}${gates ? " (it did not finish, or could not run)" : before}`];
  });
  return [`Not verified: ${red.length === 0 ? "no check ran on the result" : red.join("; ")}.`];
};

/** The outcome of a Task: its state, then checks, cost and commit, then the error with its remedy. */
export const closing = (task: Closing, { colors }: Pick<Screen, "colors">, url: string): string => {
  const { bold, green, red, yellow } = colors;
  const took =
    task.settledAt === null ? "" : ` in ${duration(Date.parse(task.settledAt) - Date.parse(task.createdAt))}`;
  const facts = [
    checksWords(task.checks),
    spent(task.usage),
    ...(task.git.landedCommit === null ? [] : [`commit ${task.git.landedCommit.slice(0, 10)}`]),
    ...(task.git.landedCommit !== null || task.git.branch === null
      ? []
      : [changedNothing(task) ? "nothing changed" : `branch ${line(task.git.branch, 80)}`]),
    task.taskID,
  ].join(", ");
  const head = { active: bold, completed: green, failed: red, cancelled: yellow }[task.lifecycleStatus];
  const { error = "" } = task;
  const remedy = task.errorInfo?.remedy ?? "";
  const why = [error, error.includes(remedy) ? "" : remedy]
    .filter((text) => text !== "")
    .map((text) => withManuals(clean(text), url));
  const doubts = doubtsOf(task).map(yellow);
  return [`${head(task.lifecycleStatus.toUpperCase())}${took}: ${facts}`, ...doubts, ...why].join("\n");
};
