import { readFileSync } from "node:fs";
import type { Socket } from "node:net";

/**
 * Finds the user at the other end of a loopback connection in the kernel's connection table. Linux only, opt-in
 * (SERVICE_SAME_USER): without it and without a password, any user of the machine can call the service.
 */

const tables = ["/proc/net/tcp", "/proc/net/tcp6"];

/** The user id that owns the peer's socket; undefined when the table has no entry. */
export const peerUser = ({ remotePort, localPort }: Socket, read = readFileSync): number | undefined => {
  if (remotePort === undefined || localPort === undefined) return undefined;
  for (const table of tables)
    for (const line of read(table, "latin1").split("\n").slice(1)) {
      const [, local = "", remote = "", , , , , uid] = line.trim().split(/\s+/);
      if (portOf(local) === remotePort && portOf(remote) === localPort) return Number(uid);
    }
  return undefined;
};

const portOf = (address: string): number => Number.parseInt(address.slice(address.lastIndexOf(":") + 1), 16);

/** The service's own user and root are allowed. */
export const isAllowed = (uid: number | undefined, own: number | undefined): boolean =>
  uid !== undefined && (uid === 0 || uid === own);
