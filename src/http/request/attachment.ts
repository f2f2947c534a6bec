import { ServiceError } from "../../error.ts";
import { pace } from "../../pace.ts";
import { type Attachment, attachmentFaults, refuseSizes } from "../../protocol/attachment.ts";
import type { Limits } from "../../protocol/limit.ts";

/**
 * Throws `invalid_request` with all issues, or `attachment_too_large`. `at`: the field's path, for the error. Yields to
 * the event loop between files, because checking one of the maximum size takes ten milliseconds.
 */
export const checkAttachments = async (
  attachments: readonly Attachment[] | undefined,
  limits: Limits,
  at = "body.attachments",
): Promise<void> => {
  if (attachments === undefined) return;
  refuseSizes(attachments, limits, at);
  const issues = [];
  for (const [index, attachment] of attachments.entries()) {
    issues.push(...attachmentFaults(attachment, `${at}[${index}]`));
    await pace();
  }
  const first = issues[0];
  if (first !== undefined) throw new ServiceError("invalid_request", `${first.path}: ${first.message}`, { issues });
};
