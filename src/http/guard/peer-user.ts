import { readFileSync } from "node:fs";
import { isIPv4, type Socket } from "node:net";

/**
 * Finds the user at the other end of a loopback connection in the kernel's connection table. Linux only and opt-in
 * (SERVICE_SAME_USER): without it and without a password, any user of the machine can call the service. A Unix socket
 * needs none of this, because only the owner can open its file.
 */

const tables = ["/proc/net/tcp", "/proc/net/tcp6"];
const established = "01";

type Ends = Pick<Socket, "remoteAddress" | "remotePort" | "localAddress" | "localPort">;

/**
 * The user id that owns the peer's socket; undefined when the table has no such entry. Both addresses are compared in
 * full, because a port alone may be used from many addresses of 127.0.0.0/8. Only established connections with an inode
 * count: the table lists ended connections, and those that no process holds (inode 0), as root's, whoever owned them.
 */
export const peerUser = (ends: Ends, read: (path: string, form: "latin1") => string = readFileSync) => {
  const peer = endOf(ends.remoteAddress, ends.remotePort);
  const own = endOf(ends.localAddress, ends.localPort);
  if (peer === undefined || own === undefined) return undefined;
  for (const table of tables)
    for (const line of rowsOf(read, table)) {
      const [, local = "", remote = "", state, , , , uid, , inode = "0"] = line.trim().split(/\s+/);
      if (state === established && inode !== "0" && plain(local) === peer && plain(remote) === own) return Number(uid);
    }
  return undefined;
};

/** The data rows of a table; empty when the table cannot be read: a machine without IPv6 has no second one. */
const rowsOf = (read: (path: string, form: "latin1") => string, table: string): string[] => {
  try {
    return read(table, "latin1").split("\n").slice(1);
  } catch {
    return [];
  }
};

/** An address and port as the tables write them: 32-bit words in the machine's order, an IPv4 address as one word. */
const endOf = (address: string | undefined, port: number | undefined): string | undefined => {
  if (address === undefined || port === undefined) return undefined;
  const bytes = bytesOf(address.split("%", 1)[0] ?? "");
  if (bytes === undefined) return undefined;
  if (littleEndian) bytes.swap32();
  return plain(`${bytes.toString("hex").toUpperCase()}:${port.toString(16).toUpperCase().padStart(4, "0")}`);
};

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

const bytesOf = (address: string): Buffer | undefined => {
  if (isIPv4(address)) return Buffer.from(address.split(".").map(Number));
  // The URL parser accepts every spelling of an IPv6 address and returns the canonical one.
  const written = URL.parse(`http://[${address}]/`)?.hostname.slice(1, -1);
  if (written === undefined) return undefined;
  const [head = "", tail] = written.split("::");
  const words = (part: string) => (part === "" ? [] : part.split(":"));
  const [before, after] = [words(head), words(tail ?? "")];
  const all = [...before, ...Array.from({ length: 8 - before.length - after.length }, () => "0"), ...after];
  return Buffer.from(all.map((word) => word.padStart(4, "0")).join(""), "hex");
};

/**
 * Reduces an IPv4-mapped IPv6 address (::ffff:a.b.c.d) to the IPv4 address, because the two ends may differ in this.
 */
const plain = (end: string): string => (end.startsWith(mapped) ? end.slice(mapped.length) : end);
const mapped = littleEndian ? "0000000000000000FFFF0000" : "00000000000000000000FFFF";

/** The service's own user and root are allowed. */
export const isAllowed = (uid: number | undefined, own: number | undefined): boolean =>
  uid !== undefined && (uid === 0 || uid === own);
