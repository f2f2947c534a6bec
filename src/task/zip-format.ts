import type { FileHandle } from "node:fs/promises";

/**
 * The records of the ZIP format (APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3). Names are UTF-8, times the format's first
 * day, permissions those of Unix. More than 65,534 entries or 4 GiB are told by the ZIP64 records.
 */

export type Entry = {
  name: Buffer;
  /** As `st_mode`: file type and permissions. */
  mode: number;
  /** 0 = stored, 8 = deflated. */
  method: 0 | 8;
  crc: number;
  packed: number;
  size: number;
  /** Where the local header stands. */
  offset: number;
};

/** The largest file; sizes of one file are never told by ZIP64. */
export const maxFileBytes = 0xf000_0000;

const max16 = 0xffff;
const max32 = 0xffff_ffff;
const utf8Names = 0x0800;
const firstDay = 0x0021;
const plainVersion = 20;
const zip64Version = 45;
const madeByUnix = (3 << 8) | zip64Version;

/** Method, time, date, checksum, sizes and name length, which both headers share. */
const writeCommon = (record: Buffer, at: number, { method, crc, packed, size, name }: Entry): void => {
  record.writeUInt16LE(utf8Names, at);
  record.writeUInt16LE(method, at + 2);
  record.writeUInt16LE(firstDay, at + 6);
  record.writeUInt32LE(crc, at + 8);
  record.writeUInt32LE(packed, at + 12);
  record.writeUInt32LE(size, at + 16);
  record.writeUInt16LE(name.length, at + 20);
};

export const localHeader = (entry: Entry): Buffer => {
  const record = Buffer.alloc(30 + entry.name.length);
  record.writeUInt32LE(0x04034b50, 0);
  record.writeUInt16LE(plainVersion, 4);
  writeCommon(record, 6, entry);
  entry.name.copy(record, 30);
  return record;
};

export const centralRecord = (entry: Entry): Buffer => {
  const far = entry.offset >= max32;
  const nameEnd = 46 + entry.name.length;
  const record = Buffer.alloc(nameEnd + (far ? 12 : 0));
  record.writeUInt32LE(0x02014b50, 0);
  record.writeUInt16LE(madeByUnix, 4);
  record.writeUInt16LE(far ? zip64Version : plainVersion, 6);
  writeCommon(record, 8, entry);
  record.writeUInt16LE(far ? 12 : 0, 30);
  record.writeUInt32LE((entry.mode << 16) >>> 0, 38);
  record.writeUInt32LE(far ? max32 : entry.offset, 42);
  entry.name.copy(record, 46);
  if (far) {
    record.writeUInt16LE(0x0001, nameEnd);
    record.writeUInt16LE(8, nameEnd + 2);
    record.writeBigUInt64LE(BigInt(entry.offset), nameEnd + 4);
  }
  return record;
};

/** What stands behind the directory, which begins at `offset`. */
export const endRecords = (entries: number, offset: number, size: number): Buffer => {
  const large = entries >= max16 || offset >= max32 || size >= max32;
  const record = Buffer.alloc((large ? 76 : 0) + 22);
  const end = record.length - 22;
  if (large) {
    record.writeUInt32LE(0x06064b50, 0);
    record.writeBigUInt64LE(44n, 4);
    record.writeUInt16LE(madeByUnix, 12);
    record.writeUInt16LE(zip64Version, 14);
    record.writeBigUInt64LE(BigInt(entries), 24);
    record.writeBigUInt64LE(BigInt(entries), 32);
    record.writeBigUInt64LE(BigInt(size), 40);
    record.writeBigUInt64LE(BigInt(offset), 48);
    record.writeUInt32LE(0x07064b50, 56);
    record.writeBigUInt64LE(BigInt(offset + size), 64);
    record.writeUInt32LE(1, 72);
  }
  record.writeUInt32LE(0x06054b50, end);
  record.writeUInt16LE(Math.min(entries, max16), end + 8);
  record.writeUInt16LE(Math.min(entries, max16), end + 10);
  record.writeUInt32LE(Math.min(size, max32), end + 12);
  record.writeUInt32LE(Math.min(offset, max32), end + 16);
  return record;
};

/** Throws unless the file ends with the end record of so many entries. */
export const verifyEnd = async (file: FileHandle, entries: number): Promise<void> => {
  const { size } = await file.stat();
  const end = Buffer.alloc(22);
  await file.read(end, 0, end.length, size - end.length);
  const counted = end.readUInt16LE(10);
  if (end.readUInt32LE(0) !== 0x06054b50 || counted !== Math.min(entries, max16))
    throw new Error(`Expected a ZIP of ${entries} entries, got a directory of ${counted} in ${size} bytes`);
};
