/** Whether the caller has what would be sent. Weak comparison, as If-None-Match requires. */
export const matchesTag = (header: string | undefined, etag: string): boolean =>
  header !== undefined && header.split(",").some((tag) => tag.trim() === "*" || weak(tag.trim()) === weak(etag));

const weak = (tag: string): string => tag.replace(/^W\//, "");
