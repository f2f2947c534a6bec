import type { Limits } from "../protocol/limit.ts";

/** The port: options and result of one check; types only. */

export type CheckResult = {
  /** `error`: it could not be run; why and what helps stands in `reason`. */
  state: "passed" | "failed" | "error";
  exitCode: number | null;
  durationMs: number;
  output: string;
  /** The last lines, for people and for the agent. */
  tail: string;
  /** Why it did not pass; null when it did. */
  reason: string | null;
  /** Files that show it. */
  artifacts?: { filename: string; title: string; mime: string; bytes: Buffer }[];
  /** Once more on the same files would say the same, or take as long. */
  final: boolean;
};

export type CheckOptions = {
  limits: Limits;
  signal: AbortSignal;
  /** Commands share this machine's network. */
  network: boolean;
  browser: Browser;
  /** What is kept under a hash. */
  blob: (sha256: string) => Promise<Buffer | undefined>;
  onOutput?: (text: string) => void;
};

export type Browser = {
  /** Where the program is; undefined: this machine has none. */
  program: string | undefined;
  /** Its own sandbox cannot be had in ours, nor as root. */
  bare: boolean;
};
