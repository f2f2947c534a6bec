import { hash } from "node:crypto";
import { createFiles, FileRefused } from "../../workspace/file/files.ts";

/** A file by which a project asks for something that only the operator grants, and only for exactly these bytes. */
export type ProjectFile = { digest: string; text: string };

const mostBytes = 64 * 1024;

/**
 * Reads it from the user's directory. undefined: it is not there, nor where the directory itself is gone, which is
 * reported where that is needed. Rejects with `FileRefused` if it cannot be read.
 */
export const readProjectFile = async (directory: string, path: string): Promise<ProjectFile | undefined> => {
  try {
    const { bytes } = await createFiles(directory).read(path, mostBytes);
    return { digest: hash("sha256", bytes, "hex"), text: Buffer.from(bytes).toString("utf8") };
  } catch (error) {
    if (error instanceof FileRefused && error.kind !== "missing") throw error;
    return undefined;
  }
};
