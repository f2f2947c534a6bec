import { isUtf8 } from "node:buffer";
import { isAbsolute } from "node:path";
import { ServiceError } from "../../error.ts";
import type { Route } from "../../protocol/route/route.ts";
import { quote } from "../../protocol/issue.ts";

/**
 * The project directory as the caller sent it: query parameter `directory` or header `x-service-directory`. Whether it
 * exists and may be used is checked where it is used.
 */
export const directoryOf = <R extends Pick<Route, "directory" | "path">>(
  route: R,
  query: string | undefined,
  header: string | undefined,
): R extends { directory: "required" } ? string : string | undefined =>
  found(route, query, header) as R extends { directory: "required" } ? string : string | undefined;

const found = (
  route: Pick<Route, "directory" | "path">,
  query: string | undefined,
  header: string | undefined,
): string | undefined => {
  if (route.directory === "accepted") return undefined;
  const fromHeader = header === undefined ? undefined : fromBytes(header);
  if (query !== undefined && fromHeader !== undefined && query !== fromHeader)
    throw new ServiceError(
      "directory_invalid",
      `Expected the same directory in query and header, got ${quote(query)} and ${quote(fromHeader)}.`,
    );
  const directory = query ?? fromHeader;
  if (directory === undefined) {
    if (route.directory !== "required") return undefined;
    // Routes of a Task accept a request without one: the Task decides whether it needs a directory.
    if (route.path.includes("{taskID}")) return "";
    throw new ServiceError(
      "directory_required",
      "Give the project directory: `?directory=/abs/path` or header `x-service-directory`.",
    );
  }
  if (!isAbsolute(directory) || directory.includes("\0"))
    throw new ServiceError("directory_invalid", `Expected an absolute path as directory, got ${quote(directory)}.`);
  return directory;
};

/** Node decodes header bytes as Latin-1; a path is most likely UTF-8. */
const fromBytes = (header: string): string => {
  const bytes = Buffer.from(header, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : header;
};

/** The directory that holds the files of a repository; throws `repository_not_allowed`. */
export type PlaceOf = (url: string, ref: string | undefined) => string;

/**
 * The repository that a request names: in its body, or in the query parameter `repository` of routes that take a
 * directory.
 */
export const repositoryOf = (
  route: Pick<Route, "directory" | "path">,
  body: unknown,
  query: string | undefined,
): { url: string; ref: string | undefined } | undefined => {
  if (typeof body === "object" && body !== null && "repository" in body) {
    const { url, ref } = body.repository as { url: string; ref?: string };
    return { url, ref };
  }
  return query === undefined || route.directory === "accepted" ? undefined : { url: query, ref: undefined };
};
