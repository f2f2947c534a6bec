import type { Goal } from "../../protocol/task/status.ts";

/** A proof by contrast in one sentence. */
export const contrastWords = ({
  result,
  command,
  reason,
}: NonNullable<Goal["evidence"][number]["contrast"]>): string => {
  const run = command === null ? "the tests that it changes" : `\`${command}\``;
  switch (result) {
    case "proves":
      return `proves the change: ${run} failed on the base, and passes with the change`;
    case "same":
      return `shows no difference: ${run} also passes on the base`;
    case "cannot-run":
      return `cannot tell: ${run} on the base: ${reason ?? "not run"}`;
  }
};
