import { z } from "zod";
import { FileRefused } from "../../workspace/file/files.ts";
import { pace } from "../../pace.ts";
import { inThread } from "../../thread.ts";
import { type Page, pageOf, paging } from "./page.ts";
import { installedNote } from "./installed.ts";
import { likenessTo } from "./text.ts";
import { answer, failed, ok, outputPath, shown } from "../result.ts";
import type { Tool, ToolContext, ToolResult } from "../tool.ts";

const input = z.strictObject({
  path: z.string().min(1).describe("Or `output:…`"),
  offset: z.number().int().min(1).max(1e9).optional().describe("First line, from 1"),
  limit: z.number().int().min(1).max(5000).optional().describe("Default 2000"),
  column: z.number().int().min(1).max(1e9).optional(),
});

/** In bytes. Larger files are for `search` and `shell`. */
const maxBytes = 16 * 1024 * 1024;
/** Largest file, in bytes, that is paged here rather than in a thread. */
const mostAtOnce = 1024 * 1024;

export const read: Tool<z.infer<typeof input>> = {
  name: "read",
  description:
    "Reads a text file, or the rest of a cut result. The number and the tab in front of each line are not part of it.",
  input,
  effect: "none",
  run: (page, context) =>
    answer(context.signal, async () => {
      const { path } = page;
      if (path.startsWith(outputPath)) {
        const kept = await context.kept(path.slice(outputPath.length));
        return kept === undefined ? failed(noOutput(path)) : shownPage(kept, { ...page, output: true }, context);
      }
      const { files } = context.workspace;
      let bytes: Buffer;
      try {
        ({ bytes } = await files.read(path, maxBytes));
      } catch (error) {
        if (!(error instanceof FileRefused)) throw error;
        if (error.kind === "too-big") return failed(`${error.message}.${partly(context)}`);
        if (error.kind !== "missing" && error.kind !== "not-a-file") throw error;
        const installed = installedNote(context, path);
        if (installed !== undefined) return failed(installed);
        return failed(`${error.message}. ${await hint(context, path, error.kind)}`.trim());
      }
      if (bytes.length === 0) return ok(`${shown(path)} is empty.`);
      return shownPage(bytes, page, context);
    }),
};

/** Names the other tools that can show a part of a file. */
const partly = ({ has }: Pick<ToolContext, "has">): string => {
  const others = [has("search") ? "`search`" : "", has("shell") ? "`shell` for a part of it" : ""];
  const named = others.filter((one) => one !== "").join(", or ");
  return named === "" ? "" : ` Use ${named}.`;
};

/** The answer when no output is stored under the path. */
export const noOutput = (path: string): string =>
  `Expected ${outputPath} and the id that a cut result of this Task named, got ${shown(path.slice(0, 100))}.`;

const shownPage = async (
  bytes: Buffer,
  page: Omit<Page, "bytes" | "commands">,
  { signal, has }: Pick<ToolContext, "signal" | "has">,
): Promise<ToolResult> => {
  const request = { ...page, bytes, commands: has("shell") };
  const found =
    bytes.length <= mostAtOnce ? pageOf(request) : await inThread(paging, request, { signal, give: [bytes] });
  return found.ok ? ok(found.text) : failed(found.text);
};

/** Suggests what a model may have meant by a name that does not exist. */
const hint = async (
  { workspace: { files }, has }: Pick<ToolContext, "workspace" | "has">,
  path: string,
  kind: "missing" | "not-a-file",
): Promise<string> => {
  if (kind === "not-a-file") return has("list") ? "Use `list` for a folder." : "";
  // No file name is longer than a path may be.
  if (path.length > mostCompared) return "";
  const wanted = path.split("/").at(-1) ?? path;
  const [toName, toPath] = [likenessTo(wanted.toLowerCase()), likenessTo(path)];
  const { entries } = await files.list("", { depth: 8, limit: 5000 });
  const alike: { found: string; score: number }[] = [];
  for (const { kind: entry, path: found } of entries) {
    await pace();
    if (entry !== "file" || found.includes("node_modules/")) continue;
    const name = found.split("/").at(-1) ?? found;
    // Texts of very different length cannot be similar enough.
    const like = isNear(found, path) ? toPath(found) - 0.1 : 0;
    const score = name === wanted ? 2 : Math.max(toName(name.toLowerCase()), like);
    if (score >= 0.6) alike.push({ found, score });
  }
  const near = alike.sort((left, right) => right.score - left.score).slice(0, 5);
  return near.length === 0 ? "" : `Near names: ${near.map(({ found }) => shown(found)).join(", ")}.`;
};

/** Longest path that is compared, in characters. */
const mostCompared = 500;

const isNear = (one: string, other: string): boolean =>
  one.length <= 3 * other.length && other.length <= 3 * one.length;
