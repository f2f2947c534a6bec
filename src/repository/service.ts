import { randomUUID } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createKeyedMutex } from "../async/mutex.ts";
import { messageOf, ServiceError } from "../error.ts";
import type { Log } from "../log.ts";
import type { Tracker } from "../process/process.ts";
import { piecesOfFile } from "../store/blob/piece.ts";
import { createGit, type Git, GitError } from "../workspace/git/git.ts";
import { defaultAuthor, defaultPath, type Author } from "../workspace/git/hardened.ts";
import { setRef } from "../workspace/object/ref.ts";
import { parseAddress, parsePattern, parseRef, type Pattern } from "./address.ts";
import { credentialFor, type CredentialSettings, usesToken, parseCredentials, type Remote } from "./credential.ts";
import { hasCommit, indexPack, isWithin, packInto, takeCommit, tipsWithout } from "./exchange.ts";
import { filledFrom, fillIn } from "./fill/fill.ts";
import { restorePointers } from "./fill/names.ts";
import { openForge } from "./forge/open.ts";
import { forgeOf } from "./forge/place.ts";
import { propose } from "./forge/propose.ts";
import { createMirror } from "./mirror.ts";
import { createMirrorFolders } from "./mirror-folder.ts";
import { createRemoteGit } from "./remote-git.ts";
import {
  type Fetched,
  ForgeRefused,
  type RemoteLanding,
  type Repositories,
  RepositoryAway,
  type RepositoryPlace,
} from "./repository.ts";
import { createTokens } from "./token.ts";
import { markUsed, removeMirror } from "./unused.ts";

/** Implements the port of `repository.ts`. */

/** `repositories` of config.jsonc, with its defaults. */
export type RepositorySettings = {
  allow: readonly string[];
  landing: readonly RemoteLanding[];
  /** The template of branch names, with `{task}`, `{slug}`, `{date}`. */
  branch: string;
  credentials: readonly CredentialSettings[];
  /** The properties of new pull requests; `page`: the address that they link to. */
  pullRequest: { labels: readonly string[]; draft: boolean; page: string | undefined };
  fetchSeconds: number;
  mirrorBytes: number;
  /** Whether files in large file storage, and submodules, are fetched, too; false: a repository with any is refused. */
  lfs: boolean | "same-host";
  submodules: boolean | "same-host";
  /** Days after which a mirror that nobody uses is removed; 0: never. */
  mirrorDays: number;
};

export type RepositoriesOptions = {
  dataDir: string;
  settings: RepositorySettings;
  env: Readonly<Record<string, string | undefined>>;
  tracker: Tracker;
  /** Gets all tokens in use before one is used, so that no text that the service writes shows them. */
  learn: (tokens: readonly string[]) => void;
  path?: string;
  author?: Author;
  resolve?: (host: string) => Promise<readonly string[]>;
  log: Log;
};

/** What is wrong with the settings, in words for the operator; undefined: nothing. */
export const problemOf = (
  { allow, credentials, branch, landing }: RepositorySettings,
  env: RepositoriesOptions["env"],
): string | undefined => {
  const wrong = allow.findIndex((entry) => parsePattern(entry) === undefined);
  if (wrong >= 0) return `allow.${wrong}: expected scheme://host/path, got "${allow[wrong]}"`;
  if (landing.length === 0) return "landing: expected at least one of pull-request, branch, commit, got none";
  if (!branch.includes("{task}"))
    return `branch: expected {task} in it, so that each Task has its own, got "${branch}"`;
  const parsed = parseCredentials(credentials, env);
  return typeof parsed === "string" ? parsed : undefined;
};

