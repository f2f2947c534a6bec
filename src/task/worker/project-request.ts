import { hash } from "node:crypto";
import { createFiles, FileRefused } from "../../workspace/file/files.ts";

/** A file in which a project asks for something that only the operator can grant, and only for exactly these bytes. */
export type ProjectFile = { digest: string; text: string };

const mostBytes = 64 * 1024;

/**
 * Reads such a file from the user's directory. undefined: the file is missing, or the directory itself, which is
 * reported where it is needed. Rejects with `FileRefused` if the file cannot be read.
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
