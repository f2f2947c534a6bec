/**
 * Headers for files that others wrote: a browser saves them under their name and never renders them as a page of this
 * origin.
 */

/** Types without active content. Any type that can hold a script is served as plain bytes. */
const plain = new Set([
  "application/gzip",
  "application/json",
  "application/pdf",
  "application/zip",
  "image/avif",
  "image/gif",
  "image/jpeg",
  "image/png",
  "image/webp",
]);

const scripted = new Set(["text/html", "text/javascript", "text/xml"]);

export const servedType = (mime: string): string => {
  if (plain.has(mime)) return mime;
  return /^text\/[a-z0-9.-]+$/.test(mime) && !scripted.has(mime)
    ? `${mime}; charset=utf-8`
    : "application/octet-stream";
};

/** RFC 6266: an ASCII name for every client, and the full name for those that know `filename*`. */
export const attachmentNamed = (name: string): string => {
  const ascii = asciiName(name);
  const whole = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${ascii}"${ascii === name ? "" : `; filename*=UTF-8''${whole}`}`;
};

export const asciiName = (name: string): string => name.replaceAll(/[^A-Za-z0-9._-]/g, "_");
