import { reversePatch } from "diff";
import { asBuffer, type Job } from "../../thread.ts";
import { FileRefused } from "../../workspace/file/files.ts";
import { type Content, type Fitted, sameContent, type Tree } from "../file/change.ts";
import { nearest, numbered, textOf } from "../file/text.ts";
import { counted, shown, truncateMiddle } from "../result.ts";
import { countChanges } from "./difference.ts";
import { type Effort, TooMuch } from "./match.ts";
import { fitExactly } from "./patch-exact.ts";
import { fitParts, parseLoosely } from "./patch-format.ts";
import { type ApplyMode, byLines, type FilePatch, type Patch, pathsOf, readPatch } from "./patch-read.ts";

/**
 * Fits a patch to files, in memory. A job for a thread, because large files or very many hunks take longer than the
 * service may be blocked. A unified diff is tried exactly (hunks may have moved as a whole), then three-way if Git has
 * the versions it was made from, then by its lines alone, like every `*** Begin Patch`.
 */

export type FitRequest = {
  patch: string;
  mode: ApplyMode;
  /** The files that the patch names; undefined: not loaded yet. They are returned with the answer. */
  before?: Tree | undefined;
  /** Whether Git is available. */
  git: boolean;
  /** The result of the three-way fit. */
  merged?: Fitted;
  /** Return "too much" rather than take long. */
  little?: boolean;
};

type Answer =
  | { kind: "says"; ok: boolean; text: string }
  | { kind: "refused"; refusal: { kind: FileRefused["kind"]; message: string } }
  /** The caller must load these files and ask again. */
  | { kind: "files"; paths: string[] }
  /** The patch does not fit exactly but names the versions it was made from, so Git must try it. */
  | { kind: "three-way"; text: string; strip: 0 | 1 }
  | { kind: "change"; changes: { path: string; after: Content | null }[]; summary: string };

export type FitAnswer = Answer & { before?: Tree | undefined };

const littleEffort: Effort = { maxEditLength: 200, timeout: 5 };

/** Milliseconds for counting the changed lines of all files together. */
const countMs = 2000;

export const fit = (request: FitRequest): FitAnswer | "too much" => {
  try {
    const before = request.before && new Map([...request.before].map(([path, content]) => [path, revived(content)]));
    return { ...answerTo({ ...request, before }), before };
  } catch (error) {
    if (error instanceof TooMuch) return "too much";
    if (error instanceof FileRefused) return { kind: "refused", refusal: { kind: error.kind, message: error.message } };
    throw error;
  }
};

export const fitting: Job<FitRequest, FitAnswer | "too much"> = { name: "patch", run: fit };

const revived = (content: Content | null): Content | null =>
  content === null ? null : { ...content, bytes: asBuffer(content.bytes) };

const says = (ok: boolean, text: string): Answer => ({ kind: "says", ok, text });

const answerTo = (request: FitRequest): Answer => {
  const patch = readPatch(request.patch, request.mode);
  if ("refused" in patch) return says(false, patch.refused);
  const { before } = request;
  if (before === undefined) return { kind: "files", paths: pathsOf(patch) };
  const effort = request.little === true ? littleEffort : undefined;
  if (patch.kind === "lines") return finish(request, before, fitParts(before, patch.parts, effort), "");
  if (request.mode === "check-applied") return applied(before, patch);
  const exact: Fitted = patch.binary ? { ok: false, why: "It holds a binary part." } : fitAll(before, patch.list);
  if (exact.ok) return finish(request, before, exact, "");
  // Without the original versions Git could only guess a place, and `exact` failed to find one.
  if (patch.versions && request.git && request.merged === undefined)
    return { kind: "three-way", text: patch.text, strip: patch.strip };
  const merged = request.merged ?? exact;
  if (merged.ok) return finish(request, before, merged, ", three-way");
  const parts = patch.binary ? [] : parseLoosely(patch.text, patch.strip);
  const loose =
    "refused" in parts || parts.length === 0 || !plain(patch.list)
      ? exact
      : fitParts(before, byLines(parts).parts, effort);
  return finish(request, before, loose.ok ? loose : { ok: false, why: reason(exact, merged) }, "");
};

/** Whether the patch changes lines only: no mode, rename or copy. */
const plain = (list: readonly FilePatch[]): boolean =>
  list.every(({ patch }) => patch.newMode === undefined && patch.isRename !== true && patch.isCopy !== true);

const reason = (exact: Fitted & { ok: false }, fitted: { why: string }): string =>
  exact.why === fitted.why ? fitted.why : `${exact.why}\n${fitted.why}`;

