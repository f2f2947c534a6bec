/** File access confined to one root; the only module besides git.ts and process.ts that touches project files. */

/** Why a path was not read or written; the message says expected and got, for a model or a caller. */
export class FileRefused extends Error {
  readonly kind: "missing" | "outside" | "protected" | "not-a-file" | "too-big" | "linked";
  constructor(kind: FileRefused["kind"], message: string) {
    super(message);
    this.name = "FileRefused";
    this.kind = kind;
  }
}

export type Entry = { path: string; kind: "file" | "directory" | "link" | "other"; bytes: number };

/** Paths are relative to the root, `/`-separated. Every operation rejects with FileRefused when it may not or cannot. */
export interface Files {
  readonly root: string;
  read(path: string, maxBytes: number): Promise<{ bytes: Buffer; executable: boolean }>;
  /** Creates missing folders; replaces atomically; keeps the mode of a file that was there. */
  write(path: string, bytes: string | Uint8Array, options?: { executable?: boolean }): Promise<{ created: boolean }>;
  remove(path: string): Promise<void>;
  /** Entries of one folder by name; with `depth`, of the folders below too. `.git` is never listed. */
  list(path: string, options?: { depth?: number; limit?: number }): Promise<{ entries: Entry[]; truncated: boolean }>;
}
