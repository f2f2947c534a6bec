import { hash } from "node:crypto";
import { loadOnce } from "../../async/load-once.ts";
import { packageRoot } from "../../package-root.ts";
import { createFiles, type Files } from "../../workspace/file/files.ts";
import { findExternal } from "./external-agent.ts";
import type { Contents } from "../package/folder.ts";
import { packageLimits } from "../package/manifest.ts";
import { digestOf, type Issue, type PackageFile } from "../package/package.ts";
import { type Parsed, parsePackage } from "../package/parse.ts";
import { type CatalogEntry, readPackage, type ScopedIssue, type ScopeScan, scanScope } from "./scope.ts";
import type { Scope } from "../squad.ts";

/**
 * Which squads a project sees. Packages are in three scopes: the product's own, the data folder's, and the project's
 * `.sortie/squads`. A broken package is reported as an issue and does not hide others.
 */

export type Scan = {
  /** Scanned completely, without any issue. */
  healthy: boolean;
  complete: boolean;
  /** Changes whenever a package or an issue changes. */
  revision: string;
  squads: CatalogEntry[];
  issues: ScopedIssue[];
  warnings: ScopedIssue[];
};

export interface Catalog {
  /** The squad that an id means in a project; without a directory, only squads that every project sees. */
  find(id: string, directory?: string): Promise<CatalogEntry | undefined>;
  scan(directory?: string): Promise<Scan>;
  /** One package of one scope, even if another scope's squad takes precedence; undefined: there is none. */
  read(scope: "user" | "project", id: string, directory?: string): Promise<Contents | undefined>;
  /** Whether the product or the configuration has a squad with this id. */
  isBuiltin(id: string): Promise<boolean>;
}

export type CatalogOptions = {
  /** undefined: the user scope is empty. */
  dataDir: string | undefined;
  external: readonly string[];
  /** Names of the operator's MCP servers. */
  servers?: readonly string[];
  /** The folder that holds the product's own `squads`. */
  product?: string;
};

/** Whether a package may have this id. */
export const isName = (id: string): boolean => /^[a-z0-9-]{1,64}$/.test(id);

const empty: ScopeScan = { found: [], issues: [], warnings: [], complete: true };

export const createCatalog = ({ dataDir, external, servers = [], product = packageRoot }: CatalogOptions): Catalog => {
  const filesOf = (scope: Scope, directory: string | undefined): Files | undefined => {
    const root = { builtin: product, user: dataDir, project: directory }[scope];
    return root === undefined ? undefined : createFiles(root, () => false);
  };

  const parse = createParse(external, servers);
  const open = (scope: Scope, contents: Contents): CatalogEntry | Issue[] => {
    if (!contents.ok) return contents.issues;
    const { files } = contents;
    const digest = digestOf(files);
    const parsed = parse(scope, digest, files);
    return parsed.ok ? { squad: parsed.squad, scope, digest, files } : parsed.issues;
  };

  const scanOf = async (scope: Scope, directory: string | undefined): Promise<ScopeScan> => {
    const files = filesOf(scope, directory);
    return files === undefined ? empty : scanScope(files, scope, (contents) => open(scope, contents));
  };

  /** The product's squads do not change, so they are read only once, and again only if some could not be read. */
  const builtins = loadOnce(
    () => scanOf("builtin", undefined),
    ({ found, issues }) => found.length > 0 && issues.length === 0,
  );
  const externals = external.map(findExternal);

  const read: Catalog["read"] = async (scope, id, directory) => {
    const files = filesOf(scope, directory);
    return files === undefined ? undefined : readPackage(files, scope, id);
  };

  return {
    read,

    async isBuiltin(id) {
      return [...(await builtins()).found, ...externals].some(({ squad }) => squad.id === id);
    },

    async find(id, directory) {
      const own = [...(await builtins()).found, ...externals].find(({ squad }) => squad.id === id);
      if (own !== undefined || !isName(id)) return own;
      for (const scope of ["project", "user"] as const) {
        const contents = await read(scope, id, directory);
        const opened = contents === undefined ? [] : open(scope, contents);
        if (!Array.isArray(opened) && opened.squad.id === id) return opened;
      }
      return undefined;
    },

    async scan(directory) {
      const own = await builtins();
      const user = await scanOf("user", undefined);
      const project = await scanOf("project", directory);
      return together([own, user, project], [...own.found, ...externals, ...project.found, ...user.found]);
    },
  };
};

/** `ranked`: of squads with the same id, the first one counts. */
const together = (parts: readonly ScopeScan[], ranked: readonly CatalogEntry[]): Scan => {
  const issues = parts.flatMap((part) => part.issues);
  const warnings = parts.flatMap((part) => part.warnings);
  const squads = new Map<string, CatalogEntry>();
  for (const found of ranked) {
    const { squad, scope } = found;
    const first = squads.get(squad.id);
    const at = { scope, squad: squad.id, file: "squad.json" };
    if (first === undefined) squads.set(squad.id, found);
    else if (first.scope === "project")
      warnings.push({ ...at, code: "shadowed", message: "The project's squad with this id overrides it here" });
    else issues.push({ ...at, code: "builtin_id", message: `Expected an id other than the built-in "${squad.id}"` });
  }
  const complete = parts.every((part) => part.complete);
  const facts = ranked.map(({ squad, scope, digest }) => [scope, squad.id, digest]);
  return {
    healthy: complete && issues.length === 0,
    complete,
    revision: hash("sha256", JSON.stringify([facts, issues, warnings]), "hex").slice(0, 16),
    squads: [...squads.values()].toSorted((one, next) => (one.squad.id < next.squad.id ? -1 : 1)),
    issues,
    warnings,
  };
};

/** Parses each package once; the cache is bounded by the size limit of one scope. */
const createParse = (external: readonly string[], servers: readonly string[]) => {
  const known = new Map<string, Parsed>();
  let bytes = 0;
  return (scope: Scope, digest: string, files: readonly PackageFile[]): Parsed => {
    const key = `${scope} ${digest}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    bytes += files.reduce((sum, file) => sum + file.bytes.length, 0);
    if (bytes > packageLimits.scopeBytes) {
      known.clear();
      bytes = 0;
    }
    const parsed = parsePackage(files, { scope, external, servers });
    known.set(key, parsed);
    return parsed;
  };
};