const applied = (before: Tree, { list, binary }: Patch & { kind: "unified" }): Answer => {
  const there = fitAll(
    before,
    list.map(({ from, to, patch }) => ({ from: to, to: from, patch: reversePatch(patch) })).reverse(),
  );
  const modes = list.every(
    ({ to, patch: { newMode } }) =>
      newMode === undefined || to === null || before.get(to)?.executable === (newMode === "100755"),
  );
  return there.ok && modes && !binary
    ? says(true, "All of the patch is in the files already.")
    : says(false, "Not all of the patch is in the files.");
};

const finish = (
  { mode, little = false }: FitRequest,
  before: Tree,
  fitted: Fitted & { notes?: string[] },
  how: string,
): Answer => {
  if (!fitted.ok)
    return says(
      false,
      truncateMiddle(`The patch does not apply; nothing was changed.\n${fitted.why}`, "read the files", 8000),
    );
  const changes = [...fitted.tree].flatMap(([path, content]) => {
    const after = revived(content);
    return sameContent(before.get(path) ?? null, after) ? [] : [{ path, after }];
  });
  if (changes.length === 0) return says(true, "Nothing to change: all of the patch is in the files already.");
  const files = counted(changes.length, "file");
  if (mode === "check") return says(true, `The patch applies; it changes ${files}.`);
  const until = performance.now() + countMs;
  const summaries = changes.map(({ path, after }) => summaryOf(path, before.get(path) ?? null, after, until, little));
  const summary = [`Applied the patch to ${files}${how}.`, ...summaries, ...(fitted.notes ?? []).slice(0, 20)];
  return { kind: "change", changes, summary: summary.join("\n") };
};

/** `M path (+2 -1)`; without the counts for a binary file, or for a file with too many differences. */
const summaryOf = (
  path: string,
  before: Content | null,
  after: Content | null,
  until: number,
  little: boolean,
): string => {
  const head = `${before === null ? "A" : after === null ? "D" : "M"} ${shown(path)}`;
  const [old, fresh] = [before, after].map((content) => (content === null ? "" : textOf(content.bytes)));
  if (old === undefined || fresh === undefined) return head;
  const timeout = Math.min(200, until - performance.now());
  if (timeout < 0) return head;
  const count = countChanges(old, fresh, little ? littleEffort : { maxEditLength: 2000, timeout });
  if (count === undefined && little) throw new TooMuch();
  return count === undefined ? head : `${head} (+${count.added} -${count.removed})`;
};

const fitAll = (before: Tree, list: readonly FilePatch[]): Fitted => {
  const tree: Tree = new Map(before);
  for (const { from, to, patch } of list) {
    const name = shown(to ?? from ?? "");
    const source = from === null ? null : (tree.get(from) ?? null);
    if (from !== null && source === null)
      return { ok: false, why: `Expected a file at ${shown(from)}, got nothing there.` };
    if (to !== null && to !== from && (tree.get(to) ?? null) !== null)
      return { ok: false, why: `Expected nothing at ${name} yet, got a file there.` };
    const text = source === null ? "" : textOf(source.bytes);
    if (text === undefined) return { ok: false, why: `Expected text in ${shown(from ?? "")}, got a binary file.` };
    const fitted = patch.hunks.length === 0 ? { text } : fitExactly(text, patch);
    if ("doubtful" in fitted) {
      const { doubtful: index, lines } = fitted;
      return {
        ok: false,
        why: `Rejected: ${name}, hunk ${index + 1} of ${patch.hunks.length}: its lines are not at line ${patch.hunks[index]?.oldStart}, but at lines ${lines.join(", ")}.`,
      };
    }
    if ("failed" in fitted) return { ok: false, why: rejected(name, text, patch, fitted.failed) };
    if (to === null && fitted.text !== "")
      return { ok: false, why: `Expected ${name} to be empty after its lines are removed, got more lines.` };
    if (from !== null && patch.isCopy !== true) tree.set(from, null);
    const executable = patch.newMode === undefined ? (source?.executable ?? false) : patch.newMode === "100755";
    if (to !== null) tree.set(to, { bytes: Buffer.from(fitted.text), executable });
  }
  return { ok: true, tree };
};

/** Reports the hunk that does not fit, with the nearest lines of the file. */
const rejected = (name: string, text: string, patch: FilePatch["patch"], index: number): string => {
  const hunk = patch.hunks[index];
  if (hunk === undefined) return `${name} does not fit.`;
  const head = `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`;
  const wanted = hunk.lines.filter((line) => !/^[+\\]/.test(line)).map((line) => line.slice(1));
  const near = nearest(text, wanted.join("\n"));
  const there =
    near === undefined ? "" : `\nThe nearest lines of ${name} are:\n${numbered(near.lines.slice(0, 40), near.first)}`;
  return `Rejected: ${name}, hunk ${index + 1} of ${patch.hunks.length}:\n${[head, ...hunk.lines].slice(0, 60).join("\n")}${there}`;
};
