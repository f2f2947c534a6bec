import { messageOf } from "../error.ts";

/** The files a Task worked in, or the repository they belong to, are gone; the message says which. */
export class WorkspaceLost extends Error {
  readonly code = "workspace_lost";
}

/** The environment of a project's commands cannot be provided on this machine; the message says what is missing. */
export class EnvironmentLost extends Error {
  readonly code = "environment_unavailable";
}

/**
 * A landing that began could be neither finished nor taken back yet; the message says what was in the way. The
 * project's index stays locked, and the caller must repeat the same call.
 */
export class LandingUnfinished extends Error {
  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
    this.name = "LandingUnfinished";
  }
}
