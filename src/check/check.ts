import type { Network } from "../process/network/allow-list.ts";
import type { Limits } from "../protocol/limit.ts";

/**
 * The result of one check. `runCheck` (`run.ts`) resolves to it for every outcome, and rejects only when `signal`
 * aborts or the service itself fails.
 */
export type CheckResult = {
  /** `error`: the check could not be run; `reason` says why and what helps. */
  state: "passed" | "failed" | "error";
  /** Exit code of the check's command; null for kinds that are not decided by one, and after a signal. */
  exitCode: number | null;
  /** Wall time in milliseconds. */
  durationMs: number;
  /** The output up to `limits.commandOutputBytes`. */
  output: string;
  /** The last lines of the output, for people and for the agent. */
  tail: string;
  /** Why it did not pass; null when it passed. */
  reason: string | null;
  /** Files to keep as artifacts, such as screenshots. */
  artifacts?: { filename: string; title: string; mime: string; bytes: Buffer }[];
  /** Running it again on the same files is pointless: the result would be the same, or it would time out again. */
  final: boolean;
  /** The check was ended before it had a result, as by its time-out. */
  unfinished?: true;
};

/** What a check runs with in addition to its definition and its place (`CheckEnvironment`). */
export type CheckOptions = {
  limits: Limits;
  /** Ends the check's commands; `runCheck` then rejects. */
  signal: AbortSignal;
  /**
   * What commands may reach. true: they share this machine's network, so two servers cannot listen on one port at once.
   */
  network: Network;
  browser: Browser;
  /** Reads a blob by its SHA-256; undefined when it is not in the data folder. */
  blob: (sha256: string) => Promise<Buffer | undefined>;
  /** Called with output while the check runs. */
  onOutput?: (text: string) => void;
};

/** The machine's browser, for checks of the kind `visual` and for captures. */
export type Browser = {
  /** Path of the program; undefined: this machine has none. */
  program: string | undefined;
  /** Why there is none, if the reason is not that none is installed. */
  why?: string;
  /** Start it without its own sandbox, which is unavailable inside ours and for root. */
  bare: boolean;
};
