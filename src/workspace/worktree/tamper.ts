import { chmodSync, existsSync, lstatSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { readBounded } from "../file/bounded-read.ts";

/**
 * Detects changes to the files of a repository that make git run programs, around every command of an agent
 * (security.md, C7). It takes a few dozen `lstat`s and no process; bytes are read only after a change. Not needed under
 * a sandbox that keeps `.git` read-only: there, only the user can change these files.
 */

export type Tampered = {
  path: string;
  change: "added" | "changed" | "removed";
  /** Whether the file is again as it was before the command. */
  restored: boolean;
  /** Where the file that was found is now; null: there was none, or it was left in its place. */
  kept: string | null;
};

export interface TamperGuard {
  /** Call before a command. Changes made since the last command are the user's and are accepted. */
  begin(): void;
  /**
   * Call after a command: lists changes that can run a program. Files are restored; the changed ones are kept next to
   * them.
   */
  end(): Tampered[];
}

type Seen = { stamp: string; mode: number; bytes: Buffer | undefined };

const files = ["config", "config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates"];
const longest = 1024 * 1024;
/** Maximum number of hooks, modules or worktrees watched per folder. */
const most = 200;

export const createTamperGuard = (place: {
  /** The repository's own folder, `.git` of the main worktree. */
  commonDir: string;
  taskID: string;
}): TamperGuard => {
  const { commonDir, taskID } = place;
  const own = join(commonDir, "worktrees", taskID);

  const watched = (): string[] => {
    const dirs = [commonDir, own, ...modulesOf(commonDir)];
    // Other Tasks watch their own worktrees.
    for (const name of namesIn(join(commonDir, "worktrees")))
      if (!name.startsWith("task_")) dirs.push(join(commonDir, "worktrees", name));
    return dirs.flatMap((dir) => [
      ...files.map((name) => join(dir, name)),
      ...namesIn(join(dir, "hooks"))
        .filter((name) => !name.endsWith(".sample") && !name.includes(mark))
        .map((name) => join(dir, "hooks", name)),
    ]);
  };

  let before = new Map<string, Seen>();
  let running = 0;

  const look = (known: ReadonlyMap<string, Seen>): Map<string, Seen> => {
    const seen = new Map<string, Seen>();
    for (const path of watched()) {
      const now = seenAt(path, known.get(path));
      if (now !== undefined) seen.set(path, now);
    }
    return seen;
  };

  return {
    begin() {
      running += 1;
      if (running === 1) before = look(before);
    },
    end() {
      running -= 1;
      // A missing repository is reported where it is needed.
      if (!existsSync(join(commonDir, "HEAD"))) return [];
      const after = look(before);
      const found: Tampered[] = [];
      for (const path of new Set([...before.keys(), ...after.keys()])) {
        const [old, now] = [before.get(path), after.get(path)];
        if (old?.stamp === now?.stamp || isHarmless(path, old, now)) continue;
        // Missing metadata of the Task's own worktree is created again anyway.
        if (now === undefined && path.startsWith(`${own}/`)) continue;
        const change = old === undefined ? "added" : now === undefined ? "removed" : "changed";
        found.push({ path, change, ...putBack(path, old, now, taskID) });
      }
      before = found.length === 0 ? after : look(after);
      return found;
    },
  };
};

/** Marks the names of files that were found and set aside; git runs no hook and reads no file of such a name. */
const mark = ".found-by-";

const listed = new Map<string, { stamp: string; names: string[] }>();

/** Lists a folder again when it changed, or did so less than 50 ms ago: file system clocks are coarse. */
const namesIn = (folder: string): string[] => {
  const stats = lstatSync(folder, { throwIfNoEntry: false });
  if (stats === undefined) return [];
  const stamp = `${stats.ino}.${stats.mtimeMs}.${stats.ctimeMs}`;
  const known = listed.get(folder);
  if (known?.stamp === stamp) return known.names;
  try {
    const names = readdirSync(folder).slice(0, most);
    if (listed.size >= 1000) listed.clear();
    if (stats.isDirectory() && Date.now() - stats.ctimeMs > 50) listed.set(folder, { stamp, names });
    return names;
  } catch {
    return [];
  }
};

/** Submodules' git directories; their names may contain slashes. */
const modulesOf = (commonDir: string): string[] =>
  namesIn(join(commonDir, "modules")).flatMap((name) => {
    const folder = join(commonDir, "modules", name);
    return seenAt(join(folder, "HEAD"), undefined) === undefined
      ? namesIn(folder).map((below) => join(folder, below))
      : [folder];
  });

const seenAt = (path: string, known: Seen | undefined): Seen | undefined => {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  const stamp = `${stats.mode}.${stats.ino}.${stats.size}.${stats.mtimeMs}.${stats.ctimeMs}`;
  if (known?.stamp === stamp) return known;
  let bytes: Buffer | undefined;
  try {
    if (stats.isFile()) bytes = readBounded(path, longest, { nofollow: true });
  } catch {}
  return { stamp, mode: stats.mode, bytes };
};

/**
 * Whether the user may well have made the change: the same bytes, fewer settings, or only settings that run nothing.
 */
const isHarmless = (path: string, old: Seen | undefined, now: Seen | undefined): boolean => {
  if (now === undefined) return false;
  const folder = basename(dirname(path));
  if (folder === "hooks" && (now.mode & 0o111) === 0 && now.bytes !== undefined) return true;
  if (now.bytes === undefined) return false;
  if (old?.bytes?.equals(now.bytes) === true && old.mode === now.mode) return true;
  if (!basename(path).startsWith("config")) return false;
  const had = new Set(settingsOf(old?.bytes));
  return settingsOf(now.bytes).every((setting) => had.has(setting) || harmless.test(setting));
};

/** `section key=value`, one per line. Any other syntax is kept as a `?` line, which never counts as harmless. */
const settingsOf = (bytes: Buffer | undefined): string[] => {
  let section = "";
  return (bytes?.toString("latin1") ?? "").split("\n").flatMap((line) => {
    const text = line.trim();
    if (text === "" || text.startsWith("#") || text.startsWith(";")) return [];
    const header = /^\[([\w.-]+)(?: "[^"\\]{0,500}")?\]$/.exec(text);
    if (header !== null) {
      section = header[1] ?? "";
      return [];
    }
    const pair = /^([\w-]{1,100})(?: = |=)(.*)$/.exec(text);
    const simple = pair !== null && !text.endsWith("\\") && !text.startsWith("[");
    return [simple ? `${section} ${pair[1]}=${pair[2]}`.toLowerCase() : `? ${text}`];
  });
};

/** Settings that users and tools change every day and that make git run nothing. */
const harmless =
  /^(?:branch (?:remote|merge|rebase|description|pushremote|vscode-merge-base|gh-merge-base)=|user (?:name|email)=|remote (?:fetch|push|tagopt|prune)=|remote (?:push)?url=(?!-)(?!.*::)|submodule (?:url|active|branch)=(?!-)(?!.*::)|core (?:filemode|ignorecase|precomposeunicode|logallrefupdates|symlinks|autocrlf|eol|quotepath)=|(?:pull|push|fetch|rebase|init|color|advice|gc|rerere) [\w-]+=)/;

/** Sets the found file aside, not executable, and restores the old bytes, unless the file has changed again since. */
const putBack = (
  path: string,
  old: Seen | undefined,
  now: Seen | undefined,
  taskID: string,
): Pick<Tampered, "restored" | "kept"> => {
  let kept: string | null = null;
  try {
    const unchanged = seenAt(path, undefined)?.stamp === now?.stamp;
    if (!unchanged || (old !== undefined && old.bytes === undefined)) return { restored: false, kept };
    if (now !== undefined) {
      renameSync(path, `${path}${mark}${taskID}`);
      kept = `${path}${mark}${taskID}`;
      if (now.bytes !== undefined) chmodSync(kept, 0o600);
    }
    if (old?.bytes !== undefined) writeFileSync(path, old.bytes, { mode: old.mode & 0o777, flag: "wx" });
    return { restored: true, kept };
  } catch {
    return { restored: false, kept };
  }
};
