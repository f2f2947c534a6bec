import { createReadStream } from "node:fs";
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { Log } from "../../log.ts";
import type { Accepted, ArchiveFile } from "../../task/tasks.ts";
import { asciiName } from "../response/file.ts";
import { type HttpAnswer, type RequestContext, json, answeredOnSocket } from "../response/response.ts";

/** Answers that several handlers share: an accepted change, and a ZIP file. */

/** Sends the archive on the socket, then removes its file. */
export const sendArchive = (
  entry: RequestContext,
  outgoing: ServerResponse,
  archive: ArchiveFile,
  log: Log,
): HttpAnswer => {
  outgoing.writeHead(200, {
    ...entry.headers,
    "content-type": "application/zip",
    "content-length": archive.bytes,
    "content-disposition": `attachment; filename="${asciiName(archive.filename)}"`,
  });
  void hand(archive, outgoing).catch((error: unknown) =>
    log.debug({ requestID: entry.requestID, err: error }, "archive not downloaded completely"),
  );
  return answeredOnSocket;
};

/** Sends the file and removes it, also when the caller disconnects. */
const hand = async (archive: ArchiveFile, outgoing: ServerResponse): Promise<void> => {
  await using file = archive;
  await pipeline(createReadStream(file.path), outgoing);
};

export const accepted = <T>(entry: RequestContext, { status, body, replayed }: Accepted<T>): HttpAnswer =>
  json(entry, status, body, replayed ? { "idempotent-replayed": "true" } : undefined);
