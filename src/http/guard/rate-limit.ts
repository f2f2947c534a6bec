import { ServiceError } from "../../error.ts";
import type { Limits } from "../../protocol/limit.ts";

/** Token buckets per client address, used where the service listens beyond this machine. `limits` define the rates. */
export interface Rates {
  /** Throws 429 when the address has failed to authenticate too often; called before the credentials are looked at. */
  authenticate(address: string): void;
  /** Counts a failed authentication. */
  failed(address: string): void;
  /** Counts a request; throws 429 above the rate. */
  request(address: string): void;
  /** Counts a request that starts work; throws 429 above the rate. */
  create(address: string): void;
}

type Bucket = { tokens: number; at: number };

const failuresPerMinute = 10;
/** Above this many clients, those whose buckets are full again are forgotten. */
const clients = 10_000;

export const createRates = (limits: Limits, now: () => number): Rates => {
  const requests = buckets(limits.requestsPerSecond, limits.requestsBurst, now);
  const creates = buckets(limits.createsPerSecond, limits.createsBurst, now);
  const failures = buckets(failuresPerMinute / 60, failuresPerMinute, now);
  return {
    authenticate(address) {
      if (failures.left(address) < 1)
        throw limited(`at most ${failuresPerMinute} failed authentications a minute`, failures.wait(address));
    },
    failed(address) {
      failures.take(address);
    },
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
