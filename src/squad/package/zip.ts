import { crc32 } from "node:zlib";
import type { Entry, ZipFile } from "yauzl";
import { messageOf } from "../../error.ts";
import type { Contents } from "./folder.ts";
import { packageLimits } from "./manifest.ts";
import { checkListed, type Listed, type PackageFile, tooManyFiles } from "./package.ts";

/**
 * Reads a package from a ZIP. Nothing is unpacked before the whole list has been checked: number, paths, kinds, sizes,
 * and the ratio of the declared sizes to the ZIP's. No entry may yield more bytes than it declares.
 */
export const readZip = async (zip: Buffer): Promise<Contents> => {
  const no = (code: string, message: string): Contents => ({ ok: false, issues: [{ file: "", code, message }] });
  if (zip.length > packageLimits.zipBytes)
    return no("too_large", `Expected a ZIP of at most ${packageLimits.zipBytes} bytes, got ${zip.length}`);
  let file: ZipFile | undefined;
  try {
    const { fromBufferPromise } = await import("yauzl");
    file = await fromBufferPromise(zip, { lazyEntries: true, strictFileNames: true });
    const entries: Entry[] = [];
    for await (const entry of file.eachEntry()) {
      if (entries.length > entriesAtMost) return { ok: false, issues: [tooManyFiles] };
      entries.push(entry);
    }
    const top = topOf(entries);
    const listed = entries.flatMap((entry) => {
      const path = entry.fileName.slice(top.length);
      return path === "" || path.endsWith("/")
        ? []
        : [{ entry, path, kind: kindOf(entry), bytes: entry.uncompressedSize }];
    });
    const issues = checkListed(listed);
    if (issues.length > 0) return { ok: false, issues };
    const total = listed.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total > zip.length * packageLimits.zipRatio)
      return no(
        "ratio",
        `Expected files at most ${packageLimits.zipRatio} times as large as the ZIP, got ${total} bytes`,
      );
    const files: PackageFile[] = [];
    for (const { entry, path } of listed) files.push({ path, bytes: await bytesOf(file, entry) });
    return { ok: true, files };
  } catch (error) {
    return no("invalid_zip", `Expected a ZIP that can be read: ${messageOf(error).replaceAll(/[^\x20-\x7e]/g, "?")}`);
  } finally {
    file?.close();
  }
};

/** A listing may include folders, too. */
const entriesAtMost = 4 * packageLimits.files;

/** A ZIP made of the folder itself has everything below the folder's name, which is removed. */
const topOf = (entries: readonly Entry[]): string => {
  const top = /^[^/]+\//.exec(entries[0]?.fileName ?? "")?.[0] ?? "";
  const nested = entries.some(({ fileName }) => fileName === `${top}squad.json`);
  return nested && entries.every(({ fileName }) => fileName.startsWith(top)) ? top : "";
};

/** Only archives made on Unix can contain links. */
const kindOf = ({ externalFileAttributes }: Entry): Listed["kind"] => {
  const type = (externalFileAttributes >>> 16) & 0o170000;
  return type === 0o120000 ? "link" : type === 0 || type === 0o100000 ? "file" : "other";
};

const bytesOf = async (file: ZipFile, entry: Entry): Promise<Buffer> => {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of (await file.openReadStreamPromise(entry)) as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > packageLimits.fileBytes) throw new Error(`${entry.fileName} is larger than it declares`);
    parts.push(part);
  }
  const bytes = Buffer.concat(parts, length);
  if (crc32(bytes) !== entry.crc32) throw new Error(`${entry.fileName} is damaged: its checksum differs`);
  return bytes;
};
