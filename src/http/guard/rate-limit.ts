import { ServiceError } from "../../error.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Nodes } from "../../store/node.ts";

/**
 * Limits failed log-ins per client, also on loopback: behind a reverse proxy, guesses come from there. While a client
 * is locked out, none of its credentials are checked, not even the right ones, or guessing could go on. Only a
 * connection whose last credentials were right is exempt, so that users who are logged in stay logged in.
 */
export interface Logins {
  /** Throws 429 when the client has failed too often; called before the credentials are looked at. */
  attempt(address: string, connection: object): void;
  failed(address: string, connection: object): void;
  succeeded(connection: object): void;
}

/** Token buckets per client address, used when the service listens beyond this machine. `limits` define the rates. */
export interface Rates {
  /** Counts a request; throws 429 above the rate. */
  request(address: string): void;
  /** Counts a request that starts work; throws 429 above the rate. */
  create(address: string): void;
}

type Bucket = { tokens: number; at: number };

const failuresPerMinute = 10;
const topic = "failed login";
/** Above this many clients, those with a full bucket are forgotten. */
const clients = 10_000;

export const createLogins = (now: () => number, others?: Pick<Nodes, "tell" | "onTold">): Logins => {
  const failures = buckets(failuresPerMinute / 60, failuresPerMinute, now);
  // Failures on other nodes count here too, so that guessing at one node after the other gains nothing.
  others?.onTold(topic, ([client]) => {
    if (typeof client === "string") failures.take(client);
  });
  const inside = new WeakSet<object>();
  return {
    attempt(address, connection) {
      if (inside.has(connection)) return;
      const client = clientOf(address);
      if (failures.left(client) < 1)
        throw limited(`at most ${failuresPerMinute} failed authentications a minute`, failures.wait(client));
    },
    failed(address, connection) {
      inside.delete(connection);
      const client = clientOf(address);
      failures.take(client);
      others?.tell(topic, [client]);
    },
    succeeded(connection) {
      inside.add(connection);
    },
  };
};

/**
 * The client that an address counts for: all of loopback is one client, and so is each IPv6 /64 network, because both
 * offer enough addresses for any number of guesses.
 */
const clientOf = (address: string): string => {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
  if (plain.startsWith("127.") || plain === "::1") return "loopback";
  if (!plain.includes(":")) return plain;
  const [head = "", tail = ""] = plain.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => "0");
  return [...before, ...zeros, ...after].slice(0, 4).join(":");
};

export const createRates = (limits: Limits, now: () => number): Rates => {
  const requests = buckets(limits.requestsPerSecond, limits.requestsBurst, now);
  const creates = buckets(limits.createsPerSecond, limits.createsBurst, now);
  return {
    request(address) {
      if (!requests.take(address))
        throw limited(`at most ${limits.requestsPerSecond} requests a second`, requests.wait(address));
    },
    create(address) {
      if (!creates.take(address))
        throw limited(`at most ${limits.createsPerSecond} new Tasks a second`, creates.wait(address));
    },
  };
};

const limited = (rule: string, seconds: number): ServiceError =>
  new ServiceError("rate_limited", `Expected ${rule} from one address, got more. Try again in ${seconds} s.`, {
    headers: { "retry-after": String(seconds) },
  });

const buckets = (perSecond: number, burst: number, now: () => number) => {
  const byAddress = new Map<string, Bucket>();
  const filled = (address: string): Bucket => {
    const at = now();
    const bucket = byAddress.get(address);
    if (bucket !== undefined) {
      // A clock that was set back must not empty the bucket.
      bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, at - bucket.at) / 1000) * perSecond);
      bucket.at = at;
      return bucket;
    }
    if (byAddress.size >= clients)
      for (const [key, { tokens, at: last }] of byAddress)
        if (tokens + ((at - last) / 1000) * perSecond >= burst || byAddress.size > 2 * clients) byAddress.delete(key);
    const fresh = { tokens: burst, at };
    byAddress.set(address, fresh);
    return fresh;
  };
  return {
    left: (address: string): number => filled(address).tokens,
    take(address: string): boolean {
      const bucket = filled(address);
      if (bucket.tokens < 1) return false;
      bucket.tokens -= 1;
      return true;
    },
    /** Whole seconds until a token is available. */
    wait: (address: string): number => Math.max(1, Math.ceil((1 - filled(address).tokens) / perSecond)),
  };
};
