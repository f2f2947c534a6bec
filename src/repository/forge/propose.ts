import { ForgeRefused, type Proposal, type PullRequest } from "../repository.ts";
import type { Forge } from "./forge.ts";

/**
 * Opens the pull request of a branch, or brings the one that is there up to date. The branch is asked for first and again
 * where the forge says that there is one: a call that was cut off, and another that was quicker, never make a second one.
 */
export const propose = async (
  forge: Forge,
  base: string,
  { ref, commit, ended, title, body }: Proposal,
  signal: AbortSignal,
): Promise<PullRequest> => {
  const branch = ref.replace(/^refs\/heads\//, "");
  const shown = ({ url, number, state }: PullRequest): PullRequest => ({ url, number, state });
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const found = await forge.find(branch, base, signal);
    if (found?.state === "open") return shown(await forge.update(found.number, { title, body }, signal));
    // Opened by us and ended by somebody else, before it could be recorded: there is nothing left to propose.
    if (found?.head === commit && found.number !== ended) return shown(found);
    const opened = await forge.open({ title, body, branch, base }, signal);
    if (opened !== "exists") return shown(opened);
  }
  throw new ForgeRefused(409, `the forge says that ${branch} has a pull request, and shows none`);
};
