import type { Limits } from "../../protocol/limit.ts";
import type { Usage } from "../../protocol/task/status.ts";

/** How many turns a review has, and which of them have to be its verdict. */

export type ReviewTurn =
  /** It may look at files, or judge. */
  | "look"
  /** Its answer was in words, which decide nothing: it is asked for the call, once. */
  | "again"
  /** It has looked as much as it may: it is asked for the call. */
  | "judge"
  /** It was asked for the call and did not make one that holds. */
  | "over";

/** Of its conversation: what was said, and the tokens that its last turn held. */
type Held = {
  said: readonly ({ role: "assistant"; calls: readonly unknown[] } | { role: "user" | "tool" })[];
  tokens: number;
};

/** Turns beyond `limits.reviewTurns` in which a verdict with wrong arguments can be mended. */
const mending = 2;

/**
 * The next turn of a review without a verdict so far. A turn costs about what the conversation held at its last one:
 * the one after which nothing would be left for another has to be the verdict.
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
