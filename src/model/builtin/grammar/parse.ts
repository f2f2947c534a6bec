import { parsePatch } from "diff";
import { messageOf } from "../../../error.ts";
import type { PromptFile } from "../../model.ts";
import { clauseOf, type Instruction } from "./instruction.ts";
import { normal, pathProblem } from "./path.ts";
import { type Block, infoOf, scan } from "./block.ts";

/**
 * Parses a request by the grammar of the built-in model. Pure and total: every line, block and attachment ends up in an
 * instruction or in `unknown`; nothing is guessed. Paths are checked here, before any effect.
 */

export type Parsed = {
  instructions: Instruction[];
  unknown: { said: string; why: string | undefined }[];
};

export const parse = (text: string, files: readonly PromptFile[]): Parsed => {
  const unknown: Parsed["unknown"] = [];
  const instructions: Instruction[] = [];
  const attached = new Map<string, Instruction>();
  const placed = new Set<string>();
  for (const [at, file] of files.entries()) {
    const found = fromFile(file);
    if ("why" in found) unknown.push({ said: `attachment ${file.filename}`, why: found.why });
    else attached.set(`${file.filename}\0${at}`, found);
  }

  const elements = scan(text);
  for (const [at, element] of elements.entries()) {
    if (element.kind === "block") {
      const found = fromBlock(element);
      if ("why" in found) unknown.push({ said: `block \`\`\`${element.info}`, why: found.why });
      else instructions.push(found);
      continue;
    }
    const line = bare(element.text);
    if (line === "" || frame.test(line)) continue;
    if (/[:：]$/.test(line) && nextSaid(elements, at)?.kind === "block") {
      const why = captionProblem(line);
      if (why !== undefined) unknown.push({ said: line, why });
      continue;
    }
    for (let rest = line, before: Instruction | undefined; rest !== ""; ) {
      const clause = clauseOf(rest, before);
      if (clause === undefined || "why" in clause) {
        unknown.push({ said: rest, why: clause?.why });
        break;
      }
      if ("instruction" in clause) {
        instructions.push(clause.instruction);
        before = clause.instruction;
      } else {
        const names = [...attached.keys()].filter(
          (key) => clause.attached === undefined || key.startsWith(`${clause.attached}\0`),
        );
        if (names.length === 0) unknown.push({ said: rest.slice(0, clause.length), why: "no such patch is attached" });
        for (const name of names) {
          placed.add(name);
          instructions.push(...[attached.get(name)].filter((found) => found !== undefined));
        }
      }
      const after = rest.slice(clause.length);
      const gap = /^(?:[\s,;.!]|(?:and|then|please)(?![\w-]))*/i.exec(after)?.[0] ?? "";
      rest = after.slice(gap.length);
      if (rest !== "" && gap.trim() === "") {
        unknown.push({ said: rest, why: undefined });
        break;
      }
      if (rest !== "" && "instruction" in clause && clause.instruction.kind === "run" && /^report[.!]*$/i.test(rest))
        break;
    }
  }
  // An attached patch that no line names comes first: lines such as "run the tests" refer to the state after it.
  const first = [...attached].filter(([name]) => !placed.has(name)).map(([, instruction]) => instruction);
  return { instructions: [...first, ...instructions], unknown };
};

/** The next block, or line that is not blank. */
const nextSaid = (elements: ReturnType<typeof scan>, at: number): ReturnType<typeof scan>[number] | undefined => {
  for (let index = at + 1; index < elements.length; index += 1) {
    const later = elements[index];
    if (later?.kind === "block" || later?.text.trim() !== "") return later;
  }
  return undefined;
};

/** The line without numbering, bullets, open check boxes, a leading @mention, and filler words. */
const bare = (line: string): string =>
  line
    .trim()
    .replace(/^(?:(?:[-*+•–]|\(?\d{1,4}[.)]|\[ \])\s+)+/, "")
    .replace(/^@[\w-]+[\s,:]+/, "")
    .replace(/^(?:(?:and|then|please)(?![\w-])[\s,]*)+/i, "")
    .trim();

