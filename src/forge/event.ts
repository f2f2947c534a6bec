/** The events of forges, in one form for all of them. Texts are as they were at the time of the event. */

export type ForgeEvent = {
  /** The address that the forge gives for fetching. */
  repository: string;
  /** When it happened, in milliseconds. */
  at: number;
} & (
  | { kind: "labelled"; by: string; labels: readonly string[]; issue: Issue }
  | { kind: "comment"; by: string; text: string; issue: Issue }
  /**
   * A comment on the pull request of `branch`. `review`: it is about its lines or the whole change, not a comment in
   * the discussion below.
   */
  | { kind: "remark"; review: boolean; by: string; text: string; number: number; branch: string; url: string }
  /** The pull request of `branch` was merged or closed. */
  | { kind: "ended"; branch: string }
  /** The forge's own checks of a commit have failed. */
  | { kind: "failed"; name: string; branch: string; commit: string; url: string }
);

/** `author`: null if the forge does not say who wrote it. */
export type Issue = { number: number; title: string; text: string; author: string | null; url: string };

/** Reads an event by its name; a text says why it has no effect. */
export type Read = (name: string, body: unknown) => ForgeEvent | string;

export const noEffect = (name: string): string => `nothing follows from ${JSON.stringify(name.slice(0, 60))}`;
