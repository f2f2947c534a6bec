import { hash } from "node:crypto";
import { empty, type HttpAnswer, type RequestContext } from "./response.ts";

/** Whether the caller already has this version. Weak comparison, as If-None-Match requires. */
export const matchesTag = (header: string | undefined, etag: string): boolean =>
  header !== undefined && header.split(",").some((tag) => tag.trim() === "*" || weak(tag.trim()) === weak(etag));

const weak = (tag: string): string => tag.replace(/^W\//, "");

export const tagOf = (text: string): string => `W/"${hash("sha256", text).slice(0, 32)}"`;

/** Only the caller may cache the answer, and has to revalidate it with If-None-Match each time. */
export const tagged = (etag: string): Record<string, string> => ({ etag, "cache-control": "private, no-cache" });

/** A 304 when the caller already has this version, otherwise undefined. */
export const unchanged = (entry: RequestContext, header: string | undefined, etag: string): HttpAnswer | undefined =>
  matchesTag(header, etag) ? empty(entry, 304, tagged(etag)) : undefined;
