import type { PermissionSubject } from "../../domain/permission/rule.ts";
import type { Tool } from "../../tool/tool.ts";

/**
 * The subjects of a call, for the permission rules. They are derived from the names of the arguments, so that new tools
 * fall under the rules without extra code: `path`, `paths`, `from`, `to` and the files of a `patch` are files, read by
 * tools without an effect on files and written by all others; `command` belongs to the shell, `action` to Git, `url` is
 * a host.
 */
export const subjectsOf = (
  tool: Pick<Tool, "name" | "effect">,
  input: unknown,
  inside: (path: string) => string,
): PermissionSubject[] => {
  const given = typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {};
  const texts = (name: string): string[] =>
    [given[name]].flat().filter((value): value is string => typeof value === "string");
  const kind =
    tool.effect === "none" || tool.effect === "log" || readingActions.has(String(given["action"])) ? "read" : "write";
  const paths = [
    ...["path", "paths", "from", "to", "file", "files", "cwd"].flatMap(texts),
    ...texts("patch").flatMap(filesOf),
    ...editsOf(given["edits"]),
  ];
  // What an MCP server's tool does with a path is unknown, so the path counts as both read and written, in addition to
  // the call of the tool itself.
  if (tool.name.startsWith("mcp__"))
    return [
      { kind: "other", words: Object.keys(given).length === 0 ? "" : JSON.stringify(given) },
      ...paths.flatMap((path): PermissionSubject[] => [
        { kind: "read", path: named(inside(path)) },
        { kind: "write", path: named(inside(path)) },
      ]),
    ];
  const subjects: PermissionSubject[] = [
    ...paths.map(
      (path): PermissionSubject => ({ kind: tool.name === "shell" ? "read" : kind, path: named(inside(path)) }),
    ),
    ...(tool.name === "git" ? [{ kind: "git" as const, command: gitCommand(texts) }] : texts("command").map(shellOf)),
    ...texts("url").map((url): PermissionSubject => ({ kind: "web", host: hostOf(url) })),
  ];
  return subjects.length === 0 ? [{ kind: "other" }] : subjects;
};

/** The host of a URL as rules name it. A trailing dot is removed, because it does not make a different host. */
export const hostOf = (url: string): string => {
  const host = URL.parse(url)?.hostname ?? url;
  return host.endsWith(".") ? host.slice(0, -1) : host;
};

/** Actions of the git tool that do not change files; its other actions do. */
const readingActions = new Set(["status", "diff", "log", "grep", "show", "blame", "add", "commit"]);

const shellOf = (command: string): PermissionSubject => ({ kind: "shell", command });

const gitCommand = (texts: (name: string) => string[]): string =>
  ["action", "revision", "paths", "from", "to"].flatMap(texts).join(" ");

const editsOf = (edits: unknown): string[] =>
  Array.isArray(edits)
    ? edits.flatMap((edit: unknown) => {
        const path = typeof edit === "object" && edit !== null && "path" in edit ? edit.path : undefined;
        return typeof path === "string" ? [path] : [];
      })
    : [];

/** The files named by a diff, or by a patch of the form `*** Update File: path`. */
const filesOf = (patch: string): string[] =>
  patch.split("\n").flatMap((line) => {
    const named =
      /^(?:\+\+\+ |--- |rename (?:from|to) |copy (?:from|to) |\*\*\* [A-Z][a-z]+ (?:File|to): )([^\t\r]+)/.exec(line);
    const name = named?.[1]?.trim();
    if (name === undefined || name === "/dev/null") return [];
    // Git's `a/` and `b/` prefixes may also be real folders, so both readings are subjects.
    return /^[ab]\//.test(name) ? [name, name.slice(2)] : [name];
  });

const named = (path: string): string => path.split("/").filter(isName).join("/");

const isName = (name: string): boolean => name !== "" && name !== ".";
