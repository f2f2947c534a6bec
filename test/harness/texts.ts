import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The contents of all files below a folder, as bytes in latin1, beside a service that goes on: what vanishes meanwhile
 * is left out.
 */
export const textsIn = (folder: string): [path: string, text: string][] =>
  orNothing(() => readdirSync(folder, { withFileTypes: true })).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return textsIn(path);
    return entry.isFile() ? orNothing(() => [[path, readFileSync(path, "latin1")]]) : [];
  });

const orNothing = <T>(read: () => T[]): T[] => {
  try {
    return read();
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) return [];
    throw error;
  }
};
