import { ForgeRefused, type Proposal, type PullRequest } from "../repository.ts";
import type { Forge, Found } from "./forge.ts";

/**
 * Opens the pull request of a branch, or updates the one that exists. The branch is looked up first, and again if the
 * forge says that there is one: neither a call that was cut off nor another service that was quicker leads to a second
 * one.
 */
export const propose = async (
  forge: Forge,
  base: string,
  { ref, commit, ended, title, body, draft, labels }: Proposal & { draft: boolean; labels: readonly string[] },
  /** Called if the forge does not have the labels, or does not set them: the pull request is there without them. */
  unlabelled: (error: unknown) => void,
  signal: AbortSignal,
): Promise<PullRequest> => {
  const branch = ref.replace(/^refs\/heads\//, "");
  const shown = ({ url, number, state }: PullRequest): PullRequest => ({ url, number, state });
  const labelled = async (opened: Found): Promise<PullRequest> => {
    if (labels.length > 0) await forge.label(opened.number, labels, signal).catch(unlabelled);
    return shown(opened);
  };
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const found = await forge.find(branch, base, signal);
    if (found?.state === "open")
      return labelled(await forge.update(found.number, { title, body, draft: found.draft }, signal));
    // The service opened it, and somebody else ended it, before it could be recorded: there is nothing left to propose.
    if (found?.head === commit && found.number !== ended) return shown(found);
    const opened = await forge.open({ title, body, draft, branch, base }, signal);
    if (opened !== "exists") return labelled(opened);
  }
  throw new ForgeRefused(409, `the forge says that ${branch} has a pull request, but lists none`);
};
