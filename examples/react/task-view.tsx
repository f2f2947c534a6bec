import type { ServiceClient } from "sortie/client";
import { useTask } from "./use-task.ts";

export const TaskView = ({ client, taskID }: { client: ServiceClient; taskID: string }) => {
  const { task, writing, error } = useTask(client, taskID);
  if (error !== undefined) return <p role="alert">{error.message}</p>;
  if (task === undefined) return <p>Loading…</p>;
  return (
    <article>
      <h2>{task.title}</h2>
      <p aria-live="polite">
        {task.lifecycleStatus === "active" ? task.phase : task.lifecycleStatus}
        {task.error === undefined ? "" : `: ${task.error}`}
      </p>
      <ul>
        {task.checks.map(({ id, name, state }) => (
          <li key={id}>
            {name}: {state}
          </li>
        ))}
      </ul>
      <pre>{writing}</pre>
    </article>
  );
};