export const createRepositories = (options: RepositoriesOptions): Repositories => {
  const { dataDir, settings, env, tracker, log } = options;
  const path = options.path ?? defaultPath;
  const author = options.author ?? defaultAuthor;
  const folder = join(dataDir, "repositories");
  /** The folder for temporary files. Cleared at the start. */
  const given = join(folder, "given");
  const places = createMirrorFolders(folder);
  // Removes credentials of calls that a killed service made.
  rmSync(given, { recursive: true, force: true });
  mkdirSync(given, { recursive: true, mode: 0o700 });
  const allowed = settings.allow.map(parsePattern).filter((pattern): pattern is Pattern => pattern !== undefined);
  const parsed = parseCredentials(settings.credentials, env);
  const credentials = typeof parsed === "string" ? [] : parsed;
  const tokens = createTokens({ learn: options.learn, resolve: options.resolve });
  const remoteGit = createRemoteGit({
    folder,
    path,
    author,
    tracker,
    tokens,
    ...(options.resolve === undefined ? {} : { resolve: options.resolve }),
  });
  const mirror = createMirror({ remoteGit, git: { path, author, tracker }, limits: settings });
  const alone = createKeyedMutex();

  const remoteOf = ({ url }: Pick<RepositoryPlace, "url">): Remote => {
    const address = parseAddress(url);
    const entries = allowed.filter((pattern) => pattern.matches(address));
    if (entries.length === 0)
      throw new ServiceError(
        "repository_not_allowed",
        settings.allow.length === 0
          ? 'This service accepts only directories on its own machine. `"repositories": { "allow": ["https://*"] }` in config.jsonc allows every public https host.'
          : `Expected a repository that the operator allows (repositories.allow), got ${url}.`,
      );
    return {
      address,
      credential: credentialFor(credentials, address),
      vouched: entries.some(({ namesHost }) => namesHost),
    };
  };

  const forgeAt = async (place: RepositoryPlace, signal: AbortSignal) => {
    const remote = remoteOf(place);
    const forge = forgeOf(remote.address, remote.credential);
    if ("problem" in forge || !usesToken(remote))
      throw new ForgeRefused(
        0,
        `No pull request can be opened for ${place.url}: ${"problem" in forge ? forge.problem : ""}.`,
      );
    const token = await tokens.of(remote, signal);
    const vouched = remote.vouched || remote.credential.api !== undefined;
    const renew = async (until: AbortSignal) => (tokens.drop(remote, token) ? tokens.of(remote, until) : undefined);
    const opened = openForge(forge.kind, { ...forge.place, token }, { vouched, resolve: options.resolve, renew });
    return { remote, forge: await opened };
  };

  /** git on the objects of a user's clone, which sees no files. */
  const cloneOf = (commonDir: string): Git => {
    const nothing = join(folder, ".empty");
    mkdirSync(nothing, { recursive: true, mode: 0o500 });
    return createGit(nothing, { path, author, tracker, toplevel: nothing, gitDir: commonDir });
  };
  const fillings = { lfs: settings.lfs, submodules: settings.submodules };
  const filled = async (place: RepositoryPlace, found: Omit<Fetched, "of">, signal: AbortSignal): Promise<Fetched> => {
    const of = found.commit;
    const git = mirror.objectsOf(place);
    using _alone = await alone(place.mirror, signal);
    const late = AbortSignal.timeout(settings.fetchSeconds * 1000);
    const fill = fillIn(
      place,
      of,
      {
        git,
        settings: fillings,
        remoteOf,
        fetch: (remote, url, refs, until) => mirror.fetchRefs(place, remote, [url, ...refs], until),
        expectRoom: (bytes) => mirror.expectRoom(place, bytes),
        mostBytes: settings.mirrorBytes,
        lfs: { tokens, resolve: options.resolve, folder: given },
      },
      AbortSignal.any([signal, late]),
    );
    const commit = await fill.catch((error: unknown) => {
      signal.throwIfAborted();
      if (!late.aborted) throw error;
      throw new RepositoryAway(
        `its submodules and large files were not fetched within ${settings.fetchSeconds} seconds`,
      );
    });
    if (found.tracking === null || (!settings.lfs && !settings.submodules)) return { ...found, commit, of };
    // Set even if nothing is filled in, since that may change from commit to commit.
    const tracking = found.tracking.replace("/origin/", "/filled/");
    await setRef({ commonDir: place.mirror, git }, tracking, commit);
    return { ...found, commit, of, tracking };
  };

  /** Updates by mirror: the one that is running, and the one that begins after it. */
  const running = new Map<string, Promise<void>>();
  const next = new Map<string, Promise<void>>();
  const whole = new AbortController().signal;

  /** When a mirror's remote was last asked, by the monotonic clock. */
  const askedAt = new Map<string, number>();

  const begin = (place: RepositoryPlace, remote: Remote): Promise<void> => {
    askedAt.set(place.mirror, performance.now());
    const update = mirror
      .update(place, remote, whole)
      .then(() => markUsed(place.mirror))
      .finally(() => running.delete(place.mirror));
    running.set(place.mirror, update);
    return update;
  };

  /**
   * All callers that ask while a fetch runs share the one that begins after it, so that its result is newer than their
   * request.
   */
  const update = (place: RepositoryPlace, remote: Remote): Promise<void> => {
    const now = running.get(place.mirror);
    if (now === undefined) return begin(place, remote);
    const waiting =
      next.get(place.mirror) ??
      now
        .catch(() => undefined)
        .then(() => {
          next.delete(place.mirror);
          return begin(place, remote);
        });
    next.set(place.mirror, waiting);
    return waiting;
  };

  return {
    place(url, ref) {
      const address = parseAddress(url);
      const place = places.placeOf(address, ref === undefined ? null : parseRef(ref));
      remoteOf(place);
      places.keep(place);
      return place;
    },
    local({ url, ref }) {
      const place = places.placeOf(parseAddress(url), ref);
      places.keep(place);
      return place;
    },
    at: (directory) => places.at(directory),
    isFetched: (place) => mirror.checkedOut(place) !== undefined,
    forget(mirror) {
      if (running.has(mirror) || next.has(mirror)) return false;
      askedAt.delete(mirror);
      removeMirror(mirror);
      return true;
    },
    patienceSeconds: settings.fetchSeconds,
    page: settings.pullRequest.page,
    landing(place) {
      const { address, credential } = remoteOf(place);
      const forge = forgeOf(address, credential);
      const proposes = "problem" in forge ? forge.problem : undefined;
      const usual = (["pull-request", "branch", "commit"] as const).find(
        (each) => settings.landing.includes(each) && (each !== "pull-request" || proposes === undefined),
      );
      return { allowed: settings.landing, default: usual ?? "branch", proposes };
    },
    branchFor({ taskID, title, at }) {
      const words = title.toLowerCase().split(/[^a-z0-9]+/);
      const slug = words
        .filter((word) => word !== "")
        .reduce((name, word) => (name.length + word.length < 40 ? `${name}-${word}` : name), "")
        .slice(1);
      return settings.branch
        .replaceAll("{task}", taskID)
        .replaceAll("{slug}", slug || "task")
        .replaceAll("{date}", at.toISOString().slice(0, 10));
    },
    async fetch(place, signal) {
      const remote = remoteOf(place);
      // The mirror may have been removed meanwhile.
      places.keep(place);
      const branch = place.ref === null ? mirror.defaultBranch(place, remote, signal) : undefined;
      const [named] = await Promise.all([branch, update(place, remote)]);
      signal.throwIfAborted();
      const fetched = await filled(place, await mirror.resolve(place, named), signal);
      using _alone = await alone(place.directory, signal);
      await mirror.checkOut(place, fetched.commit);
      log.debug({ repository: place.url, commit: fetched.of }, "fetched");
      return fetched;
    },
    async fetchInto(place, { commonDir, head }, signal) {
      const remote = remoteOf(place);
      places.keep(place);
      const branch = place.ref === null ? mirror.defaultBranch(place, remote, signal) : undefined;
      const [named] = await Promise.all([branch, update(place, remote)]);
      signal.throwIfAborted();
      const fetched = await mirror.resolve(place, named);
      const from = mirror.objectsOf(place);
      if (!(await isWithin(from, head, fetched.commit)))
        throw new ServiceError(
          "repository_unsupported",
          `Expected what is checked out to be part of ${named ?? place.ref} of ${place.url}, got ${head.slice(0, 12)}, which is not: a pull request would show your own commits, too. Push them, or check out a branch that has been pushed, or ask for landing "branch".`,
        );
      const parts = {
        commit: fetched.commit,
        without: head,
        file: join(given, randomUUID()),
        mostBytes: settings.mirrorBytes,
      };
      await takeCommit({ from, to: cloneOf(commonDir) }, parts, signal);
      return { ...fetched, of: fetched.commit };
    },
    async take(place, { commonDir, commit, base }, signal) {
      const to = mirror.objectsOf(place);
      // The mirror may have been removed since.
      if (!(await hasCommit(to, base).catch(() => false))) {
        places.keep(place);
        await update(place, remoteOf(place));
      }
      const parts = { commit, without: base, file: join(given, randomUUID()), mostBytes: settings.mirrorBytes };
      await takeCommit({ from: cloneOf(commonDir), to }, parts, signal);
    },
    has: (place, commit) => hasCommit(mirror.objectsOf(place), commit).catch(() => false),
    async refresh(place, afterMs, signal) {
      if (performance.now() - (askedAt.get(place.mirror) ?? Number.NEGATIVE_INFINITY) < afterMs) return;
      await update(place, remoteOf(place)).catch((error: unknown) => {
        log.debug({ repository: place.url, error: messageOf(error) }, "a repository could not be asked what it has");
      });
      signal.throwIfAborted();
    },
    async packed(place, { commits, base, ...how }, signal) {
      const git = mirror.objectsOf(place);
      const file = join(given, randomUUID());
      const tips = await tipsWithout(git, base);
      const all = tips && (await packInto(file, git, { commits, without: tips, ...how }, signal));
      const bytes = all ?? (await packInto(file, git, { commits, without: [base], ...how }, signal));
      if (bytes === undefined) return undefined;
      return {
        bytes,
        whole: all !== undefined,
        pieces: () => piecesOfFile(file, bytes),
        [Symbol.asyncDispose]: () => rm(file, { force: true }),
      };
    },
    async unpack(place, pack, signal) {
      const file = join(given, randomUUID());
      try {
        await writeFile(file, pack, { flag: "wx", mode: 0o600, signal });
        await indexPack(mirror.objectsOf(place), file, true, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof GitError)) throw error;
        log.error({ repository: place.url, error: error.message }, "a checkpoint cannot be read");
      } finally {
        await rm(file, { force: true });
      }
    },
    filledFrom: (place, base) => filledFrom(place.mirror, base),
    async unfilled(place, { commit, base }, signal) {
      const of = filledFrom(place.mirror, base);
      return of === null
        ? { commit }
        : restorePointers(mirror.objectsOf(place), { commit, base, of, folder: given }, signal);
    },
    ask: async (place, ref, signal) => (await mirror.ask(place, remoteOf(place), ref, signal)).commit,
    async push(place, { commit, ref, from }, signal) {
      const remote = remoteOf(place);
      const done = async () => {
        const tracking = ref.replace(/^refs\/heads\//, "refs/remotes/origin/");
        await setRef({ commonDir: place.mirror, git: mirror.objectsOf(place) }, tracking, commit);
        return { ok: true } as const;
      };
      const pushed = await mirror.push(place, remote, { commit, ref, from }, signal);
      if (pushed.ok) return done();
      const { commit: head } = await mirror.ask(place, remote, ref, signal);
      if (head === commit) return done();
      if (pushed.stale || head !== from) return { ok: false, reason: "moved", head };
      return { ok: false, reason: "refused", words: pushed.words };
    },
    async propose(place, proposal, signal) {
      const { forge, remote } = await forgeAt(place, signal);
      const known = place.ref !== null && (await mirror.hasBranch(place, place.ref)) ? place.ref : undefined;
      const base = known ?? (await mirror.defaultBranch(place, remote, signal));
      if (base === undefined) throw new ForgeRefused(0, `${place.url} has no branch to propose the change for`);
      const { draft, labels } = settings.pullRequest;
      const whole = { ...proposal, draft, labels: proposal.fresh ? labels : [] };
      const unlabelled = (error: unknown): void => {
        if (!(error instanceof ForgeRefused)) throw error;
        log.warn({ repository: place.url, error: error.message }, "a pull request could not be labelled");
      };
      return propose(forge, base, whole, unlabelled, signal);
    },
    async proposed(place, number, signal) {
      const found = await (await forgeAt(place, signal)).forge.read(number, signal);
      return found && { url: found.url, number: found.number, state: found.state };
    },
    async comment(place, comment, isHeld, signal) {
      const { forge } = await forgeAt(place, signal);
      if (await forge.isSaid(comment, signal)) return;
      // Another service may have written the comment since it was looked for.
      if (!isHeld()) throw new RepositoryAway("looking for an earlier comment took too long");
      await forge.say(comment, signal);
    },
    async removeBranch(place, { ref, commit }, signal) {
      const remote = remoteOf(place);
      if ((await mirror.ask(place, remote, ref, signal)).commit !== commit) return false;
      const { ok } = await mirror.push(place, remote, { commit: null, ref, from: commit }, signal);
      return ok;
    },
  };
};
