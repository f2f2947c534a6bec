/** Finds the route of a method and a path. */

export type Found<T> =
  | { kind: "route"; value: T; params: Record<string, string> }
  /** The path exists, but not with this method; `allow` lists the methods that do. */
  | { kind: "method"; allow: string }
  | { kind: "none" };

type Row<T> = { method: string; parts: readonly string[]; value: T };

/**
 * Paths have the form `/task/{taskID}/status`; `*` at the end matches any rest. The first match counts, and HEAD is
 * treated as GET.
 */
export const createRouter = <T>(routes: readonly { method: string; path: string; value: T }[]) => {
  const rows: Row<T>[] = routes.map(({ method, path, value }) => ({ method, parts: path.split("/"), value }));
  return (method: string, path: string): Found<T> => {
    const parts = partsOf(path);
    const wanted = method === "HEAD" ? "GET" : method;
    const row = rows.find((one) => one.method === wanted && fits(one.parts, parts));
    if (row !== undefined) return { kind: "route", value: row.value, params: paramsOf(row.parts, parts) };
    const methods = rows.flatMap((one) => (fits(one.parts, parts) ? one.method : []));
    if (methods.length === 0) return { kind: "none" };
    const allow = methods.flatMap((one) => (one === "GET" ? ["GET", "HEAD"] : [one])).join(", ");
    return { kind: "method", allow };
  };
};

/** The guards have ensured that every escape can be decoded and that none encodes a separator. */
const partsOf = (path: string): string[] => {
  const parts = path.split("/");
  return path.includes("%") ? parts.map(decodeURIComponent) : parts;
};

const isParam = (part: string): boolean => part.startsWith("{");

const fits = (parts: readonly string[], given: readonly string[]): boolean => {
  if (parts.length > given.length || (parts.length < given.length && parts.at(-1) !== "*")) return false;
  // Backwards, because paths differ mostly at their end.
  for (let at = parts.length - 1; at > 0; at -= 1) {
    const part = parts[at] ?? "";
    if (part !== given[at] && part !== "*" && !(isParam(part) && given[at] !== "")) return false;
  }
  return true;
};

const paramsOf = (parts: readonly string[], given: readonly string[]): Record<string, string> => {
  const params: Record<string, string> = {};
  for (const [at, part] of parts.entries()) if (isParam(part)) params[part.slice(1, -1)] = given[at] ?? "";
  return params;
};
