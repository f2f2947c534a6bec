import type { Limits } from "../../protocol/limit.ts";
import type { Usage } from "../../protocol/task/status.ts";

/** Decides how many turns a review has, and which of them must be its verdict. */

export type ReviewTurn =
  /** The reviewer may look at files, or judge. */
  | "look"
  /** The reviewer answered in words, which decide nothing: it is asked for the call, once. */
  | "again"
  /** The reviewer has used up its turns or tokens for looking: it is asked for the call. */
  | "judge"
  /** The reviewer was asked for the call and made none that is valid. */
  | "over";

/** The reviewer's conversation: what was said, and the tokens that its last turn held. */
type Held = {
  said: readonly ({ role: "assistant"; calls: readonly unknown[] } | { role: "user" | "tool" })[];
  tokens: number;
};

/** Turns beyond `limits.reviewTurns` in which a verdict with wrong arguments can be corrected. */
const mending = 2;

/**
 * The next turn of a review that has no verdict yet. A turn costs about as many tokens as the conversation held at the
 * last one. A turn after which none would be left for another must be the verdict.
 */
export const nextReviewTurn = (
  chat: Held,
  usage: Pick<Usage, "inputTokens" | "outputTokens">,
  limits: Pick<Limits, "reviewTurns" | "reviewTokens">,
): ReviewTurn => {
  const replies = chat.said.flatMap((message) => (message.role === "assistant" ? [message] : []));
  const words = replies.filter(({ calls }) => calls.length === 0).length;
  if (words > 1 || replies.length >= limits.reviewTurns + mending) return "over";
  if (replies.at(-1)?.calls.length === 0) return "again";
  const used = usage.inputTokens + usage.outputTokens;
  return replies.length + 1 >= limits.reviewTurns || used + 2 * chat.tokens > limits.reviewTokens ? "judge" : "look";
};
