import type { ClientBase, ClientConfig } from "pg";
import { commitBounds, openClient } from "./connection.ts";

/** Has the database end what the client runs at this moment; nothing happens where that cannot be done. */
export const cancelQuery = async (client: ClientBase, config: ClientConfig): Promise<void> => {
  const { processID } = client as ClientBase & { processID: number | null };
  try {
    const control = await openClient(config, commitBounds);
    try {
      await control.query("select pg_cancel_backend($1)", [processID]);
    } finally {
      await control.end();
    }
  } catch {
    // It runs to its end.
  }
};