/**
 * Lines that frame the text of a forge's event (forge/intake.ts). Each is a whole line, and only says where the text
 * comes from.
 */
const frame =
  /^(?:Do what issue \d+ of \S+ asks for\. What follows is from there: .*|A review of your pull request says what to change:|On \S+(?:, line \d+)?:|<data from="(?:issue|comment|review) [^"<>]*">|<\/data>)$/;

// ---- blocks and attachments ----------------------------------------------------------------------------------------

const fileKeys = ["file", "path", "title"];

const fromBlock = (block: Block): Instruction | { why: string } => {
  if (!block.closed) return { why: "the block has no end" };
  const { language, attributes, extra } = infoOf(block.info);
  const odd = [...attributes.keys()].find((key) => !fileKeys.includes(key)) ?? extra[0];
  const named = [...new Set(fileKeys.flatMap((key) => attributes.get(key) ?? []))];
  const isPatch = language === "diff" || language === "patch";
  if (odd !== undefined && (named.length > 0 || isPatch)) return { why: `"${odd}" is not known here` };
  if (named.length > 1) return { why: "it names two files" };
  const [path] = named;
  if (path !== undefined && isPatch)
    return { why: "a diff names its files itself; with file= it could mean two things" };
  if (path !== undefined) {
    const why = pathProblem(path);
    return why === undefined
      ? { kind: "write", path: normal(path), content: block.content, said: `write ${path}` }
      : { why };
  }
  if (isPatch) return fromPatch(block.content, `${language} block`);
  return { why: "a block is `diff`, `patch`, or has file=PATH" };
};

const fromFile = ({ filename, mime, bytes }: PromptFile): Instruction | { why: string } => {
  if (!/\.(patch|diff)$/i.test(filename) && !/^text\/x-(diff|patch)\b/i.test(mime))
    return { why: "only patches can be attached" };
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return fromPatch(text, `attachment ${filename}`);
  } catch {
    return { why: "it is not UTF-8 text" };
  }
};

const fromPatch = (patch: string, name: string): Instruction | { why: string } => {
  try {
    const named = parsePatch(patch).flatMap(({ oldFileName, newFileName }) => [oldFileName ?? "", newFileName ?? ""]);
    const strip = named.every((path) => path === "/dev/null" || path === "" || /^[a-z]\//.test(path));
    const paths = [...new Set(named.filter((path) => path !== "/dev/null" && path !== ""))].map((path) =>
      strip ? path.slice(2) : path,
    );
    if (paths.length === 0) return { why: "no diff with file names in it" };
    for (const path of paths) {
      const why = pathProblem(path);
      if (why !== undefined) return { why };
    }
    const unique = [...new Set(paths.map(normal))];
    return { kind: "apply", patch, paths: unique, said: `${name} (${unique.join(", ")})` };
  } catch (error) {
    return { why: `it cannot be read as a unified diff: ${messageOf(error)}` };
  }
};

// ---- captions ------------------------------------------------------------------------------------------------------

/** Words that change what a caption means: a negation, a condition, an example. */
const turning =
  /\b(?:not|never|no|none|cannot|without|unless|if|when|until|except|instead|only|avoid|skip|ignore|revert|undo|reverse|unapply|rather|example|e\.g)\b|n['’]t\b/i;
/** Work that a block cannot do. After "and" or a comma, `further` names more of it. */
const beyond =
  /^(?:find|investigate|explain|analy[sz]e|debug|refactor|review|check|verify|ensure|test|run|commit|push|deploy|delete|remove|rename|move|bump|summari[sz]e|describe|report|list)\b/i;
const further = /^(?:update|replace|fix|make|add|write|create|build|lint|format|document|implement|improve|change)\b/i;

const captionProblem = (line: string): string | undefined => {
  const turn = turning.exec(line);
  if (turn !== null) return `a caption with "${turn[0]}" may ask for something else than the block`;
  const clauses = line.split(/[,;.!?]\s|\b(?:and|then)\b/i).map((clause) => clause.trim());
  const odd = clauses.find((clause, at) => beyond.test(clause) || (at > 0 && further.test(clause)));
  return odd === undefined ? undefined : `"${odd}" asks for more than the block`;
};
