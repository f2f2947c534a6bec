import type { Pieces } from "../store/store.ts";

/**
 * A pack in a file of the service's, until it is disposed. `whole`: no branch or tag of the remote led to its base any
 * more, and it has all that none leads to.
 */
export type Pack = AsyncDisposable & { bytes: number; whole: boolean; pieces: Pieces };

/**
 * The port of the repository room: projects that are named by address instead of by a directory. The service keeps one
 * bare mirror per repository, and per ref a folder with its files, which is the `directory` of everything that needs
 * one.
 */
export interface Repositories {
  /**
   * Where a repository and ref are kept, whether they were fetched before or not. Without network. Rejects with
   * `repository_not_allowed` what is no address, carries credentials, or is not among `repositories.allow`.
   */
  place(url: string, ref: string | undefined): RepositoryPlace;
  /** Where this service keeps a repository that something on record names, whether callers may still name it or not. */
  local(repository: { url: string; ref: string | null }): RepositoryPlace;
  /** The place of a directory of this room; undefined: the directory is somebody else's. */
  at(directory: string): RepositoryPlace | undefined;
  /** Whether this service has its files. */
  isFetched(place: RepositoryPlace): boolean;
  /** Takes a mirror away, as if it had never been fetched; false: it is being fetched. */
  forget(mirror: string): boolean;
  /** How long a Task waits for a remote that cannot be asked. */
  readonly patienceSeconds: number;
  /**
   * Address of the service's page, without a slash at its end, for links in pull requests; undefined: there are none.
   */
  readonly page: string | undefined;
  /**
   * What callers may ask for, and what they get who do not ask. `proposes`: why no pull request can be opened for this
   * repository; undefined: one can.
   */
  landing(place: RepositoryPlace): {
    allowed: readonly RemoteLanding[];
    default: RemoteLanding;
    proposes: string | undefined;
  };
  /**
   * Brings mirror and files to what the remote has now; one fetch serves everybody who asked before it began. Rejects
   * with `RepositoryAway` where the remote could not be asked, with `repository_unsupported` where it has what is not
   * carried out, and with `repository_unavailable` where it has no such ref.
   */
  fetch(place: RepositoryPlace, signal: AbortSignal): Promise<Fetched>;
  /**
   * As `fetch`, for a directory that is a clone of the repository: the commit is brought into the clone's objects
   * instead of into files of the service's. Rejects with `repository_unsupported` where the remote's branch lacks the
   * clone's `head`.
   */
  fetchInto(place: RepositoryPlace, clone: Clone & { head: string }, signal: AbortSignal): Promise<Fetched>;
  /**
   * Brings a commit of such a clone into the mirror, so that it can be pushed. `base`: the one that it was made on, of
   * the remote's. Rejects with `RepositoryAway`.
   */
  take(place: RepositoryPlace, clone: Clone & { commit: string; base: string }, signal: AbortSignal): Promise<void>;
  /** Whether a commit is in the mirror. */
  has(place: RepositoryPlace, commit: string): Promise<boolean>;
  /** Asks the remote again what it has, where nobody has for so long; what it cannot be asked is asked later. */
  refresh(place: RepositoryPlace, afterMs: number, signal: AbortSignal): Promise<void>;
  /**
   * What commits of the mirror add to `base`, as a pack; undefined: more than `mostBytes`. `thin`: with what the base
   * has only named, where that is less.
   */
  packed(
    place: RepositoryPlace,
    range: { commits: readonly string[]; base: string; mostBytes: number; thin?: boolean },
    signal: AbortSignal,
  ): Promise<Pack | undefined>;
  /**
   * Brings such a pack into the mirror; what is damaged is left out, and said in the log. Rejects with what the pieces
   * reject with.
   */
  unpack(place: RepositoryPlace, pack: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>;
  /** The remote's own commit where `base` is one that was filled in for a Task; null: it is the remote's own. */
  filledFrom(place: RepositoryPlace, base: string): string | null;
  /**
   * A commit as the remote is to have it: the names of submodules and of large files stand again for what was filled
   * in. A change of those is `refused`.
   */
  unfilled(place: RepositoryPlace, change: { commit: string; base: string }, signal: AbortSignal): Promise<Unfilled>;
  /** The name of the branch that a Task's result is pushed to, by the operator's template. */
  branchFor(task: { taskID: string; title: string; at: Date }): string;
  /** The commit that the remote has at a ref; null: it has none of this name. Rejects with `RepositoryAway`. */
  ask(place: RepositoryPlace, ref: string, signal: AbortSignal): Promise<string | null>;
  /**
   * Pushes a commit of the mirror, if the remote's ref is at `from` (null: does not exist). Idempotent: whether an
   * earlier call that was cut off got through is asked of the remote. Rejects with `RepositoryAway` while that cannot
   * be known.
   */
  push(place: RepositoryPlace, change: Push, signal: AbortSignal): Promise<Pushed>;
  /**
   * Opens the pull request of a branch that was pushed, or brings the one that it has up to date. Idempotent: the
   * branch tells whether an earlier call got through. Rejects with `RepositoryAway`, and with `ForgeRefused` in the
   * forge's words.
   */
  propose(place: RepositoryPlace, proposal: Proposal, signal: AbortSignal): Promise<PullRequest>;
  /** What became of a pull request. Rejects as `propose`; undefined: it is gone. */
  proposed(place: RepositoryPlace, number: number, signal: AbortSignal): Promise<PullRequest | undefined>;
  /**
   * Writes below an issue, unless something with this mark was written there `since`. `isHeld`: whether it is still the
   * caller's to write, which is looked at once the thread was searched. Rejects as `propose`.
   */
  comment(place: RepositoryPlace, comment: Comment, isHeld: () => boolean, signal: AbortSignal): Promise<void>;
  /** Removes a branch from the remote, if it is still at this commit. Resolves to whether it was. */
  removeBranch(place: RepositoryPlace, at: { ref: string; commit: string }, signal: AbortSignal): Promise<boolean>;
}

export type RemoteLanding = "commit" | "branch" | "pull-request";

/**
 * `fresh`: nothing is known of a pull request for it yet, so that it gets the operator's labels. `ref`: the branch
 * (`refs/heads/…`) that was pushed, at `commit`. `ended`: an earlier pull request of it that is known to be over; null:
 * none is.
 */
export type Proposal = {
  ref: string;
  commit: string;
  ended: number | null;
  fresh: boolean;
  title: string;
  body: string;
};

/** `mark`: part of `text` that no other comment has. */
export type Comment = { number: number; mark: string; text: string; since: Date };

/** Programs that a repository's host runs for pull requests; Forgejo is "gitea". */
export type ForgeKind = "github" | "gitlab" | "gitea";

export type PullRequest = {
  url: string;
  number: number;
  state: "open" | "closed" | "merged";
};

export type RepositoryPlace = {
  /** As the first caller gave it, in normal form: no credentials, no default port. */
  url: string;
  /** A branch, tag or commit; null: the remote's default branch. */
  ref: string | null;
  /** The identity of the project: the address, whoever spelt it how. */
  identity: string;
  /** Real path of the bare mirror. */
  mirror: string;
  /** Real path of the folder with the files of the ref. */
  directory: string;
};

type OfProject = { directory: string; project: string; repository: { url: string; ref: string | null } | null };

/** A fold with the directory that this service keeps for its repository, wherever it was begun; any other as it is. */
export const here = <State extends OfProject>(repositories: Pick<Repositories, "local">, state: State): State =>
  state.repository === null ? state : { ...state, directory: repositories.local(state.repository).directory };

/** Where the commits of a stream's project are. */
export const commonDirOf = (
  repositories: Pick<Repositories, "local">,
  { project, repository }: Pick<OfProject, "project" | "repository">,
): string => (repository === null ? project : repositories.local(repository).mirror);

/** `commonDir`: real path of its Git directory. */
export type Clone = { commonDir: string };

export type Unfilled = { commit: string } | { refused: { path: string; why: string }[] };

export type Fetched = {
  /** Where work begins: with submodules and large files in their places, where there are any. */
  commit: string;
  /** The remote's own. */
  of: string;
  /**
   * The name of the remote's branch (`refs/heads/…`); null: the ref is a tag or a commit, on which nothing can land.
   */
  branch: string | null;
  /** The ref of the mirror that has the branch's commit. */
  tracking: string | null;
};

/** `ref`: of the remote, `refs/heads/…`. */
export type Push = { commit: string; ref: string; from: string | null };

export type Pushed =
  | { ok: true }
  /** The remote's ref is elsewhere; null: it is gone. */
  | { ok: false; reason: "moved"; head: string | null }
  /** The remote refused, in its words. */
  | { ok: false; reason: "refused"; words: string };

/**
 * The remote could not be asked. `lasting`: waiting alone does not mend it; else it is worth another try, after
 * `retryAfterMs` where it said when.
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

/** The forge refused, in its words. */
export class ForgeRefused extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}
