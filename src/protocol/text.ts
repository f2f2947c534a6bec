import { z } from "zod";

/** Texts in events: long ones are blobs, so that no event exceeds 64 KiB. Files are always blobs. */

export const sha256 = z.string().length(64);

export const gitID = z.string().regex(/^[0-9a-f]{40,64}$/);

export const blobRef = z.object({ sha256, bytes: z.number().int() }).meta({ id: "BlobRef" });

export const attachmentRef = z
  .object({ filename: z.string(), mime: z.string(), bytes: z.number().int(), sha256 })
  .meta({ id: "AttachmentRef" });

export const longText = z
  .union([z.string(), z.object({ blob: blobRef, head: z.string().describe("The first characters") })])
  .meta({ id: "LongText" });

export type BlobRef = z.infer<typeof blobRef>;
export type LongText = z.infer<typeof longText>;
export type AttachmentRef = z.infer<typeof attachmentRef>;
