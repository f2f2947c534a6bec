import type { ArchivedFile } from "../domain/view/archive.ts";
import { logName, logOf } from "../domain/evidence/ledger.ts";
import type { Frame } from "../protocol/event/frame.ts";
import type { Blobs } from "../store/store.ts";
import type { ArchiveDeps } from "./archive.ts";
import { contentOf, entryOf } from "./blob.ts";
import type { Omitted, Room } from "./entry.ts";
import type { Zip } from "./zip.ts";

/** Adds the full outputs of calls and checks to an archive, byte for byte, each named by the id of its event. */

type Around = {
  store: { blobs: Pick<Blobs, "get" | "read"> };
  isClean: ArchiveDeps["isClean"];
  room: Room;
};

export const addLogs = async (
  zip: Zip,
  folder: string,
  events: readonly Frame[],
  { store, isClean, room }: Around,
): Promise<{ files: ArchivedFile[]; omitted: Omitted[] }> => {
  const files: ArchivedFile[] = [];
  const omitted: Omitted[] = [];
  for (const frame of events) {
    const log = logOf(frame);
    if (log === undefined) continue;
    const name = logName(frame, folder);
    const omit = (reason: string) => void omitted.push({ path: name, reason });
    if (log.bytes > room.left) {
      omit(room.full);
      continue;
    }
    const content = await contentOf(store.blobs, log);
    if (content === undefined) {
      omit("its content is missing from the data folder");
      continue;
    }
    // Redacted bytes would no longer match the hash in the ledger, so the log is left out.
    if (!(await isClean(typeof content === "function" ? content() : content))) {
      omit("it contains something that looks like a secret");
      continue;
    }
    room.left -= log.bytes;
    const { done } = await zip.add(name, 0o100644, entryOf(content));
    files.push({ name, ...(await done) });
  }
  return { files, omitted };
};
