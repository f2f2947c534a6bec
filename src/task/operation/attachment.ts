import type { TaskCreate } from "../../protocol/task/request.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import type { Blobs } from "../../store/store.ts";

/** Stores attachments as blobs, named by their hash; one after the other, as each is decoded at once. */
export const keepAttachments = async (
  blobs: Blobs,
  attachments: NonNullable<TaskCreate["attachments"]>,
): Promise<AttachmentRef[]> => {
  const kept: AttachmentRef[] = [];
  for (const { filename, mime, data } of attachments) {
    const { sha256, bytes } = await blobs.put(Buffer.from(data, "base64"));
    kept.push({ filename, mime, bytes, sha256 });
  }
  return kept;
};
