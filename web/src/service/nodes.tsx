import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { nodes } from "../api.ts";
import { ago, bytes } from "../format.ts";

/**
 * The nodes that share the database, and the Tasks that none of them takes. Shows nothing when there is only one node.
 */

const tones = {
  up: "text-done",
  draining: "text-need",
  stopped: "text-soft",
  lost: "text-fail",
} as const;

export const Nodes = () => {
  const { data: known } = useQuery({ ...nodes, refetchInterval: 5_000 });
  if (known === undefined || known.self === null) return null;
  return (
    <section aria-labelledby="nodes" className="flex flex-col gap-3">
      <h2 id="nodes" className="text-md font-semibold">
        Nodes
      </h2>
      <div className="card overflow-x-auto">
        <table className="tabular w-full text-left">
          <thead className="border-b border-line text-sm text-soft">
            <tr>
              {["Node", "State", "Role", "Running", "Room", "Disk free", "Sandbox", "Version", "Last seen"].map(
                (head) => (
                  <th key={head} scope="col" className="px-4 py-3 font-medium whitespace-nowrap">
                    {head}
                  </th>
                ),
              )}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {known.nodes.map((node) => (
              <tr key={node.name}>
                <th scope="row" className="px-4 py-3 font-medium">
                  {node.name}
                  {node.name === known.self && <span className="text-sm font-normal text-soft"> (this one)</span>}
                  {node.differs.length > 0 && (
                    <p className="text-sm font-normal text-need">Differs in {node.differs.join(", ")}</p>
                  )}
                </th>
                <td className={`px-4 py-3 ${tones[node.state]}`}>{node.state}</td>
                <td className="px-4 py-3">{node.role}</td>
                <td className="px-4 py-3">{node.running}</td>
                <td className="px-4 py-3">{node.room}</td>
                <td className="px-4 py-3 whitespace-nowrap">{bytes(node.diskFree)}</td>
                <td className="px-4 py-3 whitespace-nowrap">tier {node.tier}</td>
                <td className="px-4 py-3">{node.version}</td>
                <td className="px-4 py-3 whitespace-nowrap">{ago(Date.now() - Date.parse(node.seenAt))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {known.untaken.length > 0 && (
        <ul aria-label="Tasks that no node takes" className="card divide-y divide-line">
          {known.untaken.map(({ taskID, reason }) => (
            <li key={taskID} className="px-5 py-3 wrap-anywhere">
              <Link to="/ui/task/$taskID" params={{ taskID }} className="link font-mono text-sm">
                {taskID}
              </Link>{" "}
              <span className="text-soft">{reason}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
};
