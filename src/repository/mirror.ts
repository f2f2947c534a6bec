import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../error.ts";
import { createGit, type CreateGitOptions, type Git } from "../workspace/git/git.ts";
import { measureUsage } from "../workspace/usage/measure.ts";
import type { Remote } from "./credential.ts";
import type { RemoteGit } from "./remote-git.ts";
import { type Fetched, RepositoryAway, type RepositoryPlace } from "./repository.ts";
import { plainText } from "./words.ts";

/** The bare mirror of a repository, and the files of its refs. */

export type MirrorLimits = {
  /** Seconds that one fetch may take. */
  fetchSeconds: number;
  /** Bytes that one mirror may take. */
  mirrorBytes: number;
};

const trackingOf = (branch: string): string => `refs/remotes/origin/${branch}`;

/**
 * Packs of a mirror above which they are rolled into one: each fetch that brings something adds a pack, and every git
 * call searches all of them.
 */
const mostPacks = 20;

/** Milliseconds between measurements of a running fetch. */
const lookMs = 2000;

export const createMirror = (options: { remoteGit: RemoteGit; git: CreateGitOptions; limits: MirrorLimits }) => {
  const { remoteGit, limits } = options;
  const timeoutMs = limits.fetchSeconds * 1000;

  /** git on the mirror's objects and refs. */
  const objectsOf = ({ mirror }: RepositoryPlace): Git =>
    createGit(mirror, { ...options.git, toplevel: mirror, gitDir: mirror });

  /** Makes the repository without git's templates: no hooks, and no settings but these. */
  const ensure = ({ mirror }: RepositoryPlace): void => {
    if (existsSync(join(mirror, "HEAD"))) return;
    for (const folder of ["objects/info", "objects/pack", "refs/heads", "refs/tags"])
      mkdirSync(join(mirror, folder), { recursive: true, mode: 0o700 });
    writeFileSync(join(mirror, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n");
    // Written last: git takes the folder for a repository once HEAD is there.
    writeFileSync(join(mirror, "HEAD"), "ref: refs/heads/main\n");
  };

  const tooLarge = (place: RepositoryPlace) =>
    new ServiceError(
      "repository_unsupported",
      `Expected ${place.url} to take at most ${limits.mirrorBytes} bytes (repositories.mirrorBytes), got more.`,
    );

  /** Rejects if the mirror would take more than it may with `more` bytes added. */
  const expectRoom = async (place: RepositoryPlace, more = 0): Promise<void> => {
    const { bytes } = await measureUsage([place.mirror], place.mirror);
    if (bytes + more > limits.mirrorBytes) throw tooLarge(place);
  };

  /** Fetches refs of a remote into the mirror, within the limits of time and size. */
  const fetchRefs = async (
    place: RepositoryPlace,
    remote: Remote,
    [url, ...refs]: readonly string[],
    signal: AbortSignal,
  ): Promise<void> => {
    const large = new AbortController();
    const look = setInterval(() => {
      void expectRoom(place).catch((error: unknown) => {
        if (error instanceof ServiceError) large.abort();
      });
    }, lookMs);
    const args = ["fetch", "-q", "--prune", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
    try {
      const until = { signal: AbortSignal.any([signal, large.signal]), timeoutMs };
      await remoteGit.run(place.mirror, remote, [...args, url ?? place.url, ...refs], until);
      await expectRoom(place);
    } catch (error) {
      throw large.signal.aborted ? tooLarge(place) : error;
    } finally {
      clearInterval(look);
    }
  };

  /**
   * Rolls small packs into one, and leaves large ones alone. All objects stay, also those that no ref reaches: a Task
   * may be about to name them. A git that is running finds what it reads in the new pack.
   */
  const gather = async (place: RepositoryPlace, signal: AbortSignal): Promise<void> => {
    const names = await readdir(join(place.mirror, "objects", "pack"));
    if (names.filter((name) => name.endsWith(".pack")).length <= mostPacks) return;
    const args = ["repack", "-d", "-q", "-n", "--geometric=2"];
    await objectsOf(place).run(args, { signal, timeoutMs: 10 * 60_000 });
  };

  /** Fetches all branches and tags of the remote into the mirror. Refs of the service's own stay. */
  const update = async (place: RepositoryPlace, remote: Remote, signal: AbortSignal): Promise<void> => {
    ensure(place);
    await fetchRefs(
      place,
      remote,
      [place.url, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"],
      signal,
    );
    // The fetch succeeded all the same; the next one tries to roll the packs again.
    await gather(place, signal).catch(() => undefined);
  };

  /** Asks the remote for one ref as it is now: its commit, and the ref that it stands for. */
  const ask = async (
    place: RepositoryPlace,
    remote: Remote,
    ref: string,
    signal: AbortSignal,
  ): Promise<{ commit: string | null; target: string | null }> => {
    ensure(place);
    const args = ["ls-remote", "--symref", place.url, ref];
    const { stdout } = await remoteGit.run(place.mirror, remote, args, { signal, timeoutMs });
    // A pattern of ls-remote also matches other refs that end in the same way.
    const said = stdout
      .toString("utf8")
      .split("\n")
      .flatMap((line) => (line.endsWith(`\t${ref}`) ? [line.slice(0, -ref.length - 1)] : []));
    return {
      commit: said.find((value) => !value.startsWith("ref: ")) ?? null,
      target: said.find((value) => value.startsWith("ref: "))?.slice("ref: ".length) ?? null,
    };
  };

  /** The name of the remote's default branch; undefined: it has none. */
  const defaultBranch = async (
    place: RepositoryPlace,
    remote: Remote,
    signal: AbortSignal,
  ): Promise<string | undefined> => {
    const { target } = await ask(place, remote, "HEAD", signal);
    return /^refs\/heads\/(\S+)$/.exec(target ?? "")?.[1];
  };

  /** Whether the remote had a branch of this name at the last fetch. */
  const hasBranch = async (place: RepositoryPlace, name: string): Promise<boolean> =>
    (await idIn(objectsOf(place), trackingOf(name))) !== undefined;

  const idIn = async (git: Git, name: string): Promise<string | undefined> => {
    const found = await git.run(["rev-parse", "--verify", "-q", "--end-of-options", `${name}^{commit}`], {
      ok: [0, 1, 128],
    });
    return found.stdout.toString("latin1").trim() || undefined;
  };

  /**
   * The commit that the mirror has at the place's ref, or at `branch`. Throws `repository_unavailable` if there is
   * none.
   */
  const resolve = async (place: RepositoryPlace, branch: string | undefined): Promise<Omit<Fetched, "of">> => {
    const git = objectsOf(place);
    const name = place.ref ?? branch;
    if (name !== undefined) {
      const head = await idIn(git, trackingOf(name));
      if (head !== undefined) return { commit: head, branch: `refs/heads/${name}`, tracking: trackingOf(name) };
      const tag = await idIn(git, `refs/tags/${name}`);
      if (tag !== undefined) return { commit: tag, branch: null, tracking: null };
      const commit = /^[0-9a-f]{40,64}$/.test(name) ? await idIn(git, name) : undefined;
      if (commit !== undefined) return { commit, branch: null, tracking: null };
    }
    throw new ServiceError(
      "repository_unavailable",
      name === undefined
        ? `Expected ${place.url} to have a branch, got an empty repository.`
        : `Expected a branch, tag or commit "${name}" in ${place.url}, got none.`,
    );
  };

  const checkedOut = ({ directory }: RepositoryPlace): string | undefined => {
    try {
      return readFileSync(`${directory}.commit`, "utf8").trim();
    } catch {
      return undefined;
    }
  };

  /** Makes the folder hold the files of the commit. */
  const checkOut = async (place: RepositoryPlace, commit: string): Promise<void> => {
    if (checkedOut(place) === commit) return;
    rmSync(`${place.directory}.commit`, { force: true });
    // A lock here was left by a killed git, as nobody else writes there.
    rmSync(`${place.directory}.index.lock`, { force: true });
    const git = createGit(place.directory, {
      ...options.git,
      toplevel: place.directory,
      gitDir: place.mirror,
      timeoutMs: 10 * 60_000,
    });
    const env = { GIT_INDEX_FILE: `${place.directory}.index` };
    // Squads that were made for the project stay, as they do in a directory.
    const kept = "--exclude=/.sortie/squads/";
    const clean = () => git.run(["-c", "core.bare=false", "clean", "-q", "-d", "-x", "-f", "-f", kept], { env });
    try {
      await git.run(["-c", "core.bare=false", "read-tree", "--reset", "-u", commit], { env });
    } catch (error) {
      // On a full disk, files left by this attempt would stay as long as the mirror: no Task's end removes them.
      for (const left of ["index", "index.lock"]) rmSync(`${place.directory}.${left}`, { force: true });
      await clean().catch(() => undefined);
      throw error;
    }
    await clean();
    writeFileSync(`${place.directory}.commit`, `${commit}\n`, { mode: 0o600 });
  };

  return {
    objectsOf,
    update,
    fetchRefs,
    expectRoom,
    defaultBranch,
    hasBranch,
    resolve,
    checkOut,
    checkedOut,
    ask,
    /**
     * Pushes if the remote's ref is at `from`. `commit` null: removes the ref. `words`: what the remote says when it
     * refuses; `stale`: the ref has moved. Rejects with `RepositoryAway`.
     */
    async push(
      place: RepositoryPlace,
      remote: Remote,
      { commit, ref, from }: { commit: string | null; ref: string; from: string | null },
      signal: AbortSignal,
    ): Promise<{ ok: true } | { ok: false; stale: boolean; words: string }> {
      const lease = `--force-with-lease=${ref}:${from ?? ""}`;
      const args = ["push", "--porcelain", "--no-verify", lease, place.url, `${commit ?? ""}:${ref}`];
      const { exitCode, stdout, stderr } = await remoteGit.run(place.mirror, remote, args, {
        signal,
        timeoutMs,
        ok: [0, 1],
      });
      if (exitCode === 0) return { ok: true };
      const line =
        stdout
          .toString("utf8")
          .split("\n")
          .find((each) => each.startsWith("!")) ?? "";
      const reason = /\[[^[\]]*\](?: \((.*)\))?/.exec(line)?.[0] ?? "";
      const said = stderr
        .split("\n")
        .filter((each) => each.startsWith("remote:"))
        .map((each) => each.slice("remote:".length).trim())
        .filter((each) => each !== "");
      if (line === "" && said.length === 0) throw new RepositoryAway(plainText(stderr, 400));
      const words = plainText([...said, reason].join(" "), 1000);
      // Another push was quicker; each forge reports that in its own words.
      return {
        ok: false,
        stale:
          /stale info|fetch first|non-fast-forward|cannot lock ref|failed to update ref|reference already exists/i.test(
            `${reason} ${words}`,
          ),
        words,
      };
    },
  };
};
