import type { ChatMessage } from "./message.ts";

/** Tools that change files by their arguments alone. */
export const editingTools: ReadonlySet<string> = new Set(["write", "edit", "apply_patch"]);

/** The beginning of the result of a command that was not run, because an earlier edit in the same reply failed. */
export const notRun = "Not run: ";

/** The files that calls after this one edited, in order; empty if the conversation does not contain the call. */
export const editedAfter = (messages: readonly ChatMessage[], callID: string): string[] => {
  const calls = messages.flatMap((message) => (message.role === "assistant" ? message.calls : []));
  const at = calls.findIndex((call) => call.callID === callID);
  if (at < 0) return [];
  const done = new Set(
    messages.flatMap((message) =>
      message.role === "tool"
        ? message.results.flatMap((result) => (result.outcome === "ok" ? [result.callID] : []))
        : [],
    ),
  );
  return [
    ...new Set(
      calls.slice(at + 1).flatMap(({ callID: id, tool, input }) => (done.has(id) ? pathsOf(tool, input) : [])),
    ),
  ];
};

const pathsOf = (tool: string, input: unknown): string[] => {
  const field = (name: string): string => {
    const value: unknown = typeof input === "object" && input !== null ? Reflect.get(input, name) : undefined;
    return typeof value === "string" ? value : "";
  };
  switch (tool) {
    case "write":
    case "edit": {
      // Long arguments are stored with their beginning (`head`) only.
      const path = field("path") || (/"path":"([^"\\]+)"/.exec(field("head"))?.[1] ?? "");
      return path === "" ? [] : [path];
    }
    case "apply_patch":
      return [...field("patch").matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm)].map(([, path = ""]) => path);
    default:
      return [];
  }
};
