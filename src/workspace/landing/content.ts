import { createHash } from "node:crypto";
import { ftruncateSync, mkdirSync, writeSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { errorCode } from "../../error.ts";
import { hashOf } from "../../hash.ts";
import { checkOut } from "../object/blob.ts";
import { readFileState, readParts, sha256 } from "../file/inspect.ts";
import type { Source } from "../file/replace.ts";
import type { Git } from "../git/git.ts";
import { changesOf } from "../object/tree-change.ts";
import type { LandingPlan } from "../workspace.ts";

/**
 * Finds the bytes that a landing writes to a file. They are verified against the plan's hash before anything is
 * replaced.
 */

export type ContentRequest = { worktree: string; git: Git; plan: LandingPlan; kept: string };

export type LandedFile = { mode: string; sha256: string; object?: string };

/**
 * The bytes to write: kept ones, else those in the Task's worktree, else the repository's as git would check them out.
 */
export const landedContent = async (request: ContentRequest, path: string, wanted: LandedFile): Promise<Source> => {
  const { mode } = wanted;
  const inRepository = async (onPart: (part: Buffer) => unknown) => {
    const object = wanted.object ?? (await objectAt(request, path));
    if (object !== undefined) await checkOut(request.git, { object, path, mode }, onPart);
  };
  const missing = () =>
    new Error(`Expected the bytes ${wanted.sha256} for "${path}", got others from worktree and repository.`);
  if (mode === "120000") {
    const there = await readFileState(request.worktree, path, mostLink);
    if (there.kind === "present" && sha256(there.content.bytes) === wanted.sha256)
      return { mode, bytes: there.content.bytes };
    const parts: Buffer[] = [];
    await inRepository((part) => parts.push(part));
    const bytes = Buffer.concat(parts);
    if (sha256(bytes) !== wanted.sha256) throw missing();
    return { mode, bytes };
  }
  const kept = await keptBytes(request.kept, wanted.sha256);
  if (kept !== undefined) return { mode, fill: (file) => file.writeFile(kept) };
  return {
    mode,
    async fill(file) {
      const hash = createHash("sha256");
      await readParts(request.worktree, path, async (part) => {
        hash.update(part);
        await file.writeFile(part);
      });
      if (hash.digest("hex") === wanted.sha256) return;
      const again = createHash("sha256");
      ftruncateSync(file.fd);
      let at = 0;
      await inRepository((part) => {
        again.update(part);
        for (let from = 0; from < part.length; ) {
          const count = writeSync(file.fd, part, from, part.length - from, at);
          from += count;
          at += count;
        }
      });
      if (again.digest("hex") !== wanted.sha256) throw missing();
    },
  };
};

/** Bytes; no link has a longer target. */
const mostLink = 64 * 1024;

const objectAt = async ({ git, plan }: ContentRequest, path: string): Promise<string | undefined> =>
  (await changesOf(git, plan.from, plan.commit)).find((change) => change.path === path)?.from?.object;

/**
 * Keeps the user's bytes and the merged ones, named by SHA-256, until the landing is done. Returns the SHA-256; the
 * bytes are durable by then.
 */
export const keepBytes = async (folder: string, bytes: Buffer): Promise<string> => {
  const hash = await hashOf(bytes);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  await using file = await open(join(folder, hash), "w", 0o600);
  await file.writeFile(bytes);
  await file.sync();
  return hash;
};

const keptBytes = async (folder: string, hash: string): Promise<Buffer | undefined> => {
  const bytes = await readFile(join(folder, hash)).catch((error: unknown) => {
    if (errorCode(error) !== "ENOENT") throw error;
  });
  return bytes !== undefined && (await hashOf(bytes)) === hash ? bytes : undefined;
};
