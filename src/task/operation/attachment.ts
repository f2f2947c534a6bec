import type { TaskCreate } from "../../protocol/task/request.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import type { Blobs } from "../../store/store.ts";

/** Stores attachments as blobs, named by their hash. */
export const keepAttachments = (
  blobs: Blobs,
  attachments: NonNullable<TaskCreate["attachments"]>,
): Promise<AttachmentRef[]> =>
  Promise.all(
    attachments.map(async ({ filename, mime, data }) => {
      const { sha256, bytes } = await blobs.put(Buffer.from(data, "base64"));
      return { filename, mime, bytes, sha256 };
    }),
  );
