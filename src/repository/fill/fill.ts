import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf, ServiceError } from "../../error.ts";
import type { Git } from "../../workspace/git/git.ts";
import { refOf } from "../../workspace/git/repository.ts";
import { createCommitReader, listCommitFiles, type TrackedFile } from "../../workspace/object/commit-file.ts";
import { setRef } from "../../workspace/object/ref.ts";
import { type Address, identityOf, urlOf } from "../address.ts";
import type { Remote } from "../credential.ts";
import { hasCommit } from "../exchange.ts";
import { RepositoryAway, type RepositoryPlace } from "../repository.ts";
import { type Entry, type IndexFile, openIndex } from "./index-file.ts";
import { fetchLarge, type LfsOptions } from "./lfs.ts";
import { longestPointer, parsePointer, type Pointer } from "./pointer.ts";
import { onSameHost, submoduleAddress, submodulesIn } from "./submodule.ts";

/**
 * Fills in what a commit only names: the files of its submodules, and those in large file storage. The result is
 * another commit on top of it, made of objects of the mirror, so that the place of its files needs no program, filter
 * or setting of the repository. Tasks begin from that commit; `names.ts` undoes it before anything is pushed.
 */

export type FillSettings = { lfs: boolean | "same-host"; submodules: boolean | "same-host" };

export type FillOptions = {
  git: Git;
  settings: FillSettings;
  /** The remote of an address. Throws `repository_not_allowed`. */
  remoteOf(of: { url: string }): Remote;
  /** Fetches refs of another remote into the mirror. */
  fetch(remote: Remote, url: string, refs: readonly string[], signal: AbortSignal): Promise<void>;
  /** Rejects if the mirror would take more than it may with `bytes` added. */
  expectRoom(bytes: number): Promise<void>;
  /**
   * Limit for all files together, as on the disk: a commit of some kilobytes may name one large blob a thousand times.
   */
  mostBytes: number;
  lfs: Omit<LfsOptions, "sameHost">;
};

const deepest = 5;
const mostSubmodules = 100;
/** Bytes of one `.gitattributes`; honest ones have some kilobytes. */
const attributesBytes = 1024 * 1024;

const ofRef = (commit: string): string => `refs/sortie/of/${commit}`;

/** The remote's own commit that a filled one stands for; null: the commit is not a filled one. */
export const filledFrom = (mirror: string, commit: string): string | null => refOf(mirror, ofRef(commit)) ?? null;

/**
 * Resolves to the commit that the work begins from: the given one, if nothing in it needs to be filled in. Rejects with
 * `repository_unsupported` if it needs something that the operator did not turn on, and with `RepositoryAway`.
 */
export const fillIn = async (
  place: RepositoryPlace,
  commit: string,
  options: FillOptions,
  signal: AbortSignal,
): Promise<string> => {
  const { git, settings } = options;
  const kept = `refs/sortie/filled/${settings.lfs}-${settings.submodules}/${commit}`;
  const before = refOf(place.mirror, kept);
  if (before != null) return before;
  const count = { submodules: 0, bytes: 0 };
  const address = options.remoteOf(place).address;
  const { tree, large } = await treeOf({ place, address, commit, depth: 0, count }, options, signal);
  const refs = { commonDir: place.mirror, git };
  const own = (await git.run(["rev-parse", `${commit}^{tree}`])).stdout.toString("latin1").trim();
  const filled = tree === own ? commit : await commitOn(git, commit, tree);
  // Recorded also if nothing is filled in yet but the commit has rules for large file storage: a Task may add files
  // that belong there.
  if (filled !== commit || large) await setRef(refs, ofRef(filled), commit);
  await setRef(refs, kept, filled);
  return filled;
};

type Part = {
  place: RepositoryPlace;
  address: Address;
  commit: string;
  depth: number;
  count: { submodules: number; bytes: number };
};

