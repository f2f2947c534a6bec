import type { Pool } from "pg";
import type { Library } from "./library.ts";

/**
 * DBOS keeps every row for ever, and takes up what a dead process had begun only under the same executor's id. Here a
 * row says nothing that the log does not: those of runs that are over go, and so do those of processes that are dead.
 */

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** Rows at a time. */
const most = 500;

/** `node service`: whose process it is, and which one of that name. */
export const executorID = (node: string, process: string): string => `${node} ${process}`;

/**
 * Removes what is over. `self`: the executor of this process, beside which its name has no other. `living`: names of
 * the nodes that were there within the last hour.
 */
export const cleanRows = async (
  library: Library,
  pool: Pool,
  { schema, self, living }: { schema: string; self: string; living: readonly string[] },
): Promise<number> => {
  const [node] = self.split(" ");
  let removed = 0;
  for (;;) {
    const { rows } = await pool.query<{ id: string }>(
      `select workflow_uuid as id from "${schema}".workflow_status
        where (status not in ('PENDING', 'ENQUEUED', 'DELAYED') and updated_at < $1)
           or (status in ('ENQUEUED', 'DELAYED') and created_at < $2)
           or (status = 'PENDING' and executor_id <> $3
               and (split_part(executor_id, ' ', 1) = $4 or split_part(executor_id, ' ', 1) <> all($5::text[])))
        limit ${most}`,
      [Date.now() - hourMs, Date.now() - dayMs, self, node, [...living, node]],
    );
    if (rows.length === 0) return removed;
    await library.deleteWorkflows(rows.map(({ id }) => id));
    removed += rows.length;
    if (rows.length < most) return removed;
  }
};
