/** Hardened git (shared/design/security.md C7): environment from scratch, no hooks, filters, pagers or network. */

export type GitResult = { exitCode: number; stdout: Buffer; stderr: string };

export type GitOptions = {
  input?: string | Uint8Array;
  /** Exit codes that are answers, not failures; default [0]. Others reject with GitError. */
  ok?: readonly number[];
  /** Added to the environment from scratch, e.g. GIT_INDEX_FILE. */
  env?: Record<string, string>;
  signal?: AbortSignal;
  timeoutMs?: number;
};

export class GitError extends Error {
  readonly exitCode: number | null;
  readonly stderr: string;
  constructor(message: string, exitCode: number | null, stderr: string) {
    super(message);
    this.name = "GitError";
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}

export interface Git {
  readonly root: string;
  run(args: readonly string[], options?: GitOptions): Promise<GitResult>;
}