/** Counts files of a commit. Throws `repository_unsupported` if all together take more than they may. */
const expectFits = ({ place, count }: Part, files: readonly { bytes: number }[], { mostBytes }: FillOptions): void => {
  for (const { bytes } of files) count.bytes += bytes;
  if (count.bytes > mostBytes)
    throw new ServiceError(
      "repository_unsupported",
      `Expected the files of ${place.url} to take at most ${mostBytes} bytes (repositories.mirrorBytes), got ${count.bytes}.`,
    );
};

/** The tree of a commit with everything filled in. `large`: it has files, or rules for files, in large file storage. */
const treeOf = async (
  part: Part,
  options: FillOptions,
  signal: AbortSignal,
): Promise<{ tree: string; large: boolean }> => {
  const { git, settings, lfs } = options;
  const { address, commit } = part;
  const refuse = (wanted: string, got: string) =>
    new ServiceError("repository_unsupported", `Expected ${urlOf(address)} ${wanted}, got ${got}.`);
  const files = await listCommitFiles(git, commit, "", signal);
  expectFits(
    part,
    files.map(({ bytes = 0 }) => ({ bytes })),
    options,
  );
  const linked = files.filter(({ mode }) => mode === "160000");
  const large = await namesLarge(git, files, refuse, signal);
  if (linked.length > 0 && settings.submodules === false)
    throw refuse("without submodules (repositories.submodules in config.jsonc is off)", "a tree with at least one");
  if (large !== undefined && settings.lfs === false)
    throw refuse("without Git LFS files (repositories.lfs in config.jsonc is off)", `${large} with filter=lfs`);
  using index = await openIndex(git, commit, lfs.folder, signal);
  if (large !== undefined) await index.set(await largeEntries(part, files, index, options, signal));
  const urls = linked.length === 0 ? new Map<string, string>() : await submodulesIn(git, commit);
  for (const { path, object } of linked) {
    const url = urls.get(path);
    if (url === undefined) throw refuse("to name the address of each submodule", `none for ${path} in .gitmodules`);
    const tree = await submoduleTree({ ...part, commit: object }, { path, url }, options, signal);
    await index.set([{ path, mode: "0", object: null }]);
    await index.run(["read-tree", `--prefix=${path}/`, tree]);
  }
  return { tree: await index.write(), large: large !== undefined };
};

