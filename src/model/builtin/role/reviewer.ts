import { parsePatch } from "diff";
import { type JudgedPart, readBrief } from "../../../domain/evidence/review-brief.ts";
import { parse } from "../grammar/parse.ts";
import type { Call } from "../step.ts";

/**
 * The built-in model as a reviewer. It can verify that a check passed, and, line by line of the diff, that a file
 * became what a block of the request says. For any other criterion it answers that it cannot tell.
 */

type Verdict = { verdict: "accepted" | "rejected" | "inconclusive"; notes: string };

/** The acceptance criterion of a slice that is one block of the request. */
export const asItsBlock = (path: string): string => `\`${path}\` is as its block of the request says`;

export const review = (text: string): Call => {
  const { request, diff, parts } = readBrief(text);
  const blocks = new Map(
    parse(undo(request), []).instructions.flatMap((instruction) =>
      instruction.kind === "write" ? [[instruction.path, instruction.content]] : [],
    ),
  );
  return {
    tool: "verdict",
    input: { parts: parts.map((judged) => ({ part: judged.part, ...judge(judged, blocks, undo(diff)) })) },
  };
};

/** Removes the marker of foreign text. */
const undo = (text: string): string => text.replace(/^<data [^\n]*>\n/, "").replace(/\n<\/data>$/, "");

/** The end of an evidence line about a check that was red before the work as well, which is not the work's fault. */
const tooBefore = ", before the work, too";
const onBase = /, (passed|failed|could not run) before the work\b.*$/;

const judge = ({ acceptance, evidence }: JudgedPart, blocks: ReadonlyMap<string, string>, diff: string): Verdict => {
  const red = evidence.filter(
    (line) => /^check: .* (failed|error)\b/.test(line.replace(onBase, "")) && !line.endsWith(tooBefore),
  );
  if (red.length > 0) return { verdict: "rejected", notes: red.join("; ") };
  if (acceptance.length === 0)
    return evidence.some((line) => line.startsWith("change: "))
      ? {
          verdict: "accepted",
          notes: "The request was carried out as it is spelled out. Nothing beyond that was judged: these are rules.",
        }
      : { verdict: "inconclusive", notes: "Nothing was changed that the rules could judge." };
  const judged = acceptance.map((criterion) => judgeOne(criterion, evidence, blocks, diff));
  const worst =
    judged.find(({ verdict }) => verdict === "rejected") ?? judged.find(({ verdict }) => verdict !== "accepted");
  return worst ?? { verdict: "accepted", notes: judged.map(({ notes }) => notes).join(" ") };
};

const judgeOne = (
  criterion: string,
  evidence: readonly string[],
  blocks: ReadonlyMap<string, string>,
  diff: string,
): Verdict => {
  const check = /^`(.+)` passes$/.exec(criterion)?.[1];
  if (check !== undefined)
    return evidence.some((line) => line === `check: ${check} passed` || line.startsWith(`check: ${check} passed, `))
      ? { verdict: "accepted", notes: `${check} passed.` }
      : { verdict: "rejected", notes: `The evidence does not show that ${check} passed.` };
  const path = [...blocks.keys()].find((each) => asItsBlock(each) === criterion);
  if (path !== undefined)
    return shows(diff, path, blocks.get(path) ?? "")
      ? { verdict: "accepted", notes: `${path} is as its block says, line by line of the diff.` }
      : { verdict: "rejected", notes: `The diff does not show ${path} as its block says.` };
  return {
    verdict: "inconclusive",
    notes: `The rules cannot judge "${criterion}": they know checks and blocks of the request.`,
  };
};

/** Whether the diff shows the file, and every line of its new side is in the content at the same place. */
const shows = (diff: string, path: string, content: string): boolean => {
  const lines = content.split("\n");
  try {
    const file = parsePatch(diff).find(({ newFileName }) => newFileName === `b/${path}`);
    return (
      file !== undefined &&
      file.hunks.every(({ newStart, lines: shown }) =>
        shown
          .filter((line) => line.startsWith("+") || line.startsWith(" "))
          .every((line, index) => lines[newStart - 1 + index] === line.slice(1)),
      )
    );
  } catch {
    // The diff was truncated.
    return false;
  }
};
