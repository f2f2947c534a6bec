import { z } from "zod";
import type { DomainEvent } from "../../domain/event.ts";
import { fileKinds, maxRules, parseRule } from "../../domain/permission/rule.ts";
import { errorCode, messageOf } from "../../error.ts";
import { parseJsonc } from "../../json.ts";
import { tools } from "../../tool/registry.ts";
import { createFiles, FileRefused } from "../../workspace/file/files.ts";

/**
 * Reads a project's own permission rules from the user's directory. They can only narrow what the operator allows, so
 * there is no `allow`.
 */

const file = ".sortie/permissions.jsonc";
const maxBytes = 64 * 1024;

const names = [...new Set([...fileKinds, ...Object.keys(tools)])];

/** What is wrong with a list of rules; undefined when it is valid. Also validates the operator's rules at the start. */
export const problemIn = (list: "deny" | "ask" | "allow", texts: readonly string[]): string | undefined => {
  if (texts.length > maxRules) return `${list}: Expected at most ${maxRules} rules, got ${texts.length}`;
  for (const text of texts) {
    const rule = parseRule(text, names);
    if ("problem" in rule) return `${list}: ${rule.problem}`;
    if (rule.name === "ask" && list === "ask")
      return `${list}: Expected a question to need no permission; deny it, or remove "${text}"`;
  }
  return undefined;
};

const content = z.strictObject({
  $schema: z.string().optional(),
  deny: z.array(z.string()).optional(),
  ask: z.array(z.string()).optional(),
});

/**
 * The rules as an event; no event when there is no file or no rule. A file that cannot be read is a problem, not an
 * absence of rules.
 */
export const readRules = async (directory: string): Promise<DomainEvent[] | { problem: string }> => {
  let text: string;
  try {
    text = (await createFiles(directory).read(file, maxBytes)).bytes.toString("utf8");
  } catch (error) {
    // Also when the directory itself is gone, which is reported where it is needed.
    if (error instanceof FileRefused ? error.kind === "missing" : isGone(error)) return [];
    return { problem: `${file} cannot be read: ${messageOf(error)}.` };
  }
  const { value, problem: broken } = parseJsonc(text);
  if (broken !== undefined) return { problem: `${file}: ${broken}.` };
  const parsed = content.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return {
      problem: `${file}: ${issue?.path.join(".") || "the file"}: ${issue?.message}. Expected deny and ask, lists of rules.`,
    };
  }
  const { deny = [], ask = [] } = parsed.data;
  const problem = problemIn("deny", deny) ?? problemIn("ask", ask);
  if (problem !== undefined) return { problem: `${file}: ${problem}.` };
  return deny.length + ask.length === 0 ? [] : [{ type: "permissions.read", data: { file, deny, ask } }];
};

const isGone = (error: unknown): boolean => errorCode(error) === "ENOENT";
