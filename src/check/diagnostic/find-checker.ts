import { posix } from "node:path";
import { parseJsonc } from "../../json.ts";
import { shellQuote } from "../../shell-quote.ts";
import type { Files } from "../../workspace/file/files.ts";
import type { Checker, Place } from "./checker.ts";
import { type Kind, kinds, tsc } from "./kind.ts";

/**
 * Finds the checkers that a project has for a file: installed programs whose settings are in the file's folder or above
 * it. Reads the user's directory, which agents do not change; starts no process.
 */

export type FoundChecker = {
  /** One checker is made for each key. */
  key: string;
  folder: string;
  make: (place: Place, room: () => Disposable | undefined) => Checker;
};

/** `onPath`: whether commands find this program without a path. */
export type Look = { files: Files; onPath: (name: string) => boolean };

const mostSettings = 256 * 1024;
const mostReferences = 3;

export const createFinder = (look: Look) => {
  const { files, onPath } = look;
  const isThere = (path: string): Promise<boolean> =>
    files.stat(path).then(
      (entry) => entry !== undefined,
      // The path leads through a link, which is not followed: taken to be there.
      () => true,
    );
  const textOf = (path: string): Promise<string | undefined> =>
    files.read(path, mostSettings).then(
      ({ bytes }) => bytes.toString("utf8"),
      () => undefined,
    );
  /** How a command in the folder calls the program; undefined: it is not there. */
  const programIn = async ({ program, from }: Kind, folder: string): Promise<string | undefined> => {
    for (const above of foldersAbove(folder))
      for (const path of [`node_modules/.bin/${program}`, ...(from === "path" ? [`.venv/bin/${program}`] : [])])
        if (await isThere(posix.join(above, path))) {
          const call = posix.relative(folder, posix.join(above, path));
          return shellQuote(call.startsWith("..") ? call : `./${call}`);
        }
    return from === "path" && onPath(program) ? program : undefined;
  };
  const known = new Map<string, Promise<FoundChecker[]>>();

  const at = (name: string, kind: Kind, folder: string): Promise<FoundChecker[] | undefined> =>
    (async () => {
      for (const { file, has } of kind.marks) {
        const path = posix.join(folder, file);
        if (!(await isThere(path))) continue;
        if (has !== undefined && (await textOf(path))?.includes(has) !== true) continue;
        const program = await programIn(kind, folder);
        if (program === undefined) return [];
        const key = `${name} ${folder}`;
        if (name !== "tsc") return [{ key, folder, make: (place, room) => kind.make(program, place, room) }];
        return projectsOf(await textOf(path)).map((project) => ({
          key: `${key} ${project}`,
          folder,
          make: (place, room) => tsc(project)(program, place, room),
        }));
      }
      return undefined;
    })();

  /** The checkers of the nearest folder that has the settings. */
  const nearest = (name: string, kind: Kind, folder: string): Promise<FoundChecker[]> => {
    const key = `${name} ${folder}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    const made = at(name, kind, folder).then((here) => {
      if (here !== undefined) return here;
      return folder === "" ? [] : nearest(name, kind, parentOf(folder));
    });
    known.set(key, made);
    return made;
  };

  return async (path: string): Promise<FoundChecker[]> => {
    const covering = Object.entries(kinds).filter(([, { covers }]) => covers.test(path));
    const found = await Promise.all(covering.map(([name, kind]) => nearest(name, kind, parentOf(path))));
    return found.flat();
  };
};

export type Finder = ReturnType<typeof createFinder>;

const parentOf = (path: string): string => {
  const folder = posix.dirname(path);
  return folder === "." ? "" : folder;
};

const foldersAbove = (folder: string): string[] => (folder === "" ? [""] : [folder, ...foldersAbove(parentOf(folder))]);

/** The tsconfig.json itself, or the projects that it references if it does nothing else. */
const projectsOf = (text: string | undefined): string[] => {
  const settings = parseJsonc(text ?? "").value as
    | { files?: unknown[]; include?: unknown[]; references?: { path?: unknown }[] }
    | undefined;
  const { files, include, references } = settings ?? {};
  const isOnlyNaming = Array.isArray(files) && files.length === 0 && include === undefined;
  if (!isOnlyNaming || !Array.isArray(references)) return ["tsconfig.json"];
  return references.flatMap(({ path }) => (typeof path === "string" ? [path] : [])).slice(0, mostReferences);
};
