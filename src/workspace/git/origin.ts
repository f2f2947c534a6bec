import { existsSync } from "node:fs";
import { join } from "node:path";
import { settingsIn } from "./answer.ts";
import { refOf, repositoryOf } from "./repository.ts";

/**
 * Finds out where a clone comes from: reads its settings and refs as text, without a process. The result is not
 * trusted: an address counts only if the operator allows it.
 */

/**
 * `branch`: the remote's branch that the clone's branch follows; null: not known. `shallow`: the clone's history is cut
 * off.
 */
export type Origin = { url: string; branch: string | null; shallow: boolean };

/** `branch`: full name of the branch that is checked out. undefined: the clone has no remote. */
export const originOf = (toplevel: string, branch: string): Origin | undefined => {
  const found = repositoryOf(toplevel);
  if (found === undefined) return undefined;
  const name = branch.replace(/^refs\/heads\//, "");
  const last = (section: string, of: string, key: RegExp) =>
    settingsIn(found.config, { test: (header) => header === `${section} "${quoted(of)}"` }, key).at(-1);
  const follows = last("branch", name, /^remote$/i);
  const remote = follows === undefined || follows === "." ? "origin" : follows;
  const url = last("remote", remote, /^url$/i);
  if (url === undefined) return undefined;
  const merged =
    remote === follows ? /^refs\/heads\/(.+)$/.exec(last("branch", name, /^merge$/i) ?? "")?.[1] : undefined;
  const tracked = refOf(found.commonDir, `refs/remotes/${remote}/${name}`) === null ? null : name;
  return { url, branch: merged ?? tracked, shallow: existsSync(join(found.commonDir, "shallow")) };
};

const quoted = (name: string): string => name.replaceAll(/["\\]/g, "\\$&");
