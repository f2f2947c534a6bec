import { Link } from "@tanstack/react-router";
import type { Overview } from "../../../src/protocol/overview.ts";
import { Inline } from "../component/text/inline.tsx";
import { StateIcon } from "../component/text/state.tsx";
import { nameOf } from "../place.ts";

/** The asks that wait for an answer in any project, whatever the list below shows. */

type Ask = Overview["pending"][number];

const look = "flex items-start gap-3 px-4 py-2 -outline-offset-2 transition-colors hover:bg-hover";

const Words = ({ ask }: { ask: Ask }) => (
  <>
    <span className="mt-0.5">
      <StateIcon state="need" />
    </span>
    <span className="flex min-w-0 flex-col">
      <span className="line-clamp-2 font-medium text-need" dir="auto">
        <Inline text={ask.prompt} />
      </span>
      <span className="truncate text-sm text-soft" dir="auto">
        {ask.title} · {nameOf(ask.directory)}
      </span>
    </span>
  </>
);

export const AskLink = ({ ask }: { ask: Ask }) =>
  ask.taskID === null ? (
    <Link
      to="/ui/mission/$missionID"
      params={{ missionID: ask.missionID ?? "" }}
      search={{ project: ask.directory }}
      className={look}
    >
      <Words ask={ask} />
    </Link>
  ) : (
    <Link to="/ui/task/$taskID" params={{ taskID: ask.taskID }} className={look}>
      <Words ask={ask} />
    </Link>
  );

export const NeedsYou = ({ asks }: { asks: readonly Ask[] }) =>
  asks.length === 0 ? null : (
    <section aria-label="Needs you" className="flex flex-col gap-2">
      <h2 className="flex items-center gap-2 text-sm font-semibold text-need">
        <StateIcon state="need" size={15} />
        {asks.length === 1 ? "One question is waiting for you" : `${asks.length} questions are waiting for you`}
      </h2>
      <ul className="card divide-y divide-line overflow-hidden border-need/40">
        {asks.map((ask) => (
          <li key={ask.id}>
            <AskLink ask={ask} />
          </li>
        ))}
      </ul>
    </section>
  );
