import { Link } from "@tanstack/react-router";
import type { CSSProperties } from "react";
import type { Overview } from "../../../src/protocol/overview.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { StateBadge, StateIcon } from "../component/text/state.tsx";
import { type Group, groupOf, groups, groupWords } from "../format.ts";
import { Facts, Line } from "./list.tsx";

const widthOf = (cards: number): string => (cards === 0 ? "minmax(9.5rem, 1fr)" : "minmax(0, 2.4fr)");

/** A column's number: the service's count, which includes Tasks that are not loaded, or that of the cards shown. */
const numberOf = (group: Group, cards: number, counts: Counts): number => {
  const known = {
    need: counts?.needsYou,
    run: counts?.running,
    queue: counts?.queued,
    done: undefined,
    fail: undefined,
  };
  return Math.max(known[group] ?? 0, cards);
};

type Counts = Pick<Overview["total"], "needsYou" | "running" | "queued"> | undefined;

/** The Tasks in columns; the column that needs the user most comes first. */
export const Board = ({ tasks, counts }: { tasks: readonly TaskSummary[]; counts: Counts }) => {
  const columns = Map.groupBy(tasks, groupOf);
  return (
    // An empty column is only as wide as its name.
    <div
      className="grid grid-cols-1 gap-3 md:grid-cols-2 xl:grid-cols-(--columns)"
      style={
        { "--columns": groups.map((group) => widthOf(columns.get(group)?.length ?? 0)).join(" ") } as CSSProperties
      }
    >
      {groups.map((group) => {
        const cards = columns.get(group) ?? [];
        return (
          <section
            key={group}
            aria-label={groupWords[group]}
            className={`rounded-2xl bg-sunk p-2 ${cards.length === 0 ? "max-md:hidden" : ""}`}
          >
            <h2 className="flex items-center gap-2 px-2 pt-1 pb-3 text-sm font-semibold whitespace-nowrap">
              <StateIcon state={group} size={15} />
              {groupWords[group]}
              <span className="tabular font-normal text-faint">{numberOf(group, cards.length, counts)}</span>
            </h2>
            <ul className="flex flex-col gap-2">
              {cards.map((task) => (
                <li key={task.taskID}>
                  <Link
                    to="/ui/task/$taskID"
                    params={{ taskID: task.taskID }}
                    data-row={task.taskID}
                    className="card flex flex-col gap-2 p-3 transition-[border-color] hover:border-edge"
                  >
                    <span className="line-clamp-3 font-semibold" dir="auto" title={task.title}>
                      {task.title}
                    </span>
                    <Line task={task} />
                    <Facts task={task} />
                    <span>
                      <StateBadge task={task} />
                    </span>
                  </Link>
                </li>
              ))}
              {cards.length === 0 && <li className="px-2 pb-3 text-sm text-faint">None</li>}
            </ul>
          </section>
        );
      })}
    </div>
  );
};
