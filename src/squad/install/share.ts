import type { Log } from "../../log.ts";
import type { SharedPackage, SharedSquads } from "../../store/node.ts";
import { type Catalog, isName, type Scan } from "../catalog/catalog.ts";
import type { Contents } from "../package/folder.ts";
import { checkListed, digestOf, type PackageFile } from "../package/package.ts";
import type { Writer } from "./writer.ts";

/**
 * Keeps the packages of the user scope the same on all nodes of a database. Each node has them as files in its data
 * folder; the database has the newest version of each. A package that is installed on one node, or copied into its
 * folder by hand, is installed on the others. A package that was changed on two nodes stays as it is on both until
 * somebody chooses.
 */

/**
 * What to do about one package: `apply` the shared one, `publish` the local one, or nothing, because both are the
 * `same` or because both changed (`apart`). `here`: the digest of the package in the data folder; null: there is none;
 * undefined: it is broken. `seen`: the digest that both last had in common. `shared`: null: the package was removed;
 * undefined: it was never shared.
 */
export const syncStepOf = ({
  here,
  seen,
  shared,
}: {
  here: string | null | undefined;
  seen: string | null;
  shared: string | null | undefined;
}): "same" | "apply" | "publish" | "apart" => {
  if (shared === undefined) return typeof here === "string" ? "publish" : "same";
  if (here === shared) return "same";
  // A folder that was removed by hand comes back: only `sortie squad remove` removes a package from all nodes.
  if (here === null || here === seen) return "apply";
  return here !== undefined && shared === seen ? "publish" : "apart";
};

/** The digest of the installed package; null: none is installed; undefined: it is broken and has no digest. */
export const installedDigestOf = (contents: Contents | undefined): string | null | undefined =>
  contents === undefined ? null : contents.ok ? digestOf(contents.files) : undefined;

export interface Sharing {
  /**
   * Brings the packages here in line with those that the nodes share. Resolves to the scan it made if nothing had to be
   * changed. Rejects with `store_unavailable`.
   */
  follow(): Promise<Scan | undefined>;
  /** The packages that were changed on two nodes. */
  apart(): ReadonlySet<string>;
  /**
   * Does the same for one package, whose lock the caller holds. Resolves to the digest that is then shared; null: none.
   */
  level(id: string, writer: Writer): Promise<string | null>;
  /**
   * Has all nodes replace or remove a package; false: another node was quicker. The caller updates the data folder of
   * this node.
   */
  publish(id: string, before: string | null, after: SharedPackage | null): Promise<boolean>;
  /** Reports that the data folder now has what was published. */
  done(id: string, digest: string | null): Promise<void>;
}

type Deps = {
  squads: SharedSquads;
  catalog: Pick<Catalog, "scan" | "read">;
  /** Does the work under a package's lock. */
  alone: <T>(id: string, work: (writer: Writer) => Promise<T>) => Promise<T>;
  log: Log;
};

export const createSharing = ({ squads: shared, catalog, alone, log }: Deps): Sharing => {
  const apart = new Set<string>();
  const damaged = new Set<string>();

  const take = async (id: string, writer: Writer, isHere: boolean): Promise<void> => {
    const found = await shared.read(id);
    if (found === undefined) {
      if (isHere) await writer.remove(id);
      return shared.note(id, null);
    }
    if (!isPackage(found.files) || digestOf(found.files) !== found.digest) {
      if (!damaged.has(id)) log.error({ squad: id }, "the package that the nodes share is damaged: install it again");
      damaged.add(id);
      return undefined;
    }
    await writer.put(id, found.files);
    log.info({ squad: id, digest: found.digest }, "a squad that another node installed is installed here, too");
    return shared.note(id, found.digest);
  };

  const level: Sharing["level"] = async (id, writer) => {
    const { digest, seen = null } = (await shared.list()).get(id) ?? {};
    const contents = await catalog.read("user", id);
    const here = installedDigestOf(contents);
    const step = syncStepOf({ here, seen, shared: digest });
    if (step === "apart" && !apart.has(id))
      log.warn(
        { squad: id, here, shared: digest },
        "a squad was changed here and on another node: install the one that is wanted, or remove its folder here for the other one",
      );
    if (step === "apart") apart.add(id);
    else apart.delete(id);
    if (step === "apply") await take(id, writer, here !== null);
    if (step === "same" && digest !== undefined && seen !== digest) await shared.note(id, digest);
    if (step === "publish" && typeof here === "string" && contents?.ok === true) {
      if (await shared.replace(id, digest ?? null, { digest: here, files: contents.files }))
        await shared.note(id, here);
      else return (await shared.list()).get(id)?.digest ?? null;
      return here;
    }
    return digest ?? null;
  };

  return {
    level,

    async follow() {
      // An entry whose name no package can have is ignored.
      const known = new Map([...(await shared.list())].filter(([id]) => isName(id)));
      const seenHere = await catalog.scan();
      const { squads, issues, complete } = seenHere;
      // If not everything could be read, it is unknown which packages are missing.
      if (!complete) return seenHere;
      let isLevel = true;
      const here = new Map(
        squads.flatMap(({ squad, scope, digest, files }) =>
          scope === "user" && files !== undefined ? [[squad.id, digest] as const] : [],
        ),
      );
      const broken = new Set(issues.flatMap(({ scope, squad }) => (scope === "user" ? [squad] : [])));
      for (const id of new Set([...known.keys(), ...here.keys()])) {
        if (broken.has(id)) {
          if (known.get(id)?.digest != null) apart.add(id);
          continue;
        }
        const { digest, seen = null } = known.get(id) ?? {};
        const step = syncStepOf({ here: here.get(id) ?? null, seen, shared: digest });
        if (step === "same" && (digest === undefined || seen === digest) && !apart.has(id)) continue;
        isLevel = false;
        await alone(id, (writer) => level(id, writer));
      }
      return isLevel ? seenHere : undefined;
    },

    apart: () => apart,

    publish: (id, before, after) => shared.replace(id, before, after),

    async done(id, digest) {
      apart.delete(id);
      await shared.note(id, digest);
    },
  };
};

/**
 * Whether the files may be those of a package. The database is written by all nodes, and by anything else that has
 * access.
 */
const isPackage = (files: readonly PackageFile[]): boolean =>
  files.length > 0 &&
  checkListed(files.map(({ path, bytes }) => ({ path, kind: "file", bytes: bytes.length }))).length === 0;

/** A catalog that first follows what all nodes have installed. */
export const syncedCatalog = (catalog: Catalog, sharing: Pick<Sharing, "follow"> | undefined): Catalog =>
  sharing === undefined
    ? catalog
    : {
        ...catalog,
        async scan(directory) {
          const found = await sharing.follow();
          return directory === undefined && found !== undefined ? found : catalog.scan(directory);
        },
        async find(id, directory) {
          const found = await catalog.find(id, directory);
          if (found !== undefined || !isName(id)) return found;
          await sharing.follow();
          return catalog.find(id, directory);
        },
      };
