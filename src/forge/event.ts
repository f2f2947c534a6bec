/** What a forge says has happened, in one form for all of them. Texts are as they stood at that event. */

export type ForgeEvent = {
  /** As the forge gives it for fetching. */
  repository: string;
  /** When it happened, in milliseconds. */
  at: number;
} & (
  | { kind: "labelled"; by: string; labels: readonly string[]; issue: Issue }
  | { kind: "comment"; by: string; text: string; issue: Issue }
  /** On the pull request of `branch`; `review`: of its lines or of the whole, not of the talk below it. */
  | { kind: "remark"; review: boolean; by: string; text: string; number: number; branch: string; url: string }
  /** The pull request of `branch` was merged or closed. */
  | { kind: "ended"; branch: string }
  /** The forge's own checks of a commit have failed. */
  | { kind: "failed"; name: string; branch: string; commit: string; url: string }
);

/** `author`: null where the forge does not say who wrote it. */
export type Issue = { number: number; title: string; text: string; author: string | null; url: string };

/** A text is why nothing follows from it. */
export type Read = (name: string, body: unknown) => ForgeEvent | string;

export const nothing = (name: string): string => `nothing follows from ${JSON.stringify(name.slice(0, 60))}`;
