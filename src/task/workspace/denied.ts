import { relative } from "node:path";
import type { DomainEvent } from "../../domain/event.ts";
import { compileRules, forbiddenWrite, forbidsWrites } from "../../domain/permission/rule.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Commit } from "../../workspace/object/commit.ts";
import { filesContaining } from "../../workspace/object/holding.ts";
import { type Change, changesOf } from "../../workspace/object/tree-change.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { repositoryPlace } from "../repository-place.ts";

/** Checks a Task's change against the permission rules, whatever tool, move or command made it. */

const maxFiles = 100;
const maxPath = 400;

type Denied = EventData["change.denied"]["files"][number];

/** The event that lists the files in the commit that a rule forbids to change; no event when there are none. */
export const deniedIn = async (run: Run, { git, prepared }: Workspace, commit: Commit): Promise<DomainEvent[]> => {
  const rules = compileRules(run.permissions, run.state().projectRules);
  if (git === undefined) return [];
  const { worktree, root } = prepared;
  const fixed = await fetchedAlone(run, prepared, commit);
  const { secrets } = run.environment;
  const hasSecrets = Object.keys(secrets).length > 0;
  if (!forbidsWrites(rules) && fixed.length === 0 && !hasSecrets) return [];
  const changes = await changesOf(git, commit.parent, commit.commit);
  // Rules apply to paths within the project, which may be a folder of the repository.
  const pathOf = ({ path }: Change) => (worktree === null ? path : relative(root, `${worktree}/${path}`));
  const leaked = (await filesContaining(git, changes, secrets)).map(({ change, name }): Denied => {
    const rule = `it holds the secret ${name}; if it is generated, let Git ignore it`;
    return { path: pathOf(change).slice(0, maxPath), rule, origin: "service" };
  });
  const byRule = changes.flatMap((change): Denied[] => {
    const path = pathOf(change);
    const found = forbiddenWrite(rules, path);
    return found === undefined || found.origin === "default"
      ? []
      : [{ path: path.slice(0, maxPath), rule: found.rule, origin: found.origin }];
  });
  const denied = [...fixed, ...leaked, ...byRule];
  if (denied.length === 0) return [];
  const files = denied.slice(0, maxFiles);
  const { commit: id, tree } = commit;
  return [{ type: "change.denied", data: { commit: id, tree, files, more: denied.length - files.length } }];
};

/** Content of submodules and large file storage that was filled in for the Task alone cannot be pushed. */
const fetchedAlone = async (run: Run, { baseCommit }: Workspace["prepared"], { commit }: Commit): Promise<Denied[]> => {
  if (run.state().repository === null || baseCommit === null) return [];
  const names = await run.repositories.unfilled(repositoryPlace(run), { commit, base: baseCommit }, run.signal);
  return "refused" in names
    ? names.refused.map(({ path, why }) => ({ path: path.slice(0, maxPath), rule: why, origin: "service" as const }))
    : [];
};
