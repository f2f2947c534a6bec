import { Background, Controls, Handle, type Node, type NodeProps, Position, ReactFlow } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useMemo, useState } from "react";
import type { Goal, Topology as Graph } from "../../../src/protocol/task/status.ts";
import { StateIcon } from "../component/text/state.tsx";
import { costWords, duration, type State } from "../format.ts";

/** Which session called which. A click opens the conversation of that session. */

type Session = Graph["nodes"][number];
type SessionNode = Node<
  { session: Session; slices: string[]; down: boolean; onOpen: (sessionID: string) => void },
  "session"
>;

const icons: Record<Session["state"], State> = { running: "run", idle: "queue", ended: "done" };
const words: Record<Session["state"], string> = { running: "running", idle: "waiting", ended: "ended" };

const spent = ({ startedAt, endedAt }: Session): string =>
  endedAt === null ? "" : duration(Date.parse(endedAt) - Date.parse(startedAt));

const Card = ({ data: { session, slices, down, onOpen } }: NodeProps<SessionNode>) => (
  <>
    <Handle type="target" position={down ? Position.Top : Position.Left} isConnectable={false} />
    <button
      type="button"
      onClick={() => onOpen(session.sessionID)}
      className="nodrag card flex w-60 flex-col gap-1 p-3 text-start transition-[border-color] hover:border-edge"
    >
      <span className="flex items-center gap-2 font-medium">
        <StateIcon state={icons[session.state]} size={15} />
        <span className="truncate">{session.agent}</span>
        <span className="ml-auto text-xs font-normal text-soft">{words[session.state]}</span>
      </span>
      <span className="truncate text-xs text-soft">{session.model}</span>
      <span className="tabular flex justify-between gap-2 text-xs text-soft">
        <span>{spent(session)}</span>
        <span>{session.usage.modelCalls > 0 ? costWords(session.usage) : ""}</span>
      </span>
      {slices.length > 0 && <span className="line-clamp-2 text-xs text-faint">{slices.join(", ")}</span>}
    </button>
    <Handle type="source" position={down ? Position.Bottom : Position.Right} isConnectable={false} />
  </>
);

const nodeTypes = { session: Card };
/** Pixels from the centre of one card to the next. */
const step = { x: 320, y: 136 };
const stepDown = { x: 264, y: 168 };

/** Places each session right of the one that called it, or below it, in the order in which they started. */
const place = (nodes: readonly Session[], below: boolean) => {
  const children = Map.groupBy(nodes, ({ parentSessionID }) => parentSessionID ?? "");
  const at = new Map<string, { x: number; y: number }>();
  let row = 0;
  const walk = (session: Session, depth: number): number => {
    const under = (children.get(session.sessionID) ?? []).map((child) => walk(child, depth + 1));
    const first = under[0];
    const last = under.at(-1);
    const side = first === undefined || last === undefined ? row++ : (first + last) / 2;
    at.set(
      session.sessionID,
      below ? { x: side * stepDown.x, y: depth * stepDown.y } : { x: depth * step.x, y: side * step.y },
    );
    return side;
  };
  for (const root of children.get("") ?? []) walk(root, 0);
  return at;
};

export const Topology = ({
  topology,
  goals,
  onOpen,
}: {
  topology: Graph;
  goals: readonly Goal[];
  onOpen: (sessionID: string) => void;
}) => {
  const titles = useMemo(() => new Map(goals.map(({ sliceID, contract }) => [sliceID, contract.title])), [goals]);
  const [down] = useState(() => matchMedia("(max-width: 40rem)").matches);
  const nodes = useMemo((): SessionNode[] => {
    const at = place(topology.nodes, down);
    return topology.nodes.map((session) => ({
      id: session.sessionID,
      type: "session",
      position: at.get(session.sessionID) ?? { x: 0, y: 0 },
      data: { session, slices: session.sliceIDs.flatMap((id) => titles.get(id) ?? []), down, onOpen },
      draggable: false,
      selectable: false,
      focusable: false,
    }));
  }, [topology, titles, down, onOpen]);
  const edges = useMemo(
    () =>
      topology.edges.map(({ from, to, callID }) => ({
        id: `${from}-${to}`,
        source: from,
        target: to,
        focusable: false,
        ...(callID === null ? { label: "review" } : {}),
        animated: topology.nodes.find(({ sessionID }) => sessionID === to)?.state === "running",
      })),
    [topology],
  );
  return (
    <div className="h-full min-h-64" data-testid="topology">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        fitView
        fitViewOptions={{ padding: down ? 0.08 : 0.2, maxZoom: 1, minZoom: 0.45 }}
        minZoom={0.1}
        nodesConnectable={false}
        proOptions={{ hideAttribution: true }}
        aria-label="Sessions and who called them"
      >
        <Background gap={24} />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
};
