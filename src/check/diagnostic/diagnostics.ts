import { extname } from "node:path";
import type { Diagnostics } from "../../agent/session.ts";
import type { DiagnosticCommand } from "../../protocol/task/environment.ts";
import type { Touched } from "../../tool/tool.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Checker } from "./checker.ts";
import { findingsText } from "./finding.ts";
import type { Finder, FoundChecker } from "./find-checker.ts";
import { createFileChecker, createProjectChecker, quoted } from "./one-shot.ts";
import { createWatcher } from "./watcher.ts";

/**
 * What the project's own checkers find after an edit. The result of the edit is held back for them for a moment; what
 * they find later is told with a later result. They begin when an agent reads the first file that one of them covers,
 * run in the sandbox of the Task, and end with the turn.
 */

/** Milliseconds for which a result is held back. */
export const waitMs = 1700;

/** Most checkers in one tree of files, of a Task or a fork. */
const mostCheckers = 12;

/** Where checkers come from: the ones found in the project, or `commands` instead of them. */
export type Source = { find: Finder } | { commands: readonly DiagnosticCommand[] };

type Running = Diagnostics & {
  /** Ends all checkers, and resolves when they are gone; the next edit begins new ones. */
  end(): Promise<void>;
};

/** Places for checkers that keep running, of all Tasks together. The function takes one; undefined: all are taken. */
export const createCheckerSlots = (most: number) => {
  let taken = 0;
  return (): Disposable | undefined => {
    if (taken >= most) return undefined;
    taken += 1;
    let isFree = false;
    return {
      [Symbol.dispose]() {
        if (!isFree) taken -= 1;
        isFree = true;
      },
    };
  };
};

/** `source` is asked at the first file; undefined: no file is looked at. */
export const createDiagnostics = (source: () => Source | undefined, room: () => Disposable | undefined): Running => {
  let roots = new Map<string, Map<string, Checker>>();
  let known: { source: Source | undefined } | undefined;
  const named = new Set<string>();
  /** Checkers of which an agent was told that they are not ready, and has heard nothing since. */
  const owed = new Map<Checker, "looking" | "done">();

  const find = async (path: string): Promise<FoundChecker[]> => {
    known ??= { source: source() };
    if (known.source === undefined) return [];
    if ("find" in known.source) return known.source.find(path);
    return known.source.commands.flatMap((command, index) =>
      command.extensions.includes(extname(path).slice(1)) ? [configured(command, index)] : [],
    );
  };

  const checkersFor = async (workspace: Workspace, path: string): Promise<Checker[]> => {
    const here = roots;
    const found = await find(path).catch(() => []);
    // All checkers were ended meanwhile.
    if (here !== roots) return [];
    const made = roots.get(workspace.root) ?? new Map<string, Checker>();
    if (found.length > 0) roots.set(workspace.root, made);
    return found.flatMap(({ key, folder, make }) => {
      const before = made.get(key);
      if (before !== undefined) return [before];
      if (made.size >= mostCheckers) return [];
      const checker = make({ workspace, folder }, room);
      made.set(key, checker);
      return [checker];
    });
  };

  /**
   * Two checkers of one name may look at the same file, each from its own folder, and find the same: that is told once.
   */
  const take = (checkers: Iterable<Checker>, touched: ReadonlySet<string>, when: string): string[] => [
    ...new Set(
      [...checkers].flatMap((checker) => {
        const { findings, unsure } = checker.take();
        const isOwed = owed.get(checker) === "done";
        if (findings.length > 0 || isOwed) owed.delete(checker);
        if (findings.length === 0) return isOwed ? [`[${checker.name}: ready, nothing new]`] : [];
        const note = unsure ? ", some perhaps there before" : "";
        return [`[${checker.name}: new ${when}${note}]\n${findingsText(findings, touched)}`];
      }),
    ),
  ];

  return {
    warm(workspace, path) {
      // Nothing to do: the first look at a file meets the same fault, and tells it.
      checkersFor(workspace, path)
        .then((checkers) => {
          for (const checker of checkers) checker.warm(path);
        })
        .catch(() => {});
    },
    async after(workspace, touched) {
      const by = new Map<Checker, Touched[]>();
      for (const file of touched)
        for (const checker of await checkersFor(workspace, file.path)) {
          const files = by.get(checker) ?? [];
          files.push(file);
          by.set(checker, files);
        }
      if (by.size === 0) return undefined;
      const open = new Set(by.keys());
      const looks = [...by].map(async ([checker, files]) => {
        await checker.look(files);
        open.delete(checker);
        if (owed.has(checker)) owed.set(checker, "done");
      });
      // Checkers that are known to take longer are not waited for.
      const quick = looks.filter((_, at) => ([...by.keys()][at]?.usual() ?? 0) < waitMs);
      const { promise: time, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, waitMs);
      await Promise.race([Promise.all(quick), time]);
      clearTimeout(timer);
      const paths = new Set(touched.map(({ path }) => path));
      const parts = take(roots.get(workspace.root)?.values() ?? [], paths, "with this edit");
      // If nothing were said, the agent would take it that nothing was found.
      const late = [...new Set([...open].map(({ name }) => name))].filter((name) => !named.has(name));
      for (const name of late) named.add(name);
      for (const checker of open) if (late.includes(checker.name)) owed.set(checker, "looking");
      if (late.length > 0) parts.push(`[${late.join(", ")}: not ready yet; what is found stands in a later result]`);
      return parts.length === 0 ? undefined : parts.join("\n");
    },
    late(workspace) {
      const checkers = roots.get(workspace.root);
      const parts = checkers === undefined ? [] : take(checkers.values(), new Set(), "with earlier edits");
      return parts.length === 0 ? undefined : parts.join("\n");
    },
    async end() {
      const all = [...roots.values()].flatMap((made) => [...made.values()]);
      roots = new Map();
      await Promise.all(all.map((checker) => checker.end()));
    },
  };
};

/** A checker from a command of the operator's, or of a file that the operator granted. */
const configured = ({ run, name, extensions, stays }: DiagnosticCommand, index: number): FoundChecker => {
  const called = name ?? run.split(" ")[0] ?? run;
  const covers = (path: string) => extensions.includes(extname(path).slice(1));
  return {
    key: `command ${index}`,
    folder: "",
    make(place, room) {
      if (stays !== undefined) {
        const { begins, ends } = stays;
        return createWatcher(
          {
            name: called,
            run,
            covers,
            begins: begins === undefined ? undefined : (line) => line.includes(begins),
            ends: (line) => line.includes(ends),
          },
          place,
          room,
        );
      }
      if (!run.includes(filesWord)) return createProjectChecker({ name: called, run, covers }, place);
      const filled = (paths: readonly string[]) => run.replaceAll(filesWord, () => quoted(paths));
      return createFileChecker({ name: called, run: filled, stdin: undefined, covers }, place);
    },
  };
};

const filesWord = "{files}";
