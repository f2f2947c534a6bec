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
      return `proves the change: ${run} was red on the base, and is green with it`;
    case "same":
      return `shows no difference: ${run} is green on the base, too`;
    case "cannot-run":
      return `cannot tell: ${run} on the base: ${reason ?? "not run"}`;
  }
};