/** The path of a file with rules for large file storage; undefined: there is none. */
const namesLarge = async (
  git: Git,
  files: readonly TrackedFile[],
  refuse: (wanted: string, got: string) => ServiceError,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const attributes = files.filter(({ path }) => path === ".gitattributes" || path.endsWith("/.gitattributes"));
  using reader = createCommitReader(git, attributes, signal);
  for (const file of attributes) {
    const content = await reader.read(file, attributesBytes);
    if (content.kind !== "bytes")
      throw refuse(`with .gitattributes of at most ${attributesBytes} bytes`, `${file.path} of ${file.bytes}`);
    if (/^[^#\n]*\bfilter=lfs\b/m.test(content.bytes.toString("utf8"))) return file.path;
  }
  return undefined;
};

/** The entries that replace each pointer by its content. */
const largeEntries = async (
  part: Part,
  files: readonly TrackedFile[],
  index: IndexFile,
  options: FillOptions,
  signal: AbortSignal,
): Promise<Entry[]> => {
  const { git, settings } = options;
  const { place, address } = part;
  const small = files.filter(({ mode, bytes = 0 }) => mode.startsWith("100") && bytes > 0 && bytes <= longestPointer);
  const named = await index.large(small.map(({ path }) => path));
  const asked = small.filter(({ path }) => named.has(path));
  using reader = createCommitReader(git, asked, signal);
  const pointers: (TrackedFile & Pointer)[] = [];
  for (const file of asked) {
    const content = await reader.read(file, longestPointer);
    const pointer = content.kind === "bytes" ? parsePointer(content.bytes.toString("latin1")) : undefined;
    if (pointer !== undefined) pointers.push({ ...file, ...pointer });
  }
  expectFits(
    part,
    pointers.map(({ size }) => ({ bytes: size })),
    options,
  );
  // Kept beside the mirror, so that each file is fetched only once.
  const known = join(place.mirror, "..", "large");
  const at = (oid: string) => join(known, oid);
  const missing = [...new Map(pointers.map(({ oid, size }) => [oid, { oid, size }])).values()].filter(
    ({ oid }) => !existsSync(at(oid)),
  );
  if (missing.length > 0) {
    await options.expectRoom(missing.reduce((sum, { size }) => sum + size, 0));
    const remote = options.remoteOf({ url: urlOf(address) });
    const lfs = { ...options.lfs, sameHost: settings.lfs === "same-host" };
    const fetched = await fetchLarge(git, remote, missing, lfs, signal);
    mkdirSync(known, { recursive: true, mode: 0o700 });
    for (const [oid, object] of fetched) writeFileSync(at(oid), object, { mode: 0o600 });
  }
  return pointers.map(({ path, mode, oid }) => ({ path, mode, object: readFileSync(at(oid), "latin1") }));
};

/** The tree of a submodule's commit, itself filled in. */
const submoduleTree = async (
  part: Part,
  { path, url }: { path: string; url: string },
  options: FillOptions,
  signal: AbortSignal,
): Promise<string> => {
  const { place, address, commit, depth, count } = part;
  const { git, settings } = options;
  const called = `The submodule ${JSON.stringify(path.toWellFormed().slice(0, 200))} of ${urlOf(address)}`;
  const refuse = (why: string) => new ServiceError("repository_unsupported", `${called} ${why}.`);
  if (depth >= deepest) throw refuse(`is nested deeper than ${deepest}`);
  count.submodules += 1;
  if (count.submodules > mostSubmodules) throw refuse(`is one of more than ${mostSubmodules}`);
  let remote: Remote;
  try {
    remote = options.remoteOf({ url: urlOf(submoduleAddress(address, url)) });
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    throw new ServiceError(error.code, `${called} cannot be fetched: ${messageOf(error)}`);
  }
  if (settings.submodules === "same-host" && !onSameHost(remote.address, address))
    throw refuse(
      `is on another host, ${remote.address.host}, which repositories.submodules "same-host" does not allow`,
    );
  const kept = `refs/submodules/${createHash("sha256").update(identityOf(remote.address)).digest("hex").slice(0, 16)}`;
  if (!(await isOn(git, commit, kept))) {
    const refs = [`+refs/heads/*:${kept}/heads/*`, `+refs/tags/*:${kept}/tags/*`];
    await options.fetch(remote, urlOf(remote.address), refs, signal).catch((error: unknown) => {
      if (!(error instanceof RepositoryAway)) throw error;
      const { lasting, retryAfterMs } = error;
      throw new RepositoryAway(`${called} could not be fetched: ${error.message}`, {
        cause: error,
        lasting,
        retryAfterMs,
      });
    });
    if (!(await isOn(git, commit, kept)))
      throw refuse(`is at ${commit}, which is on no branch or tag of ${urlOf(remote.address)}`);
  }
  const next = { place, address: remote.address, commit, depth: depth + 1, count };
  return (await treeOf(next, options, signal)).tree;
};

/** Whether a commit is on a ref below this name; other objects in the mirror belong to other repositories. */
const isOn = async (git: Git, commit: string, refs: string): Promise<boolean> => {
  if (!(await hasCommit(git, commit))) return false;
  const args = ["for-each-ref", "--count=1", "--format=%(refname)", `--contains=${commit}`, refs];
  return (await git.run(args, { timeoutMs: 120_000 })).stdout.length > 0;
};

/** Makes the commit. It is the same for the same parent and tree, whenever it is made. */
const commitOn = async (git: Git, parent: string, tree: string): Promise<string> => {
  const date = (await git.run(["log", "-1", "--format=%ct", parent])).stdout.toString("latin1").trim();
  const env = { GIT_AUTHOR_DATE: `${date} +0000`, GIT_COMMITTER_DATE: `${date} +0000` };
  const text = `The files of submodules and of large file storage, on ${parent}\n`;
  const made = await git.run(["commit-tree", tree, "-p", parent, "-F", "-"], { input: text, env });
  return made.stdout.toString("latin1").trim();
};
