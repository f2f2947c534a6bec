import { isUtf8 } from "node:buffer";
import { isAbsolute } from "node:path";
import { ServiceError } from "../../error.ts";
import type { Route } from "../../protocol/route/route.ts";
import { quote } from "../../protocol/issue.ts";

/**
 * The project directory as the caller sent it: query parameter `directory` or header `x-service-directory`. Whether it
 * exists and may be used is checked where it is used.
 */
export const directoryOf = <R extends Pick<Route, "directory">>(
  route: R,
  query: string | undefined,
  header: string | undefined,
): R extends { directory: "required" } ? string : string | undefined =>
  found(route, query, header) as R extends { directory: "required" } ? string : string | undefined;

const found = (
  route: Pick<Route, "directory">,
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
