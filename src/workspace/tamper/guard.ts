import { join } from "node:path";
import { setImmediate as immediate, setTimeout as wait } from "node:timers/promises";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { crowdedIn, groupFound, suspectsIn } from "./compare.ts";
import { createIndexes, type Indexes } from "./indexes.ts";
import { type Look, emptyLook, outermost } from "./node.ts";
import { createRestore, type Tampered } from "./restore.ts";
import { restoreRootFolder, type HeldFolder, holdFolder } from "./root-folder.ts";
import { statsOf } from "./seen.ts";
import { lookAt } from "./watch.ts";

/**
 * Detects changes to files that make git run programs or send something elsewhere, around every command of an agent
 * (docs/security.md, "Git"). Takes some dozen `lstat`s and no process; bytes are read only after a change.
 */

export type { Tampered } from "./restore.ts";

export interface TamperGuard {
  /**
   * Call before a command, and await it. Changes made while no command ran on the repository are the user's, and are
   * accepted.
   */
  begin(): Promise<void>;
  /**
   * Call after a command: lists changes that can run a program or send something elsewhere. The files are restored as
   * they were; the changed versions are kept.
   */
  end(): Promise<Tampered[]>;
}

export type TamperOptions = {
  /** The repository's own folder, `.git` of the main worktree. */
  commonDir: string;
  taskID: string;
  /** Repositories inside the directory, by their `.git`. */
  nested?: readonly string[];
  /** The only folder that commands can write in, where the Git directory is read-only; undefined: anywhere. */
  writable?: string | undefined;
};

/**
 * One watch for all commands on a repository, of any Task: what one command planted must not become the state that
 * another command's guard restores.
 */
type Watch = {
  root: string;
  writable: string | undefined;
  nested: Set<string>;
  indexes: Indexes;
  before: Look;
  running: number;
  /** Number of commands that run, or are about to. */
  users: number;
  held: HeldFolder | undefined;
  /** Serialises the looks. */
  turn: Promise<unknown>;
};

const watches = new Map<string, Watch>();

/** Most watches that are kept without a running command, for what they have read. */
const mostIdle = 32;

const watchOf = (root: string, writable: string | undefined): Watch => {
  const key = `${root}\0${writable ?? ""}`;
  const known = watches.get(key);
  // The watches that were unused for longest are removed first.
  watches.delete(key);
  for (const [other, { users }] of watches) if (watches.size >= mostIdle && users === 0) watches.delete(other);
  const watch = known ?? {
    root,
    writable,
    nested: new Set(),
    indexes: createIndexes(),
    before: emptyLook,
    running: 0,
    users: 0,
    held: undefined,
    turn: Promise.resolve(),
  };
  watches.set(key, watch);
  return watch;
};

/** Files in a look after which other work gets a turn. */
const many = 500;

/** Milliseconds that another git command may take to write its index after the files. */
const patienceMs = 1000;

const inTurn = <T>(watch: Watch, act: () => Promise<T>): Promise<T> => {
  const next = watch.turn.then(act);
  watch.turn = next.catch(() => {});
  return next;
};

const look = async ({ root, writable, nested, indexes, before }: Watch, accepted: boolean): Promise<Look> => {
  const options = { root, nested, writable, indexes };
  const seen = lookAt(options, before, accepted);
  return (await indexes.read()) ? lookAt(options, before, accepted) : seen;
};

/**
 * The earlier look, plus the nested repositories that a joining Task is the first to have looked at while commands of
 * others run.
 */
const joined = (before: Look, fresh: Look, nested: readonly string[]): Look => {
  const isIts = (path: string) => nested.some((dotGit) => isWithin(dotGit, path));
  const more = [...fresh.nodes].filter(([path]) => !before.nodes.has(path) && isIts(path));
  return { ...before, nodes: new Map([...before.nodes, ...more]) };
};

/**
 * A fresh look in which the tampered paths count as they were before, whatever is there by now: another command that
 * still runs may have written there again since, and is compared at its end.
 */
const asBefore = (fresh: Look, before: Look, found: readonly Tampered[]): Look => {
  const isFound = (path: string) => found.some((each) => isWithin(each.path, path));
  const nodes = [
    ...[...fresh.nodes].filter(([path]) => !isFound(path)),
    ...[...before.nodes].filter(([path]) => isFound(path)),
  ];
  return { ...fresh, nodes: new Map(nodes) };
};

const suspects = async (watch: Watch) => {
  const { root, before, indexes } = watch;
  const deadline = performance.now() + patienceMs;
  for (;;) {
    const looks = { root, before, after: await look(watch, false) };
    const changes = await suspectsIn(looks, indexes);
    const isOutside = changes.some(({ path }) => !isWithin(root, path));
    // A checkout of the user's writes its files before its index, so wait while the index is locked.
    if (!isOutside || statsOf(join(root, "index.lock")) === undefined || performance.now() > deadline)
      return { looks, changes };
    await wait(20);
  }
};

export const createTamperGuard = ({ commonDir, taskID, nested = [], writable }: TamperOptions): TamperGuard => {
  const root = outermost(commonDir);
  const putBack = createRestore(root, taskID);
  /** Shared by all commands that run at the same time. */
  let watch: Watch | undefined;
  let running = 0;

  const begin = async (shared: Watch): Promise<void> => {
    const own = nested.filter((dotGit) => !shared.nested.has(dotGit));
    for (const dotGit of own) shared.nested.add(dotGit);
    shared.running += 1;
    if (shared.running === 1) {
      shared.held = holdFolder(root);
      shared.before = await look(shared, true);
    } else if (own.length > 0) shared.before = joined(shared.before, await look(shared, true), own);
  };

  const leave = (shared: Watch): void => {
    shared.running -= 1;
    if (shared.running > 0) return;
    shared.held?.[Symbol.dispose]();
    shared.held = undefined;
    shared.nested.clear();
  };

  const compare = async (shared: Watch): Promise<Tampered[]> => {
    const replaced = writable === undefined ? restoreRootFolder(root, shared.held, putBack) : [];
    // A missing repository is reported where it is needed.
    if (replaced === "gone") return [];
    const { looks, changes } = await suspects(shared);
    if (looks.after.nodes.size > many) await immediate();
    const gathered = groupFound(changes, looks);
    const whole = new Set(gathered.map(({ path }) => path));
    const crowded = crowdedIn(looks).filter((path) => !whole.has(path));
    if (looks.after.nodes.size > many) await immediate();
    const found = [
      ...replaced,
      ...gathered.map(putBack),
      ...crowded.map((path): Tampered => ({ path, change: "changed", restored: false, kept: null })),
    ];
    if (found.length === 0) shared.before = looks.after;
    else {
      const fresh = await look(shared, true);
      shared.before = shared.running > 1 ? asBefore(fresh, looks.before, found) : fresh;
    }
    return found;
  };

  return {
    begin() {
      const shared = (watch ??= watchOf(root, writable));
      running += 1;
      shared.users += 1;
      return inTurn(shared, () => begin(shared));
    },
    end() {
      const shared = (watch ??= watchOf(root, writable));
      running -= 1;
      if (running === 0) watch = undefined;
      return inTurn(shared, async () => {
        try {
          return await compare(shared);
        } finally {
          leave(shared);
          shared.users -= 1;
        }
      });
    },
  };
};
