import { type Issue, ServiceError } from "../error.ts";
import type { Limits } from "./limit.ts";

/**
 * Checks attachments beyond their schema: canonical base64, within the size limits, a base name as file name, and for
 * images and PDFs content that matches the media type. Source: shared/design/security.md C2.
 */

export type Attachment = { filename: string; mime: string; data: string };

type Sizes = Pick<Limits, "attachmentBytes" | "attachmentsBytes">;

/** What is wrong with one attachment; empty: nothing. `at`: its path, for the issues. */
export const attachmentFaults = ({ filename, mime, data }: Attachment, at: string): Issue[] => {
  const issues: Issue[] = [];
  const say = (field: string, message: string) => issues.push({ path: `${at}.${field}`, message, code: "custom" });
  const bytes = Buffer.from(data, "base64");
  if (bytes.toString("base64") !== data)
    say("data", "Expected canonical base64 (standard alphabet, padded, no white space), got other text");
  const name = nameFault(filename);
  if (name !== undefined) say("filename", name);
  const kind = typeFault(mime, bytes);
  if (kind !== undefined) say("mime", kind);
  return issues;
};

const sizeOf = (data: string): number =>
  Math.floor((data.length * 3) / 4) - (/(?<!=)=+$/.exec(data.slice(-2))?.[0].length ?? 0);

/** Checks the sizes, before anything is decoded. Throws `attachment_too_large`. */
export const refuseSizes = (attachments: readonly Attachment[], limits: Sizes, at: string): void => {
  let total = 0;
  for (const [index, { data }] of attachments.entries()) {
    const size = sizeOf(data);
    total += size;
    if (size > limits.attachmentBytes)
      throw new ServiceError(
        "attachment_too_large",
        `${at}[${index}].data: Expected at most ${limits.attachmentBytes} bytes, got ${size}`,
      );
  }
  if (total > limits.attachmentsBytes)
    throw new ServiceError(
      "attachment_too_large",
      `${at}: Expected at most ${limits.attachmentsBytes} bytes together, got ${total}`,
    );
};

const maxNameBytes = 255;

const nameFault = (filename: string): string | undefined => {
  const size = Buffer.byteLength(filename);
  if (size > maxNameBytes) return `Expected a file name of at most ${maxNameBytes} bytes, got ${size}`;
  if (/[/\\\p{Cc}]/u.test(filename) || filename === "." || filename === ".." || !filename.isWellFormed())
    return `Expected a bare file name without separators and control characters, got ${JSON.stringify(filename)}`;
  return undefined;
};

const starts =
  (...bytes: number[]) =>
  (file: Buffer): boolean =>
    bytes.every((byte, index) => file[index] === byte);

const textAt =
  (at: number, ...words: string[]) =>
  (file: Buffer): boolean =>
    words.some((word) => file.toString("latin1", at, at + word.length) === word);

/**
 * ISO media files: `ftyp`, then the major brand. With the generic `mif1`, the actual type is among the compatible
 * brands.
 */
const brand =
  (name: string, ...majors: string[]) =>
  (file: Buffer): boolean => {
    const major = file.toString("latin1", 8, 12);
    const compatible = file.toString("latin1", 16, 64);
    return textAt(4, "ftyp")(file) && (majors.includes(major) || (major === "mif1" && compatible.includes(name)));
  };

const forms: Record<string, (file: Buffer) => boolean> = {
  "application/pdf": textAt(0, "%PDF-"),
  "image/png": starts(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
  "image/jpeg": starts(0xff, 0xd8, 0xff),
  "image/gif": textAt(0, "GIF87a", "GIF89a"),
  "image/webp": (file) => textAt(0, "RIFF")(file) && textAt(8, "WEBP")(file),
  "image/bmp": textAt(0, "BM"),
  "image/tiff": textAt(0, "II*\0", "MM\0*"),
  "image/avif": brand("avif", "avif", "avis"),
  "image/heic": brand("heic", "heic", "heix"),
  "image/svg+xml": (file) => /<svg[\s>]/.test(file.toString("utf8", 0, 4096)),
};

/** The media type of a file according to its content; undefined if it is not a known one. Never SVG, which is text. */
export const formOf = (file: Buffer): string | undefined =>
  Object.entries(forms).find(([type, form]) => type !== "image/svg+xml" && form(file))?.[0];

const typeFault = (mime: string, file: Buffer): string | undefined => {
  if (mime.length > 200 || !/^[\w.+-]+\/[\w.+-]+(?:[ \t]*;[ \t]*[\w-]+=(?:[\w.+-]+|"[^"\\]*"))*$/.test(mime))
    return `Expected a media type such as text/plain, got ${JSON.stringify(mime.slice(0, 80))}`;
  const type = mime.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const form = forms[type];
  if (form === undefined)
    return type.startsWith("image/")
      ? `Expected one of ${Object.keys(forms)
          .filter((name) => name.startsWith("image/"))
          .join(", ")}; got ${type}`
      : undefined;
  return form(file) ? undefined : `Expected the bytes of ${type}, got others`;
};
