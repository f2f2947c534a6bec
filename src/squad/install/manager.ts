import type { SquadRef } from "../../domain/agent.ts";
import { ServiceError } from "../../error.ts";
import type { Log } from "../../log.ts";
import { lockName } from "../../store/lock.ts";
import type { SharedPackage, SharedSquads } from "../../store/node.ts";
import { createFiles, FileRefused } from "../../workspace/file/files.ts";
import { type Catalog, isName } from "../catalog/catalog.ts";
import { digestOf, type Issue, placeOf } from "../package/package.ts";
import { parsePackage } from "../package/parse.ts";
import { folderOf, type CatalogEntry } from "../catalog/scope.ts";
import { createSharing, type Sharing, installedDigestOf } from "./share.ts";
import { type Inspect, readSource, type Source } from "./source.ts";
import { createWriter, leftovers, type Writer } from "./writer.ts";

/**
 * Installs, upgrades and removes packages: each is validated completely before anything is written, and each id has one
 * writer at a time.
 */

export type InstallScope = "user" | "project";
export type Checked = { ok: true; found: CatalogEntry } | { ok: false; issues: Issue[] };
export type Installed = { squad: SquadRef; replaced: string | null };

export interface Manager {
  validate(source: Source, scope: InstallScope): Promise<Checked>;
  /**
   * `expected`: the digest of the package to replace; undefined: none. Refuses with `squad_invalid` or `squad_changed`.
   */
  install(source: Source, scope: InstallScope, directory?: string, expected?: string): Promise<Installed>;
  /**
   * Refuses as `install` does if the project has anything under this id but the package itself or the one that it is to
   * replace.
   */
  expectInstallable(squad: Pick<SquadRef, "id" | "digest">, directory: string, expected?: string): Promise<void>;
  /** Refuses with `squad_not_found`, or with `squad_changed` if the package's digest is not `expected`. */
  uninstall(id: string, scope?: InstallScope, directory?: string, expected?: string): Promise<InstallScope>;
  /** Repairs what interrupted writes of a killed service left in the data folder. */
  tidy(): Promise<void>;
  /** Keeps the user scope the same on all nodes of a database; undefined: there are no other nodes. */
  sharing: Pick<Sharing, "follow" | "apart"> | undefined;
}

export type ManagerOptions = {
  catalog: Catalog;
  dataDir: string;
  external: readonly string[];
  servers?: readonly string[];
  inspect: Inspect;
  /** The search path for git. */
  path?: string | undefined;
  /** The packages that the nodes of a database share; undefined: there are no other nodes. */
  shared?: { squads: SharedSquads; log: Log } | undefined;
};

const lockMs = 10_000;

