import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { repositoryIdentity } from "../domain/state/project.ts";
import { type Address, identityOf, urlOf } from "./address.ts";
import type { RepositoryPlace } from "./repository.ts";

/**
 * The folders of repositories in the data folder: `<name>-<hash>/mirror.git`, and `<name>-<hash>/<ref>-<hash>` with the
 * files of one ref. A record beside each tells a restarted service which repository the directory belongs to.
 */

const slugOf = (text: string): string =>
  text
    .replace(/[^A-Za-z0-9.-]+/g, "-")
    .replace(/^[.-]+|[.-]+$/g, "")
    .slice(0, 40) || "repository";

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

export const createMirrorFolders = (folder: string) => {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const root = realpathSync(folder);
  const known = new Map<string, RepositoryPlace>();

  const placeOf = (address: Address, ref: string | null): RepositoryPlace => {
    const identity = identityOf(address);
    const name = slugOf(identity.slice(identity.lastIndexOf("/") + 1));
    const home = join(root, `${name}-${hashOf(identity).slice(0, 12)}`);
    const files = ref === null ? "head" : `${slugOf(ref)}-${hashOf(ref).slice(0, 8)}`;
    return { url: urlOf(address), ref, identity, mirror: join(home, "mirror.git"), directory: join(home, files) };
  };

  return {
    root,
    placeOf,
    /** Makes the folder and its record, so that callers can name the directory from now on. */
    keep(place: RepositoryPlace): void {
      if (known.has(place.directory) && existsSync(place.directory)) return;
      mkdirSync(place.directory, { recursive: true, mode: 0o700 });
      const record = `${place.directory}.json`;
      writeFileSync(`${record}.tmp`, JSON.stringify({ url: place.url, ref: place.ref }), { mode: 0o600 });
      renameSync(`${record}.tmp`, record);
      known.set(place.directory, place);
    },
    at(directory: string): RepositoryPlace | undefined {
      const path = directory.endsWith("/") ? directory.slice(0, -1) : directory;
      if (dirname(dirname(path)) !== root) return undefined;
      const before = known.get(path);
      if (before !== undefined) return before;
      try {
        const { url, ref } = JSON.parse(readFileSync(`${path}.json`, "utf8")) as Pick<RepositoryPlace, "url" | "ref">;
        const identity = repositoryIdentity(url);
        const place = { url, ref, identity, mirror: join(dirname(path), "mirror.git"), directory: path };
        known.set(path, place);
        return place;
      } catch {
        return undefined;
      }
    },
  };
};
