import { isUtf8 } from "node:buffer";
import { counted } from "../result.ts";

/** Describes a file that cannot be shown as text. `commands`: also name a command that shows its content. */
export const kindOf = (bytes: Buffer, commands: boolean): string => {
  const size = counted(bytes.length, "byte");
  const known = signatures.find(([start, at = 0]) => bytes.subarray(at, at + start.length).equals(start));
  if (known !== undefined) {
    const [, , name, hint = ""] = known;
    const area = areaOf(name, bytes);
    return `${name} of ${size}${area}${hint === image || commands ? hint : ""}`;
  }
  if (!isUtf8(bytes) && !bytes.subarray(0, 8000).includes(0))
    return `a file of ${size} that is not UTF-8 text, perhaps Latin-1${commands ? "; see it with `shell`: iconv -f latin1 -t utf8" : ""}`;
  return `a binary file of ${size}`;
};

const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1");
const image = ", which cannot be shown to you";
const utf16 = "; see it with `shell`: iconv -f utf16 -t utf8";
const archive = "; list it with `shell`";

const signatures: [start: Buffer, at: number | undefined, name: string, hint?: string][] = [
  [bytesOf("\x89PNG\r\n\x1a\n"), 0, "a PNG image", image],
  [bytesOf("\xff\xd8\xff"), 0, "a JPEG image", image],
  [bytesOf("GIF8"), 0, "a GIF image", image],
  [bytesOf("WEBP"), 8, "a WebP image", image],
  [bytesOf("%PDF-"), 0, "a PDF document", "; see it with `shell`: pdftotext, where that is installed"],
  [bytesOf("PK\x03\x04"), 0, "a ZIP archive (or a document or package in that form)", archive],
  [bytesOf("\x1f\x8b"), 0, "a gzip file", archive],
  [bytesOf("ustar"), 257, "a tar archive", archive],
  [bytesOf("\x7fELF"), 0, "an ELF program or library"],
  [bytesOf("SQLite format 3\0"), 0, "an SQLite database"],
  [bytesOf("\xff\xfe"), 0, "a text in UTF-16", utf16],
  [bytesOf("\xfe\xff"), 0, "a text in UTF-16", utf16],
];

const areaOf = (name: string, bytes: Buffer): string => {
  if (name === "a PNG image" && bytes.length >= 24)
    return `, ${bytes.readUInt32BE(16)}×${bytes.readUInt32BE(20)} pixels`;
  if (name === "a GIF image" && bytes.length >= 10) return `, ${bytes.readUInt16LE(6)}×${bytes.readUInt16LE(8)} pixels`;
  return "";
};
