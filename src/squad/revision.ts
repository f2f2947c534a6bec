import { hash } from "node:crypto";
import { ServiceError } from "../error.ts";
import { didYouMean } from "../nearest.ts";
import type { Blobs } from "../store/store.ts";
import type { Catalog } from "./catalog/catalog.ts";
import { decode, encode, placeOf } from "./package/package.ts";
import { parsePackage } from "./package/parse.ts";
import type { Squad, Squads } from "./squad.ts";
import { snapshotOf, plain } from "./package/snapshot.ts";

/** Pins Tasks to revisions of squads, and loads those revisions by digest. */

/** How many revisions are cached in memory, because every run of a Task loads its own. */
const keptInMemory = 64;

export const createSquads = (blobs: Blobs, catalog: Pick<Catalog, "find" | "scan">): Squads => {
  const loaded = new Map<string, Squad>();
  const keep = (digest: string, squad: Squad): Squad => {
    const [oldest] = loaded.size >= keptInMemory ? loaded.keys() : [];
    if (oldest !== undefined) loaded.delete(oldest);
    loaded.set(digest, squad);
    return squad;
  };
  return {
    async pin(id, directory) {
      const found = await catalog.find(id, directory);
      if (found === undefined) throw await notAvailable(catalog, id, directory);
      const { squad, scope, digest, files } = found;
      await blobs.put(files === undefined ? snapshotOf(squad) : encode(files), true);
      keep(digest, squad);
      return { id: squad.id, version: squad.version, digest, scope };
    },
    async load(ref) {
      const known = loaded.get(ref.digest);
      if (known !== undefined) return known;
      const bytes = await blobs.get(ref.digest);
      const lost = (what: string) =>
        new Error(`The snapshot of squad ${ref.id} ${ref.version} (${ref.digest}) ${what}.`);
      if (bytes === undefined) throw lost("is gone");
      if (hash("sha256", bytes, "hex") !== ref.digest) throw lost("was changed");
      const files = decode(bytes);
      if (files === undefined) return keep(ref.digest, plainSquad(bytes));
      const parsed = parsePackage(files);
      if (!parsed.ok) throw lost(`cannot be read by this version: ${parsed.issues[0]?.message}`);
      return keep(ref.digest, parsed.squad);
    },
  };
};

type Old = Omit<Squad, "notFor" | "owns" | "skills">;

const plainSquad = (bytes: Buffer): Squad => {
  const squad = JSON.parse(bytes.toString("utf8").slice(plain.length)) as Old & Partial<Squad>;
  return { notFor: "", owns: { domains: [], phases: [] }, skills: [], ...squad };
};

const notAvailable = async (
  catalog: Pick<Catalog, "scan">,
  id: string,
  directory: string | undefined,
): Promise<ServiceError> => {
  const { squads, issues } = await catalog.scan(directory);
  const broken = issues.find(({ squad }) => squad === id);
  const why = broken === undefined ? "" : `, whose package is broken (${placeOf(broken)}: ${broken.message})`;
  return new ServiceError(
    "squad_not_available",
    `Expected promptProfile to be an installed squad (${squads.map(({ squad }) => squad.id).join(", ")}), got ${JSON.stringify(id)}${why}.${didYouMean(
      id,
      squads.map(({ squad }) => squad.id),
    )}`,
  );
};
