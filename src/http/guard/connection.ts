import type { Socket } from "node:net";

/**
 * Decides which connections to close when there are too many. A connection is fresh until a request on it has passed
 * the guards; from then on it is known. Above the limits the oldest fresh connection is closed first, then the known
 * one that has been idle longest; a connection that is answering a request that passed is never closed. So nobody
 * without the password can keep out those who have it.
 */

export const connectionLimits = {
  /** Fresh and idle connections of one address. */
  idlePerAddress: 64,
  /** All connections. */
  total: 256,
  /** All connections, including new ones that may still send their first request. */
  crowd: 1024,
  /** How long a new connection has to send its request before it counts as idle, ms. */
  graceMs: 250,
};

type Peer = { fresh: number; idle: number; open: number };

export type Connection = {
  socket: Socket;
  peer: Peer;
  /** `requests`: all requests so far; `busy`: requests that passed the guards and are not answered yet. */
  requests: number;
  busy: number;
  /** When it became fresh or idle. */
  since: number;
};

export const createConnections = (limits = connectionLimits, now: () => number = () => performance.now()) => {
  const bySocket = new Map<Socket, Connection>();
  const peers = new Map<string, Peer>();
  /** Both are ordered from the oldest to the newest. */
  const fresh = new Set<Connection>();
  const idle = new Set<Connection>();
  let timer: NodeJS.Timeout | undefined;

  const leave = (connection: Connection): void => {
    if (fresh.delete(connection)) connection.peer.fresh -= 1;
    if (idle.delete(connection)) connection.peer.idle -= 1;
  };
  const close = (connection: Connection): void => {
    leave(connection);
    bySocket.delete(connection.socket);
    connection.socket.destroy();
  };
  const isCrowded = (peer: Peer): boolean =>
    bySocket.size > limits.total || peer.fresh + peer.idle > limits.idlePerAddress;

  const sweep = (): void => {
    timer = undefined;
    const before = now() - limits.graceMs;
    let crowded = false;
    for (const connection of fresh) {
      if (!isCrowded(connection.peer)) continue;
      if (connection.since <= before) close(connection);
      else crowded = true;
    }
    for (const connection of idle) {
      // Does not count fresh connections, which will be closed in a moment and are no reason to close a known one.
      if (bySocket.size - fresh.size <= limits.total && connection.peer.idle <= limits.idlePerAddress) continue;
      if (connection.since <= before) close(connection);
      else crowded = true;
    }
    if (crowded) plan();
  };
  const plan = (): void => {
    timer ??= setTimeout(sweep, limits.graceMs / 2).unref();
  };

  return {
    opened(socket: Socket): Connection {
      const address = socket.remoteAddress ?? "socket";
      let peer = peers.get(address);
      if (peer === undefined) peers.set(address, (peer = { fresh: 0, idle: 0, open: 0 }));
      const connection: Connection = { socket, peer, requests: 0, busy: 0, since: now() };
      bySocket.set(socket, connection);
      fresh.add(connection);
      peer.fresh += 1;
      peer.open += 1;
      socket.once("close", () => {
        leave(connection);
        bySocket.delete(socket);
        peer.open -= 1;
        if (peer.open === 0) peers.delete(address);
      });
      if (bySocket.size > limits.crowd) {
        const [oldest] = fresh.size > 1 ? fresh : idle;
        if (oldest !== undefined) close(oldest);
      }
      if (isCrowded(peer)) plan();
      return connection;
    },
    of: (socket: Socket): Connection | undefined => bySocket.get(socket),
    /** Called when a request has passed the guards; must be followed by `answered`. */
    passed(connection: Connection): void {
      leave(connection);
      connection.busy += 1;
    },
    answered(connection: Connection): void {
      connection.busy -= 1;
      if (connection.busy > 0 || !bySocket.has(connection.socket)) return;
      connection.since = now();
      idle.add(connection);
      connection.peer.idle += 1;
      if (isCrowded(connection.peer)) plan();
    },
    all: (): Iterable<Socket> => bySocket.keys(),
    stop: () => clearTimeout(timer),
  };
};
