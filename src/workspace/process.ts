/** Commands in their own process group, on record from spawn to death. */

export type Command = {
  /** Run by `bash -c`. */
  run: string;
  cwd: string;
  /** Added to the allow-listed environment. */
  env?: Record<string, string>;
  timeoutMs: number;
  /** Bytes of output kept, head and tail together. */
  keepBytes: number;
  signal: AbortSignal;
  onOutput?: (text: string) => void;
};

export type Ran = {
  /** null when a signal ended it. */
  exitCode: number | null;
  /** Standard output and error as they came; head and tail when longer than `keepBytes`. */
  output: string;
  /** Standard output alone, for checks that match it; bounded likewise. */
  stdout: string;
  /** Bytes not kept. */
  dropped: number;
  ended: "exit" | "timeout" | "aborted" | "not-started";
  durationMs: number;
};
