import type { ProjectPlace } from "../../../src/protocol/task/board.ts";

/** Asks for consent before a Task works directly in files that the service cannot make a worktree of. */

const reasons: Record<NonNullable<ProjectPlace["because"]>, string> = {
  no_git: "This folder is not a Git repository.",
  no_commit: "This repository has no commits yet.",
};

const commands: Record<NonNullable<ProjectPlace["because"]>, readonly [string, string]> = {
  no_git: ["git init", 'git add --all && git commit -m "Start"'],
  no_commit: ["git add --all", 'git commit -m "Start"'],
};

export const InPlace = ({
  because,
  agreed,
  onAgree,
}: {
  because: NonNullable<ProjectPlace["because"]>;
  agreed: boolean;
  onAgree: (agreed: boolean) => void;
}) => (
  <div role="group" aria-label="Where it works" className="mx-4 mb-2 rounded-lg bg-need-tint px-3 py-2 text-sm">
    <p>
      {reasons[because]} The Task would edit your files directly, and its edits cannot be undone. To have it work on a
      copy, first run <code className="typed">{commands[because][0]}</code> and{" "}
      <code className="typed">{commands[because][1]}</code>.
    </p>
    <label className="mt-2 flex items-center gap-2 font-medium">
      <input type="checkbox" checked={agreed} onChange={({ target }) => onAgree(target.checked)} />
      Work in place
    </label>
  </div>
);
