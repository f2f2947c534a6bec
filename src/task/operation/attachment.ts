import type { TaskCreate } from "../../protocol/task/request.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import type { Blobs, Pieces } from "../../store/store.ts";

/** Base64 characters decoded per piece; four of them stand for three bytes. */
const atOnce = 256 * 1024;

/** Decodes piece by piece: the base64 text is in memory as a whole, the decoded bytes never are. */
const decoded = (data: string): Pieces =>
  function* () {
    for (let at = 0; at < data.length; at += atOnce) yield Buffer.from(data.slice(at, at + atOnce), "base64");
  };

/** Stores attachments as blobs, named by their hash; one after the other, because each is redacted on the way. */
export const keepAttachments = async (
  blobs: Blobs,
  attachments: NonNullable<TaskCreate["attachments"]>,
): Promise<AttachmentRef[]> => {
  const kept: AttachmentRef[] = [];
  for (const { filename, mime, data } of attachments) {
    const { sha256, bytes } = await blobs.write(decoded(data));
    kept.push({ filename, mime, bytes, sha256 });
  }
  return kept;
};
