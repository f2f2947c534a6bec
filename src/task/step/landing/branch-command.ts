/** What a person types to take work that did not land. The branch has one commit on top of its base. */

export const cherryPickCommand = (branch: string | null): string => `git cherry-pick ${branch}`;

/** Applies the change to the files only, next to uncommitted changes. */
export const takeBranchCommand = (branch: string | null): string =>
  `git diff --binary ${branch}^ ${branch} | git apply`;
