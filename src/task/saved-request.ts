import { parse } from "yaml";
import { z } from "zod";
import type { SavedRequest } from "../protocol/task/saved-request.ts";
import type { Files } from "../workspace/file/files.ts";

/**
 * The requests that a project keeps in `.claude/commands`, in the format that users of other agents know: Markdown with
 * arguments. Their front matter grants nothing: what it says about tools and models is ignored.
 */

const place = ".claude/commands";
const mostFiles = 100;
const mostBytes = 64 * 1024;
const mostAll = 1024 * 1024;
/**
 * Longer front matter is not parsed as YAML: the parser takes up to a tenth of a second for eight times this many
 * bytes.
 */
const mostYaml = 1024;
const longestWords = 300;

const head = z.object({ description: z.unknown().optional(), "argument-hint": z.unknown().optional() });

/** Sorted by name. Leaves out files that cannot be read or are too long. */
export const savedRequests = async (files: Files): Promise<SavedRequest[]> => {
  const { entries } = await files.list(place, { depth: 3, limit: 4 * mostFiles }).catch(() => ({ entries: [] }));
  const found: SavedRequest[] = [];
  let room = mostAll;
  for (const { path, kind } of entries) {
    const name = kind === "file" ? nameOf(path) : undefined;
    if (name === undefined || found.length === mostFiles || found.some((other) => other.name === name)) continue;
    const read = await files.read(path, mostBytes).catch(() => undefined);
    if (read === undefined || read.bytes.length > room) continue;
    room -= read.bytes.length;
    const saved = parsed(name, read.bytes.toString("utf8"));
    if (saved !== undefined) found.push(saved);
  }
  return found.toSorted((one, other) => (one.name < other.name ? -1 : 1));
};

const nameOf = (path: string): string | undefined => {
  const inner = path.startsWith(`${place}/`) ? path.slice(place.length + 1) : path;
  const name = inner.endsWith(".md") ? inner.slice(0, -".md".length).replaceAll("/", ":") : "";
  return /^[A-Za-z0-9][\w.:-]{0,127}$/.test(name) ? name : undefined;
};

const parsed = (name: string, whole: string): SavedRequest | undefined => {
  const parts = /^\uFEFF?---\r?\n([\s\S]*?)\r?\n?---[ \t]*(?:\r?\n|$)/.exec(whole);
  const text = whole
    .slice(parts?.[0].length ?? 0)
    .replace(/^\uFEFF/, "")
    .trim();
  if (text === "") return undefined;
  const { description, "argument-hint": hint } = headOf(parts?.[1] ?? "");
  return {
    name,
    description: wordsOf(description) ?? wordsOf(text.split("\n")[0]?.replace(/^#+\s*/, "")) ?? name,
    arguments: wordsOf(hint) ?? null,
    text,
  };
};

/** A value that is not a plain word is not converted: it may have a `toString` of its own, made up by the file. */
const wordOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "…";

/** `[issue] [priority]` is a list to YAML and a hint to people. */
const wordsOf = (value: unknown): string | undefined => {
  const text =
    typeof value === "string" ? value : Array.isArray(value) ? value.map((one) => `[${wordOf(one)}]`).join(" ") : "";
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line === "" ? undefined : line.slice(0, longestWords);
};

const headOf = (text: string): z.infer<typeof head> => {
  if (text === "") return {};
  if (Buffer.byteLength(text) <= mostYaml)
    try {
      return head.safeParse(parse(text, { maxAliasCount: 10 })).data ?? {};
    } catch {
      // A hint such as `[issue] [priority]` is not valid YAML.
    }
  // Read the two lines without a parser.
  const line = (key: string) => new RegExp(`^${key}:[ \\t]*(.*)$`, "m").exec(text)?.[1];
  return { description: line("description"), "argument-hint": line("argument-hint") };
};