export const createManager = (options: ManagerOptions): Manager => {
  const { catalog, dataDir, external, servers = [], inspect, path, shared } = options;
  const rootOf = async (scope: InstallScope, directory: string | undefined): Promise<string> => {
    if (scope === "user") return createFiles(dataDir).root;
    if (directory !== undefined) return (await inspect(directory)).directory;
    throw new ServiceError(
      "directory_required",
      "Give the project directory for the scope project: `?directory=/abs/path` or header `x-service-directory`.",
    );
  };

  /** Does the work under the lock of one id in one folder of packages, after repairing what a killed write left. */
  const alone = async <T>(
    root: string,
    scope: InstallScope,
    id: string,
    work: (writer: Writer) => Promise<T>,
  ): Promise<T> => {
    using _lock = await lockOf(root, scope, id);
    const writer = createWriter(root, folderOf[scope].split("/"));
    try {
      await writer.settle(id);
      return await work(writer);
    } catch (error) {
      throw refusalOf(error, scope);
    }
  };

  /** Repairs what killed writes left, for every id. Call it without holding a lock, since it takes each id's. */
  const tidy = async (root: string, scope: InstallScope): Promise<void> => {
    const { entries } = await createFiles(root, () => false)
      .list(folderOf[scope])
      .catch(() => ({ entries: [] }));
    const names = entries.map((entry) => entry.path.slice(folderOf[scope].length + 1));
    for (const id of leftovers(names)) await alone(root, scope, id, () => Promise.resolve());
  };

  const check = async (source: Source, scope: InstallScope): Promise<Checked> => {
    const contents = await readSource(source, inspect, path);
    if (!contents.ok) return contents;
    const { files } = contents;
    const parsed = parsePackage(files, { scope, external, servers });
    if (!parsed.ok) return parsed;
    const { squad } = parsed;
    if (await catalog.isBuiltin(squad.id)) {
      const message = `id: Expected an id other than the built-in "${squad.id}"`;
      return { ok: false, issues: [{ file: "squad.json", code: "builtin_id", message }] };
    }
    return { ok: true, found: { squad, scope, digest: digestOf(files), files } };
  };

  const sharing =
    shared === undefined
      ? undefined
      : createSharing({
          ...shared,
          catalog,
          alone: async (id, work) => alone(await rootOf("user", undefined), "user", id, work),
        });
  const sharingOf = (scope: InstallScope) => (scope === "user" ? sharing : undefined);

  /**
   * Shares a new package with the other nodes before it is replaced here: if this service is killed in between, its
   * next start continues with it.
   */
  const publish = async (
    scope: InstallScope,
    id: string,
    before: string | null | undefined,
    after: SharedPackage | null,
  ): Promise<void> => {
    if (before !== undefined && (await sharingOf(scope)?.publish(id, before, after)) === false)
      throw new ServiceError("squad_changed", `Expected nobody else to change "${id}" meanwhile: look at it again.`);
  };

  return {
    validate: check,

    async install(source, scope, directory, expected) {
      const root = await rootOf(scope, directory);
      const checked = await check(source, scope);
      if (!checked.ok) throw invalid(checked.issues);
      const { squad, digest, files = [] } = checked.found;
      await tidy(root, scope);
      const ref: SquadRef = { id: squad.id, version: squad.version, digest, scope };
      return alone(root, scope, squad.id, async (writer) => {
        const common = await sharingOf(scope)?.level(squad.id, writer);
        const standing = installedDigestOf(await catalog.read(scope, squad.id, root));
        // This is also the answer for a caller who repeats a request because the first answer was lost.
        if (standing === digest && (common === undefined || common === digest)) return { squad: ref, replaced: digest };
        if (standing !== digest && standing !== (expected ?? null)) throw changed(squad.id, expected, standing);
        await publish(scope, squad.id, common, { digest, files });
        if (standing !== digest) await writer.put(squad.id, files);
        await sharingOf(scope)?.done(squad.id, digest);
        return { squad: ref, replaced: standing };
      });
    },

    async expectInstallable({ id, digest }, directory, expected) {
      const root = await rootOf("project", directory);
      await tidy(root, "project");
      const standing = installedDigestOf(await catalog.read("project", id, root));
      if (standing !== digest && standing !== (expected ?? null)) throw changed(id, expected, standing);
    },

    async uninstall(id, scope, directory, expected) {
      if (!isName(id)) throw notFound(id);
      if (await catalog.isBuiltin(id))
        throw new ServiceError(
          "invalid_request",
          `Expected a squad of the scope user or project, got "${id}", which is built in or configured.`,
        );
      const scopes: InstallScope[] =
        scope !== undefined ? [scope] : directory === undefined ? ["user"] : ["project", "user"];
      for (const one of scopes) {
        const root = await rootOf(one, directory);
        if (one === "user") await sharing?.follow();
        if ((await catalog.read(one, id, root)) === undefined) continue;
        const removed = await alone(root, one, id, async (writer) => {
          const common = await sharingOf(one)?.level(id, writer);
          const contents = await catalog.read(one, id, root);
          if (contents === undefined) return false;
          const standing = installedDigestOf(contents);
          if (expected !== undefined && standing !== expected) throw changed(id, expected, standing);
          await publish(one, id, common, null);
          await writer.remove(id);
          await sharingOf(one)?.done(id, null);
          return true;
        });
        if (removed) return one;
      }
      throw notFound(id);
    },

    tidy: async () => tidy(await rootOf("user", undefined), "user"),
    sharing,
  };
};

/**
 * A full disk, or a file where the folder should be, is not a bug of the service; the refusal shows no path of the data
 * folder.
 */
const refusalOf = (error: unknown, scope: InstallScope): unknown => {
  if (error instanceof FileRefused) return new ServiceError("directory_invalid", `${error.message}.`);
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (error instanceof ServiceError || typeof code !== "string" || !/^E[A-Z]+$/.test(code)) return error;
  const message = `Expected the squads of the scope ${scope} to be writable, got ${code}. Nothing was changed.`;
  return new ServiceError("store_unavailable", message, { cause: error });
};

const changed = (id: string, expected: string | undefined, standing: string | null | undefined): ServiceError => {
  const wanted = expected === undefined ? `no squad "${id}" here yet (or its digest as expectedDigest)` : expected;
  const got = standing === null ? "none" : (standing ?? "a package that cannot be read; remove it first");
  return new ServiceError("squad_changed", `Expected ${wanted}, got ${got}.`, {
    details: { digest: standing ?? null },
  });
};

/** Also used for an ill-formed id, since no squad has such an id. */
export const notFound = (id: string): ServiceError =>
  new ServiceError(
    "squad_not_found",
    `Expected the id of a squad that is installed here, got ${JSON.stringify(id.slice(0, 80))}.`,
  );

export const invalid = (issues: readonly Issue[]): ServiceError => {
  const [first] = issues;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return new ServiceError(
    "squad_invalid",
    `${first === undefined ? "" : `${placeOf(first)}: ${first.message}`}${more}`,
    {
      issues: issues.map((issue) => ({ path: placeOf(issue), message: issue.message, code: issue.code })),
    },
  );
};

const lockOf = async (root: string, scope: InstallScope, id: string): Promise<Disposable> => {
  const lock = await lockName(`squad ${scope} ${id} ${root}`, lockMs);
  if (lock !== undefined) return lock;
  throw new ServiceError("store_unavailable", `Expected the squad "${id}" to be free, got another change in progress.`);
};
