import type { Pieces } from "../store/store.ts";

/**
 * A pack in a temporary file of the service's, until it is disposed. `whole`: no branch or tag of the remote reached
 * its base any more, so the pack has everything that none of them reaches.
 */
export type Pack = AsyncDisposable & { bytes: number; whole: boolean; pieces: Pieces };

/**
 * The port of the repository room: projects that are named by address instead of by a directory. The service keeps one
 * bare mirror per repository, and per ref a folder with its files, which is the `directory` of everything that needs
 * one.
 */
export interface Repositories {
  /**
   * The place of a repository and ref, whether they were fetched before or not. Uses no network. Throws
   * `repository_not_allowed` for a URL that is no address, carries credentials, or does not match `repositories.allow`.
   */
  place(url: string, ref: string | undefined): RepositoryPlace;
  /** The place of a repository that is on record, whether callers may still name it or not. */
  local(repository: { url: string; ref: string | null }): RepositoryPlace;
  /** The place of one of this room's directories; undefined: the directory is not one of them. */
  at(directory: string): RepositoryPlace | undefined;
  /** Whether this service has the files of the place. */
  isFetched(place: RepositoryPlace): boolean;
  /** Removes a mirror, as if it had never been fetched; false: it is being fetched. */
  forget(mirror: string): boolean;
  /** How long a Task waits for a remote that cannot be asked, in seconds. */
  readonly patienceSeconds: number;
  /** Address of the service's page, without a slash at its end, for links in pull requests; undefined: no links. */
  readonly page: string | undefined;
  /**
   * The landings that callers may ask for, and the default for those who do not ask. `proposes`: why no pull request
   * can be opened for this repository; undefined: one can.
   */
  landing(place: RepositoryPlace): {
    allowed: readonly RemoteLanding[];
    default: RemoteLanding;
    proposes: string | undefined;
  };
  /**
   * Updates mirror and files to the remote's present state; one fetch serves everybody who asked before it began.
   * Rejects with `RepositoryAway` if the remote could not be asked, with `repository_unsupported` if it holds something
   * that the service does not support, and with `repository_unavailable` if it has no such ref.
   */
  fetch(place: RepositoryPlace, signal: AbortSignal): Promise<Fetched>;
  /**
   * Like `fetch`, for a directory that is a clone of the repository: the commit is added to the clone's objects instead
   * of to files of the service's. Rejects with `repository_unsupported` if the remote's branch lacks the clone's
   * `head`.
   */
  fetchInto(place: RepositoryPlace, clone: Clone & { head: string }, signal: AbortSignal): Promise<Fetched>;
  /**
   * Copies a commit of such a clone into the mirror, so that it can be pushed. `base`: the remote's commit that it was
   * made on. Rejects with `RepositoryAway`.
   */
  take(place: RepositoryPlace, clone: Clone & { commit: string; base: string }, signal: AbortSignal): Promise<void>;
  /** Whether a commit is in the mirror. */
  has(place: RepositoryPlace, commit: string): Promise<boolean>;
  /** Updates the mirror if its remote was not asked for `afterMs`. A remote that cannot be asked now is asked later. */
  refresh(place: RepositoryPlace, afterMs: number, signal: AbortSignal): Promise<void>;
  /**
   * A pack of what commits of the mirror add to `base`; undefined: more than `mostBytes`. `thin`: names objects of the
   * base instead of including them, where that is shorter.
   */
  packed(
    place: RepositoryPlace,
    range: { commits: readonly string[]; base: string; mostBytes: number; thin?: boolean },
    signal: AbortSignal,
  ): Promise<Pack | undefined>;
  /**
   * Adds the objects of such a pack to the mirror; a damaged pack is left out, and logged. Rejects with the errors of
   * `pack`.
   */
  unpack(place: RepositoryPlace, pack: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** The remote's own commit that `base` was filled in from for a Task; null: `base` is the remote's own. */
  filledFrom(place: RepositoryPlace, base: string): string | null;
  /**
   * The commit as the remote should get it: submodules and large files that were filled in are replaced by their names
   * again. A change of such files is `refused`.
   */
  unfilled(place: RepositoryPlace, change: { commit: string; base: string }, signal: AbortSignal): Promise<Unfilled>;
  /** The name of the branch that a Task's result is pushed to, by the operator's template. */
  branchFor(task: { taskID: string; title: string; at: Date }): string;
  /** The commit that the remote has at a ref; null: it has no such ref. Rejects with `RepositoryAway`. */
  ask(place: RepositoryPlace, ref: string, signal: AbortSignal): Promise<string | null>;
  /**
   * Pushes a commit of the mirror, if the remote's ref is at `from` (null: does not exist). Idempotent: asks the remote
   * whether an earlier call that was cut off succeeded. Rejects with `RepositoryAway` while that cannot be determined.
   */
  push(place: RepositoryPlace, change: Push, signal: AbortSignal): Promise<Pushed>;
  /**
   * Opens the pull request of a branch that was pushed, or updates the one that it has. Idempotent: the branch shows
   * whether an earlier call succeeded. Rejects with `RepositoryAway`, and with `ForgeRefused` in the forge's words.
   */
  propose(place: RepositoryPlace, proposal: Proposal, signal: AbortSignal): Promise<PullRequest>;
  /** The present state of a pull request; undefined: it is gone. Rejects like `propose`. */
  proposed(place: RepositoryPlace, number: number, signal: AbortSignal): Promise<PullRequest | undefined>;
  /**
   * Writes a comment on an issue, unless there is one with this mark, written `since`. `isHeld`: whether the comment is
   * still the caller's to write; asked once the thread was searched. Rejects like `propose`.
   */
  comment(place: RepositoryPlace, comment: Comment, isHeld: () => boolean, signal: AbortSignal): Promise<void>;
  /** Removes a branch from the remote, if it is still at this commit. Resolves to whether it was removed. */
  removeBranch(place: RepositoryPlace, at: { ref: string; commit: string }, signal: AbortSignal): Promise<boolean>;
}

export type RemoteLanding = "commit" | "branch" | "pull-request";

/**
 * `fresh`: no pull request is known for it yet, so it gets the operator's labels. `ref`: the branch (`refs/heads/…`)
 * that was pushed, at `commit`. `ended`: the number of an earlier pull request of it that is known to be closed or
 * merged; null: none is.
 */
export type Proposal = {
  ref: string;
  commit: string;
  ended: number | null;
  fresh: boolean;
  title: string;
  body: string;
};

/** A comment on an issue. `mark`: a part of `text` that no other comment has. */
export type Comment = { number: number; mark: string; text: string; since: Date };

/** Forges: programs that a repository's host runs for pull requests. Forgejo is "gitea". */
export type ForgeKind = "github" | "gitlab" | "gitea";

export type PullRequest = {
  url: string;
  number: number;
  state: "open" | "closed" | "merged";
};

export type RepositoryPlace = {
  /** The address as the first caller gave it, in normal form: no credentials, no default port. */
  url: string;
  /** A branch, tag or commit; null: the remote's default branch. */
  ref: string | null;
  /** The identity of the project: its address, equal for all spellings. */
  identity: string;
  /** Real path of the bare mirror. */
  mirror: string;
  /** Real path of the folder with the files of the ref. */
  directory: string;
};

type OfProject = { directory: string; project: string; repository: { url: string; ref: string | null } | null };

/**
 * A fold with the directory that this service keeps for its repository, wherever the stream began; a fold without a
 * repository is unchanged.
 */
export const withLocalDirectory = <State extends OfProject>(
  repositories: Pick<Repositories, "local">,
  state: State,
): State =>
  state.repository === null ? state : { ...state, directory: repositories.local(state.repository).directory };

/** The Git directory that has the commits of a stream's project. */
export const commonDirOf = (
  repositories: Pick<Repositories, "local">,
  { project, repository }: Pick<OfProject, "project" | "repository">,
): string => (repository === null ? project : repositories.local(repository).mirror);

/** A clone of a repository. `commonDir`: real path of its Git directory. */
export type Clone = { commonDir: string };

export type Unfilled = { commit: string } | { refused: { path: string; why: string }[] };

export type Fetched = {
  /** The commit that work begins from, with submodules and large files filled in, if there are any. */
  commit: string;
  /** The remote's own commit. */
  of: string;
  /**
   * The name of the remote's branch (`refs/heads/…`); null: the ref is a tag or a commit, on which nothing can land.
   */
  branch: string | null;
  /** The ref of the mirror that has the branch's commit; null as for `branch`. */
  tracking: string | null;
};

/** `ref`: the remote's, `refs/heads/…`. `from`: the commit that the ref must be at; null: it must not exist. */
export type Push = { commit: string; ref: string; from: string | null };

export type Pushed =
  | { ok: true }
  /** The remote's ref is at another commit; `head` null: the ref is gone. */
  | { ok: false; reason: "moved"; head: string | null }
  /** The remote refused; `words` are its own. */
  | { ok: false; reason: "refused"; words: string };

/**
 * The remote could not be asked. `lasting`: waiting alone does not help; otherwise another try is worth it, after
 * `retryAfterMs` if the remote said when.
 */
export class RepositoryAway extends Error {
  readonly lasting: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(message: string, options: ErrorOptions & { lasting?: boolean; retryAfterMs?: number | undefined } = {}) {
    super(message, options);
    this.lasting = options.lasting ?? false;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The forge refused; the message has its words. */
export class ForgeRefused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
