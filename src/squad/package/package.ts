import { hash } from "node:crypto";
import { packageLimits } from "./manifest.ts";

/**
 * A package as a set of files: the paths it may have, its digest, and the bytes that the digest is computed from.
 * parse.ts reads the content.
 */

export type PackageFile = { path: string; bytes: Buffer };

/** A problem and its place: lines and columns count from 1. `file` is "" for the package as a whole. */
export type Issue = { file: string; line?: number; column?: number; code: string; message: string };

/** Formats the place of an issue: `squad.json`, or `agents/qa.md:12:3`. */
export const placeOf = ({ file, line, column }: Issue): string =>
  [file === "" ? "package" : file, line, column].filter((part) => part !== undefined).join(":");

/** What a folder, a ZIP or a Git tree tells about an entry before its bytes are read. Folders are not listed. */
export type Listed = { path: string; kind: "file" | "link" | "other"; bytes: number };

const forms = [
  /^squad\.json$/,
  /^README\.md$/,
  /^LICENSE$/,
  /^agents\/[a-z0-9]+(?:-[a-z0-9]+)*\.md$/,
  /^skills\/[a-z0-9]+(?:-[a-z0-9]+)*\/SKILL\.md$/,
];

const allowed = "squad.json, README.md, LICENSE, agents/<name>.md and skills/<name>/SKILL.md";

export const tooManyFiles: Issue = {
  file: "",
  code: "too_many_files",
  message: `Expected at most ${packageLimits.files} files, got more`,
};

/** The issues of a listing; empty: the entries may be those of a package. Call this before reading any of them. */
export const checkListed = (entries: readonly Listed[]): Issue[] => {
  if (entries.length > packageLimits.files) return [tooManyFiles];
  const issues: Issue[] = [];
  const seen = new Map<string, string>();
  for (const { path, kind, bytes } of entries) {
    const file = printable(path);
    const add = (code: string, message: string) => issues.push({ file, code, message });
    const folded = path.normalize("NFC").toLowerCase();
    const other = seen.get(folded);
    seen.set(folded, path);
    if (other === path) add("duplicate", "Expected one file of this path, got two");
    else if (other !== undefined)
      add("case_clash", `Expected paths that differ in more than case, got ${printable(other)} too`);
    else if (kind === "link") add("link", "Expected a regular file, got a symbolic link");
    else if (kind === "other") add("not_a_file", "Expected a regular file, got something else");
    else if (!forms.some((form) => form.test(path))) add("unexpected_file", `Expected only ${allowed}`);
    else if (bytes > packageLimits.fileBytes)
      add("too_large", `Expected at most ${packageLimits.fileBytes} bytes, got ${bytes}`);
  }
  const total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total > packageLimits.bytes)
    issues.push({
      file: "",
      code: "too_large",
      message: `Expected at most ${packageLimits.bytes} bytes, got ${total}`,
    });
  return issues;
};

/** An untrusted path in a form that is safe in a message. */
const printable = (path: string): string => {
  const short = path.length > 120 ? `${path.slice(0, 120)}…` : path;
  return /^[\x21-\x7e]+$/.test(short) ? short : JSON.stringify(short.toWellFormed()).replaceAll(/[^\x20-\x7e]/g, "?");
};

const domain = Buffer.from("sortie squad package 1\n");

/**
 * The bytes whose SHA-256 is the digest: the domain, then for each file, sorted by code unit, the length of its path,
 * the path, the length of its bytes, the bytes. Lengths are 8 bytes, big-endian. The snapshot of a revision is stored
 * in this form, so that it is found by its digest and can be verified.
 */
export const encode = (files: readonly PackageFile[]): Buffer =>
  Buffer.concat([
    domain,
    ...files
      .toSorted((one, other) => (one.path < other.path ? -1 : one.path > other.path ? 1 : 0))
      .flatMap(({ path, bytes }) => [...prefixed(Buffer.from(path)), ...prefixed(bytes)]),
  ]);

const prefixed = (bytes: Buffer): [Buffer, Buffer] => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(bytes.length));
  return [length, bytes];
};

/** The files of a snapshot; undefined: the bytes are something else. */
export const decode = (snapshot: Buffer): PackageFile[] | undefined => {
  if (!snapshot.subarray(0, domain.length).equals(domain)) return undefined;
  const files: PackageFile[] = [];
  let at = domain.length;
  const take = (): Buffer => {
    const length = Number(snapshot.readBigUInt64BE(at));
    const end = at + 8 + length;
    if (end > snapshot.length) throw new RangeError(`Expected ${length} bytes at ${at + 8}, got fewer`);
    const bytes = snapshot.subarray(at + 8, end);
    at = end;
    return bytes;
  };
  while (at < snapshot.length) files.push({ path: take().toString("utf8"), bytes: take() });
  return files;
};

export const digestOf = (files: readonly PackageFile[]): string => hash("sha256", encode(files), "hex");
