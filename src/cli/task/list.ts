import type { Service } from "../connection.ts";
import { ago, line, money, table } from "../terminal/format.ts";
import type { Screen } from "../terminal/screen.ts";
import { nowWords } from "./activity.ts";

/** The rows of `sortie task ls`: short ids and ages that fit a terminal's width; otherwise full ids and times. */

type TaskListItem = NonNullable<Awaited<ReturnType<Service["task"]["list"]>>["data"]>[number];

/** This many characters at an id's end tell the Tasks of a project apart. */
const shortID = 6;
/** Columns of space between two columns of the table. */
const gap = 2;
/** The least width for what a Task does now; below it that column is left out. */
const leastNow = 16;

const stateOf = (task: TaskListItem): string => (task.lifecycleStatus === "active" ? task.phase : task.lifecycleStatus);

const nowOf = (task: TaskListItem, width: number): string =>
  task.now === null
    ? task.isolation === "directory"
      ? "in place"
      : ""
    : nowWords(task.now, Date.now(), width, task.queue);

const checksOf = ({ checkCounts: { passed, total } }: TaskListItem): string =>
  total === 0 ? "" : `${passed}/${total}`;

export const rowsOf = (tasks: readonly TaskListItem[], screen: Screen): string =>
  screen.rich ? fitted(tasks, screen) : plain(tasks);

const plain = (tasks: readonly TaskListItem[]): string =>
  table([
    ["TASK", "STATE", "CHECKS", "COST", "UPDATED", "TITLE", "NOW"],
    ...tasks.map((task) => [
      task.taskID,
      stateOf(task),
      `${task.checkCounts.passed}/${task.checkCounts.total}`,
      money(task.usage.costUSD),
      `${task.updatedAt.slice(0, 16)}Z`,
      line(task.title, 60),
      nowOf(task, 60),
    ]),
  ]);

const fitted = (tasks: readonly TaskListItem[], { colors, width }: Screen): string => {
  const head = ["TASK", "STATE", "CHECKS", "COST", "AGE"];
  const facts = tasks.map((task) => [
    task.taskID.slice(-shortID),
    stateOf(task),
    checksOf(task),
    task.usage.costUSD === null ? "" : money(task.usage.costUSD),
    ago(Date.now() - Date.parse(task.updatedAt)),
  ]);
  const widths = head.map((name, at) => Math.max(name.length, ...facts.map((row) => row[at]?.length ?? 0)));
  const left = width - widths.reduce((sum, one) => sum + one + gap, 0);
  const longest = Math.max(5, ...tasks.map(({ title }) => line(title, 200).length));
  // If any Task runs, titles get two thirds of the remaining width, otherwise all of it.
  const acts = tasks.some((task) => nowOf(task, 8) !== "") && left > 2 * leastNow;
  const forTitle = Math.max(8, Math.min(longest, acts ? Math.floor((left * 2) / 3) : left));
  const forNow = acts ? left - forTitle - gap : 0;
  const { red, green, yellow, cyan, dim, bold } = colors;
  const tone = { active: cyan, completed: green, failed: red, cancelled: yellow };
  const cells = (row: readonly string[]) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0));
  const rows = tasks.map((task, at) => {
    const [id = "", state = "", checks = "", cost = "", age = ""] = cells(facts[at] ?? []);
    const title = line(task.title, forTitle).padEnd(forNow > 0 ? forTitle : 0);
    const now = forNow > 0 ? line(nowOf(task, Math.max(8, forNow - 14)), forNow) : "";
    const shown = [id, tone[task.lifecycleStatus](state), checks, cost, dim(age), title];
    return (now === "" ? shown : [...shown, dim(now)]).join("  ").trimEnd();
  });
  const names = [...cells(head), "TITLE".padEnd(forNow > 0 ? forTitle : 0), ...(forNow > 0 ? ["NOW"] : [])];
  return [bold(names.join("  ").trimEnd()), ...rows].join("\n");
};
