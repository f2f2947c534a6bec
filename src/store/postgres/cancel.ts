import { Client, type ClientBase, type ClientConfig } from "pg";

/** Has the database end what the client runs at this moment; nothing happens where that cannot be done. */
export const cancelQuery = async (client: ClientBase, config: ClientConfig): Promise<void> => {
  const { processID } = client as ClientBase & { processID: number | null };
  const control = new Client(config);
  control.on("error", () => {});
  try {
    await control.connect();
    await control.query("select pg_cancel_backend($1)", [processID]);
  } catch {
    // It runs to its end.
  } finally {
    await control.end().catch(() => {});
  }
};
