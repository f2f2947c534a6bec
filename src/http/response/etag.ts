import { hash } from "node:crypto";
import { empty, type HttpAnswer, type RequestContext } from "./response.ts";

/** Whether the caller has what would be sent. Weak comparison, as If-None-Match requires. */
export const matchesTag = (header: string | undefined, etag: string): boolean =>
  header !== undefined && header.split(",").some((tag) => tag.trim() === "*" || weak(tag.trim()) === weak(etag));

const weak = (tag: string): string => tag.replace(/^W\//, "");

export const tagOf = (text: string): string => `W/"${hash("sha256", text).slice(0, 32)}"`;

/** May be kept by the caller alone, who has to ask each time: then it is sent with If-None-Match. */
export const tagged = (etag: string): Record<string, string> => ({ etag, "cache-control": "private, no-cache" });

/** 304 where the caller has it. */
export const unchanged = (entry: RequestContext, header: string | undefined, etag: string): HttpAnswer | undefined =>
  matchesTag(header, etag) ? empty(entry, 304, tagged(etag)) : undefined;
