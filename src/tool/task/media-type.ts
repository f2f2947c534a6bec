import { isUtf8 } from "node:buffer";
import { formOf } from "../../protocol/attachment.ts";

/** The media type of a file, by its bytes if they are conclusive, otherwise by its name. */
export const mediaTypeOf = (filename: string, bytes: Buffer): string => {
  const isText = !bytes.includes(0) && isUtf8(bytes);
  const form = formOf(bytes);
  // The first bytes of a text may match an image format by chance.
  if (form !== undefined && (!isText || form === "application/pdf")) return form;
  const extension = /\.([a-z0-9]+)$/i.exec(filename)?.[1]?.toLowerCase() ?? "";
  const packed = packages[extension];
  if (bytes.subarray(0, 4).toString("latin1") === "PK\x03\x04") return packed ?? "application/zip";
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) return "application/gzip";
  return isText ? (texts[extension] ?? "text/plain") : "application/octet-stream";
};

const office = "application/vnd.openxmlformats-officedocument";

const packages: Record<string, string> = {
  docx: `${office}.wordprocessingml.document`,
  pptx: `${office}.presentationml.presentation`,
  xlsx: `${office}.spreadsheetml.sheet`,
  odt: "application/vnd.oasis.opendocument.text",
  ods: "application/vnd.oasis.opendocument.spreadsheet",
};

const texts: Record<string, string> = {
  csv: "text/csv",
  htm: "text/html",
  html: "text/html",
  js: "text/javascript",
  json: "application/json",
  md: "text/markdown",
  mjs: "text/javascript",
  svg: "image/svg+xml",
  tsv: "text/tab-separated-values",
  xhtml: "application/xhtml+xml",
  xml: "text/xml",
};
