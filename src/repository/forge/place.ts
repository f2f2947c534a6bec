import type { Address } from "../address.ts";
import type { Credential } from "../credential.ts";
import type { ForgeKind } from "../repository.ts";
import type { ForgePlace } from "./forge.ts";

/** Finds out which forge a repository's host runs, the address of its interface, and the repository's name there. */

const byName: Record<string, ForgeKind> = { "github.com": "github", "gitlab.com": "gitlab" };

export const forgeOf = (
  { scheme, host, port, path }: Address,
  credential: Credential | undefined,
): { kind: ForgeKind; place: Omit<ForgePlace, "token"> } | { problem: string } => {
  if (credential === undefined || credential.kind === "ssh")
    return { problem: "repositories.credentials has no token with which one could be opened" };
  const kind = credential.kind === "app" ? "github" : (credential.forge ?? byName[host]);
  if (kind === undefined)
    return { problem: `nothing says which forge ${host} is: give its entry of repositories.credentials a \`forge\`` };
  const root = `${scheme}://${host}${port === "" ? "" : `:${port}`}`;
  const derived: Record<ForgeKind, string> = {
    github: host === "github.com" ? "https://api.github.com" : `${root}/api/v3`,
    gitlab: `${root}/api/v4`,
    gitea: `${root}/api/v1`,
  };
  const api = (credential.api ?? derived[kind]).replace(/\/$/, "");
  // A forge below a path of its host has that path in both addresses.
  const below = new URL(api).pathname.replace(/\/api(\/.*)?$/, "");
  const own = path.replace(/\.git$/, "");
  const name = (below !== "" && own.startsWith(`${below}/`) ? own.slice(below.length) : own).slice(1);
  const parts = name.split("/").length;
  if (kind === "gitlab" ? parts < 2 : parts !== 2)
    return { problem: `its path is not that of a repository of ${kind}: expected /owner/name, got ${path}` };
  return { kind, place: { api, path: name } };
};
