import type { Goal, Topology as Graph } from "../../../src/protocol/task/status.ts";
import { AgentDot, agentTone } from "../component/text/agent.tsx";
import { useNow } from "../component/text/time.tsx";
import { clock, costWords, duration, tokens } from "../format.ts";
import type { Log } from "./conversation/log.ts";

/** The sessions with their times, each below the one that called it. A click opens the session's conversation. */

type Session = Graph["nodes"][number];
type Row = { session: Session; depth: number; by: string };

const words: Record<Session["state"], string> = { running: "running", idle: "waiting", ended: "ended" };

/** Sessions below this depth are not indented any further. */
const deepest = 5;

/** The tool of each call, by the call's id. */
const callers = (log: Log): ReadonlyMap<string, string> =>
  new Map(
    log
      .items()
      .flatMap((item) => (item.kind === "turn" ? item.calls : []))
      .map(({ callID, tool }) => [callID, tool]),
  );

const rowsOf = ({ nodes, edges }: Graph, log: Log): Row[] => {
  const tools = callers(log);
  const calledBy = new Map(
    edges.map(({ to, callID }) => [to, callID === null ? "by the service" : (tools.get(callID) ?? "")]),
  );
  const below = Map.groupBy(nodes, ({ parentSessionID }) => parentSessionID ?? "");
  const walk = (session: Session, depth: number): Row[] => [
    { session, depth, by: calledBy.get(session.sessionID) ?? "" },
    ...(below.get(session.sessionID) ?? []).flatMap((child) => walk(child, depth + 1)),
  ];
  return (below.get("") ?? []).flatMap((root) => walk(root, 0));
};

const Bar = ({ session, from, to, now }: { session: Session; from: number; to: number; now: number }) => {
  const begun = Date.parse(session.startedAt);
  const ended = session.endedAt === null ? now : Date.parse(session.endedAt);
  const share = (at: number): number => (Math.min(to, Math.max(from, at)) - from) / Math.max(1, to - from);
  const left = share(begun);
  return (
    <span aria-hidden="true" className="relative block h-2 rounded-full bg-sunk">
      <span
        className={`absolute inset-y-0 min-w-1 rounded-full ${agentTone(session.agent)} ${session.state === "running" ? "animate-beat" : ""}`}
        style={{ left: `${left * 100}%`, width: `${Math.max(0, share(ended) - left) * 100}%` }}
      />
    </span>
  );
};

export const Topology = ({
  topology,
  goals,
  log,
  onOpen,
}: {
  topology: Graph;
  goals: readonly Goal[];
  log: Log;
  onOpen: (sessionID: string) => void;
}) => {
  const now = useNow(topology.nodes.some(({ endedAt }) => endedAt === null));
  const titles = new Map(goals.map(({ sliceID, contract }) => [sliceID, contract.title]));
  const rows = rowsOf(topology, log);
  const from = Math.min(...rows.map(({ session }) => Date.parse(session.startedAt)));
  const to = Math.max(
    from + 1,
    ...rows.map(({ session }) => (session.endedAt === null ? now : Date.parse(session.endedAt))),
  );
  return (
    <div className="h-full overflow-y-auto" tabIndex={0} data-testid="topology" role="region" aria-label="Sessions">
      <div className="mx-auto max-w-6xl px-4 py-4 sm:px-6">
        <div aria-hidden="true" className="label tabular mb-1 hidden gap-4 px-3 md:flex">
          <span className="w-72 shrink-0">Agent</span>
          <span className="flex flex-1 justify-between">
            <span>{clock(from)}</span>
            <span>{duration(to - from)}</span>
          </span>
          <span className="w-40 shrink-0 text-end">Tokens, cost</span>
        </div>
        <ol className="card divide-y divide-line overflow-hidden">
          {rows.map(({ session, depth, by }) => {
            const { sessionID, agent, model, state, startedAt, endedAt, usage, sliceIDs } = session;
            const slices = sliceIDs.flatMap((id) => titles.get(id) ?? []).join(", ");
            const took = (endedAt === null ? now : Date.parse(endedAt)) - Date.parse(startedAt);
            const used = usage.inputTokens + usage.outputTokens;
            return (
              <li key={sessionID}>
                <button
                  type="button"
                  onClick={() => onOpen(sessionID)}
                  className="grid w-full gap-x-4 gap-y-2 px-3 py-2 text-start -outline-offset-2 hover:bg-hover md:grid-cols-[18rem_minmax(0,1fr)_10rem] md:items-center"
                >
                  <span className="min-w-0" style={{ paddingInlineStart: `${Math.min(depth, deepest) * 16}px` }}>
                    <span className="flex items-center gap-2">
                      <AgentDot agent={agent} />
                      <span className="truncate text-sm font-medium">{agent}</span>{" "}
                      <span className={`text-xs ${state === "running" ? "text-run" : "text-faint"}`}>
                        {words[state]}
                      </span>
                    </span>
                    <span className="block truncate ps-4 text-xs text-soft" title={slices === "" ? model : slices}>
                      {[slices === "" ? model : slices, by].filter(Boolean).join(" · ")}
                    </span>
                  </span>{" "}
                  <span className="min-w-0">
                    <Bar session={session} from={from} to={to} now={now} />
                    <span className="tabular mt-0.5 block text-xs text-faint">
                      {clock(startedAt)}
                      {endedAt === null ? "" : `–${clock(endedAt)}`}, {duration(took)}
                    </span>
                  </span>{" "}
                  <span className="tabular text-xs text-soft md:text-end">
                    {usage.modelCalls > 0 && `${tokens(used)} tokens, ${costWords(usage)}`}
                  </span>
                </button>
              </li>
            );
          })}
        </ol>
      </div>
    </div>
  );
};
