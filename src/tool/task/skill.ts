import { parse } from "yaml";
import { z } from "zod";
import { messageOf } from "../../error.ts";
import type { Files } from "../../workspace/file/files.ts";
import { markForeign, failed, truncateMiddle, ok, shown, truncatedResult } from "../result.ts";
import type { Tool, ToolContext, ToolResult } from "../tool.ts";

/**
 * Agent Skills of the project: folders with a `SKILL.md`, whose front matter describes the skill's purpose. Agents see
 * the descriptions and read a skill when it fits.
 */

export type Skill = { name: string; description: string; folder: string };

const places = [".agents/skills", ".claude/skills", ".sortie/skills"];
const maxSkills = 32;
const maxBytes = 256 * 1024;
const maxFiles = 50;

/** In bytes: YAML is slow to parse, and the front matter is parsed whenever a Task begins. */
const mostFrontMatter = 8 * 1024;

const frontMatter = z.object({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/),
  description: z.string().trim().min(1),
});

/** The usable skills. `broken` is called with the reason for each skill that is not usable. */
export const findSkills = async (files: Files, broken: (why: string) => void = () => {}): Promise<Skill[]> => {
  const skills = new Map<string, Skill>();
  for (const place of places) {
    const { entries } = await files.list(place, { limit: 4 * maxSkills }).catch(() => ({ entries: [] }));
    for (const { path, kind } of entries) {
      if (kind !== "directory" || skills.size >= maxSkills) continue;
      const read = await readSkill(files, path);
      if (typeof read === "string") broken(`${path}/SKILL.md: ${read}`);
      else if (skills.has(read.name))
        broken(`${path}/SKILL.md: the name ${read.name} is taken by ${skills.get(read.name)?.folder}`);
      else skills.set(read.name, { name: read.name, description: read.description, folder: path });
    }
  }
  return [...skills.values()];
};

/** The front matter and text of one skill, or the reason why it cannot be used. */
const readSkill = async (
  files: Files,
  folder: string,
): Promise<(z.infer<typeof frontMatter> & { body: string }) | string> => {
  try {
    const { bytes } = await files.read(`${folder}/SKILL.md`, maxBytes);
    const parts = /^\uFEFF?---\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/.exec(bytes.toString("utf8"));
    if (parts === null) return "expected front matter between two lines of ---";
    const size = Buffer.byteLength(parts[1] ?? "");
    if (size > mostFrontMatter) return `expected front matter of at most ${mostFrontMatter} bytes, got ${size}`;
    const head = frontMatter.safeParse(parse(parts[1] ?? "", { maxAliasCount: 10 }));
    if (!head.success) return head.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ");
    return { ...head.data, body: bytes.toString("utf8").slice(parts[0].length).trim() };
  } catch (error) {
    return messageOf(error).split("\n")[0] ?? "";
  }
};

const input = z.strictObject({ name: z.string().min(1).describe("The skill's name, as listed") });

export const skill: Tool<z.infer<typeof input>> = {
  name: "skill",
  description:
    "Reads one of the skills: instructions for a kind of work, with the files that belong to it. The skills are listed with what each is for; read one before you begin work that it fits.",
  input,
  effect: "none",
  run: (asked, context) => readAny([], asked, context),
};

/** A squad's own skill, whose text is trusted like the squad's instructions. */
export type OwnSkill = { name: string; description: string; text: string };

/**
 * The tool for agents of a squad with its own skills, which take precedence over the project's skills of the same name.
 */
export const skillOf = (own: readonly OwnSkill[]): Tool<z.infer<typeof input>> =>
  own.length === 0 ? skill : { ...skill, run: (asked, context) => readAny(own, asked, context) };

const readAny = async (
  own: readonly OwnSkill[],
  { name }: z.infer<typeof input>,
  context: ToolContext,
): Promise<ToolResult> => {
  const {
    workspace: { files },
    signal,
  } = context;
  const owned = own.find((candidate) => candidate.name === name);
  if (owned !== undefined) return truncatedResult(owned.text, context);
  const skills = await findSkills(files);
  signal.throwIfAborted();
  const found = skills.find((candidate) => candidate.name === name);
  if (found === undefined) {
    const names = [...own, ...skills].map((one) => one.name);
    return failed(`There is no skill "${name}". Skills: ${names.join(", ") || "none"}.`);
  }
  const read = await readSkill(files, found.folder);
  if (typeof read === "string") return failed(`The skill ${name} cannot be read: ${read}.`);
  const { entries } = await files.list(found.folder, { depth: 3, limit: maxFiles });
  const others = entries.filter(({ kind, path }) => kind === "file" && path !== `${found.folder}/SKILL.md`);
  const list =
    others.length === 0
      ? ""
      : `\n\nIts files, for \`read\` and \`shell\`:\n${others.map(({ path }) => shown(path)).join("\n")}`;
  const text = truncateMiddle(read.body, `read ${found.folder}/SKILL.md for the rest`);
  return ok(markForeign(`${found.folder}/SKILL.md`, text) + list);
};
