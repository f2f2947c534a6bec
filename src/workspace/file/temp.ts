import { randomBytes } from "node:crypto";

/** Names of files that are being written. */

/** Name prefix of half-written files. A killed service may leave some; commits leave them out. */
export const tempPrefix = ".sortie-tmp-";

export const tempNames = /^\.sortie-tmp-[0-9a-f]{16}$/;

export const tempName = (): string => `${tempPrefix}${randomBytes(8).toString("hex")}`;
