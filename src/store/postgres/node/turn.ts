import type { Client } from "pg";
import type { Nodes } from "../../node.ts";
import { unreadable } from "../../unavailable.ts";
import { retry, NotConnected } from "../fault.ts";

/**
 * Turns that one node at a time has: locks of the database, on the connection that holds the node's name, so that they
 * end with the node, however it ends. `connection`: that connection, while there is one.
 */
export const createTurns = (connection: () => Client | undefined, signal: AbortSignal): Nodes["turn"] => {
  /** The database would grant a lock to the same connection twice. */
  const taken = new Set<string>();

  const lock = async (name: string): Promise<Client | undefined> => {
    const client = connection();
    if (client === undefined) throw new NotConnected("the database cannot be reached");
    const { rows } = await client.query<{ got: boolean }>(`select pg_try_advisory_lock(${key}) as got`, [name]);
    return rows[0]?.got === true ? client : undefined;
  };
  /** A lost connection has taken its locks with it. */
  const unlock = async (client: Client, name: string): Promise<void> => {
    if (connection() === client) await client.query(`select pg_advisory_unlock(${key})`, [name]);
  };

  return async (name) => {
    if (taken.has(name)) return undefined;
    taken.add(name);
    const client = await retry(() => lock(name), signal).catch((error: unknown) => {
      taken.delete(name);
      throw unreadable(error);
    });
    if (client === undefined) {
      taken.delete(name);
      return undefined;
    }
    return {
      isHeld: () => connection() === client,
      async [Symbol.asyncDispose]() {
        await retry(() => unlock(client, name), signal).catch(() => {});
        taken.delete(name);
      },
    };
  };
};

/** The seed (3) differs from those of other locks. */
const key = "hashtextextended($1 || ' ' || current_schema(), 3)";
