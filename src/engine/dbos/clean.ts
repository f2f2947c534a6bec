import type { Pool } from "pg";
import type { Library } from "./library.ts";

/**
 * Removes rows from DBOS's tables: DBOS keeps every row for ever, and continues what a dead process began only under
 * the same executor's id. Here a row says nothing that the log does not, so the rows of finished runs and of dead
 * processes can go.
 */

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** Rows per query. */
const most = 500;

/** The id of an executor: the name of its node, and an id of the process on that node. */
export const executorID = (node: string, process: string): string => `${node} ${process}`;

/**
 * Removes rows that are no longer needed, and resolves to their number. `self`: this process, the only executor of its
 * node. `living`: names of the nodes that were seen within the last hour.
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
