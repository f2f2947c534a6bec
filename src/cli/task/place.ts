import { createInterface } from "node:readline/promises";
import type { ProjectPlace } from "../../protocol/task/board.ts";
import { connect, dataOf, type Target } from "../connection.ts";
import { clean } from "../terminal/format.ts";
import { Exit, exit } from "../terminal/exit.ts";
import type { Screen } from "../terminal/screen.ts";

/** The commands that create a commit, from which the service can make worktrees. */
const remedies: Record<NonNullable<ProjectPlace["because"]>, string> = {
  no_git: 'git init\n  git add --all && git commit -m "Start"',
  no_commit: 'git add --all\n  git commit -m "Start"',
};

const reasons: Record<NonNullable<ProjectPlace["because"]>, string> = {
  no_git: "is not a Git repository",
  no_commit: "has no commits yet",
};

/**
 * Throws unless the Task may work in the place where it would: in a worktree, or in the files themselves because the
 * caller said so. At a terminal it asks for consent, except for repository work, where that is not enough.
 */
export const checkPlace = async (
  target: Target,
  { pillar, inPlace }: { pillar: "code" | "work"; inPlace?: true },
  screen: Screen,
): Promise<void> => {
  if (inPlace) return;
  const place = dataOf(await connect(target).project.get(), target.url);
  if (place.because === null) return;
  const why = `${clean(place.directory)} ${reasons[place.because]}: the Task would edit your files directly, and its edits could not be undone.`;
  if (pillar === "code")
    throw new Exit(
      exit.usage,
      `${why} To have it work on a copy, first run:\n\n  ${remedies[place.because]}\n\nTo edit the files directly, pass --in-place.`,
    );
  screen.say(why);
  if (!screen.rich || !process.stdin.isTTY) return;
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  const said = await asking.question("Work there? [y/N] ");
  asking.close();
  if (!/^y(?:es)?$/i.test(said.trim())) throw new Exit(exit.usage, "Nothing was created.");
};
