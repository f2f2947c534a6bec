import { messageOf } from "../error.ts";

/** The files a Task worked in, or the repository they belong to, are gone; the message says which. */
export class WorkspaceLost extends Error {
  readonly code = "workspace_lost";
}

/** What the commands of a project are to get cannot be had on this machine; the message says what. */
export class EnvironmentLost extends Error {
  readonly code = "environment_unavailable";
}

/**
 * A landing that began could be neither finished nor taken back yet; the message says what was in the way. It keeps the
 * project's index locked, and the same call is to be tried again.
 */
export class LandingUnfinished extends Error {
  constructor(cause: unknown) {
    super(messageOf(cause), { cause });
    this.name = "LandingUnfinished";
  }
}
