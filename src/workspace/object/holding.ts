import type { Git } from "../git/git.ts";
import { blobOf } from "./blob.ts";
import type { Change } from "./tree-change.ts";

/** Finds texts in the files that a commit changes, whatever their sizes. */

/** Bytes. Once a text has been found anywhere, a larger file counts as one that holds it. */
const longestNamed = 64 * 1024 * 1024;

/** The changed files that hold one of these texts, each with the name of the first text found. */
export const filesContaining = async (
  git: Git,
  changes: readonly Change[],
  texts: Readonly<Record<string, string>>,
): Promise<{ change: Change; name: string }[]> => {
  const wanted = Object.entries(texts).map(([name, text]) => ({ name, bytes: Buffer.from(text) }));
  const files = changes.filter(({ to }) => to !== null && to.mode !== gitlink);
  if (wanted.length === 0 || files.length === 0 || !(await isAnywhere(git, files, wanted))) return [];
  const found: { change: Change; name: string }[] = [];
  for (const change of files) {
    const bytes = await blobOf(git, change.to?.object ?? "", longestNamed);
    const held = wanted.find((text) => bytes === undefined || bytes.includes(text.bytes));
    if (held !== undefined) found.push({ change, name: held.name });
  }
  return found;
};

const gitlink = "160000";

/** Whether any of the files holds any of the texts. Takes one process for all files; most commits need no more. */
const isAnywhere = async (
  git: Git,
  files: readonly Change[],
  wanted: readonly { bytes: Buffer }[],
): Promise<boolean> => {
  const overlap = Math.max(...wanted.map(({ bytes }) => bytes.length)) - 1;
  let found = false;
  let before: Buffer = Buffer.alloc(0);
  await git.run(["cat-file", "--batch"], {
    input: Buffer.from(files.map(({ to }) => `${to?.object}\n`).join("")),
    onOutput(chunk) {
      if (found) return;
      const text = Buffer.concat([before, chunk]);
      found = wanted.some(({ bytes }) => text.includes(bytes));
      before = text.subarray(Math.max(0, text.length - overlap));
    },
  });
  return found;
};
