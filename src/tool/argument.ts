import { z } from "zod";

/**
 * Parses a call's arguments. Deviations that models often make and that can mean only one thing are accepted: a number,
 * a list or an object as text; a single value for a list of one; null for an omitted argument; a common synonym of a
 * parameter's name. `wrong`: the problems of the arguments as they were sent, worded for the model.
 */
export const parseArguments = <T>(schema: z.ZodType<T>, input: unknown): { data: T } | { wrong: string } => {
  const sent = schema.safeParse(input);
  if (sent.success) return sent;
  let issues = sent.error.issues;
  const given: unknown = structuredClone(input);
  for (let round = 0; round < mostRounds && mend(given, issues); round += 1) {
    const parsed = schema.safeParse(given);
    if (parsed.success) return parsed;
    issues = parsed.error.issues;
  }
  return { wrong: sent.error.issues.map((issue) => wordsOf(schema, issue)).join("; ") };
};

/** Words an issue for the model; for an enumeration, with only the values that models are told of. */
const wordsOf = (schema: z.ZodType, { path, message, ...issue }: Issue): string => {
  const name = path.join(".") || "arguments";
  if (issue.code !== "invalid_value" || path.length !== 1 || !(schema instanceof z.ZodObject))
    return `${name}: ${message}`;
  const field: unknown = schema.shape[String(path[0])];
  const { untold } = (field instanceof z.ZodType && field.meta()) || {};
  const told = issue.values.filter((value) => !Array.isArray(untold) || !untold.includes(value));
  return `${name}: Invalid option: expected one of ${told.map((value) => JSON.stringify(value)).join("|")}`;
};

/**
 * Mending takes several rounds: the items of a list or an object are validated only once the list itself could be read.
 */
const mostRounds = 4;

type Issue = z.core.$ZodIssue;
type Fields = Record<PropertyKey, unknown>;

/** Mends in place the values that the issues are about. Returns false when there was nothing to mend. */
const mend = (given: unknown, issues: readonly Issue[]): boolean => {
  let mended = false;
  for (const issue of issues) {
    if (issue.code === "unrecognized_keys") {
      const fields = fieldsAt(given, issue.path);
      if (fields === undefined) continue;
      if (gatherEdit(fields, issue.keys)) mended = true;
      else for (const key of issue.keys) if (rename(fields, key)) mended = true;
    } else if (issue.code === "invalid_type") {
      const fields = fieldsAt(given, issue.path.slice(0, -1));
      const key = issue.path.at(-1);
      if (fields !== undefined && key !== undefined && convert(fields, key, issue.expected)) mended = true;
    }
  }
  return mended;
};

const fieldsAt = (given: unknown, path: readonly PropertyKey[]): Fields | undefined => {
  const found = path.reduce<unknown>(
    (at, key) => (isFields(at) && Object.hasOwn(at, key) ? at[key] : undefined),
    given,
  );
  return isFields(found) ? found : undefined;
};

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null;

const convert = (fields: Fields, key: PropertyKey, expected: string): boolean => {
  if (!Object.hasOwn(fields, key)) return false;
  const value = fields[key];
  if (value === null && !Array.isArray(fields)) return delete fields[key];
  const meant = meantBy(value, expected);
  if (meant === undefined) return false;
  fields[key] = meant;
  return true;
};

const meantBy = (value: unknown, expected: string): unknown => {
  if (expected === "string") return typeof value === "number" ? String(value) : undefined;
  if (expected === "array" && typeof value !== "string") return isFields(value) ? [value] : undefined;
  if (typeof value !== "string") return undefined;
  const text = value.trim();
  if (expected === "number") return /^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : undefined;
  if (expected === "boolean") return text === "true" ? true : text === "false" ? false : undefined;
  if (expected !== "array" && expected !== "object") return undefined;
  try {
    const read: unknown = JSON.parse(text);
    if (isFields(read)) return Array.isArray(read) || expected === "object" ? read : [read];
  } catch {}
  return expected === "array" && text !== "" && !/^[[{]/.test(text) ? [value] : undefined;
};

/** Names that models know from other tools. */
const names: ReadonlyMap<string, string> = new Map(
  Object.entries({
    path: ["file", "filename", "file_name", "file_path", "filepath", "filePath"],
    command: ["cmd"],
    content: ["contents", "text"],
    pattern: ["query", "regex"],
    old: ["old_string", "oldString", "old_str", "old_text", "oldText"],
    new: ["new_string", "newString", "new_str", "new_text", "newText"],
    all: ["replace_all", "replaceAll"],
  }).flatMap(([name, others]) => others.map((other): [string, string] => [other, name])),
);

/** Renames a synonym. If the tool has no parameter of that name either, the next round of validation rejects it. */
const rename = (fields: Fields, key: string): boolean => {
  const name = names.get(key);
  if (name === undefined || Object.hasOwn(fields, name)) return false;
  fields[name] = fields[key];
  return delete fields[key];
};

/** Moves the fields of a single edit, given next to the path, into the list of edits. */
const gatherEdit = (fields: Fields, keys: readonly string[]): boolean => {
  const ofEdit = keys.filter((key) => ["old", "new", "all"].includes(names.get(key) ?? key));
  if (ofEdit.length < 2 || Object.hasOwn(fields, "edits")) return false;
  fields["edits"] = [Object.fromEntries(ofEdit.map((key) => [names.get(key) ?? key, fields[key]]))];
  for (const key of ofEdit) delete fields[key];
  return true;
};
