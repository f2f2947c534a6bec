import type { z } from "zod";
import { type Issue, ServiceError } from "../../error.ts";
import { issuesOf, quote } from "../../protocol/issue.ts";

/** Parses bodies and queries with the route's schemas; refusals are `invalid_request` with all issues. */

export const parseBody = <S extends z.ZodType>(schema: S, value: unknown): z.output<S> => {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalid(issuesOf(parsed.error.issues, schema, value, "body"));
};

/** The message is the first issue with its path. */
export const invalid = (issues: Issue[]): ServiceError => {
  const [first, ...rest] = issues;
  const more = rest.length === 0 ? "" : ` (and ${rest.length} more)`;
  return new ServiceError("invalid_request", `${first?.path}: ${first?.message}${more}`, { issues });
};

/** The query parameters, decoded; a parameter that is sent twice is refused. */
export const readQuery = (target: string): Map<string, string> => {
  const start = target.indexOf("?");
  const found = new Map<string, string>();
  if (start < 0) return found;
  for (const pair of target.slice(start + 1).split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decode(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? "" : decode(pair.slice(equals + 1));
    if (found.has(name))
      throw invalid([{ path: `query.${name}`, message: "Expected it once, got it twice", code: "duplicate" }]);
    found.set(name, value);
  }
  return found;
};

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw invalid([
      { path: "query", message: `Expected valid percent-encoding in UTF-8, got ${quote(text)}`, code: "encoding" },
    ]);
  }
};

export type QueryPlan = {
  schema: z.ZodType | undefined;
  names: ReadonlySet<string>;
  /** Whether the route acts on a project, so that `?repository=` may name it by address. */
  inProject: boolean;
  /** Parameters with this prefix (for example `metadata.`) are collected under the rest of their name. */
  prefix: string | undefined;
};

export type Query = { value: unknown; prefixed: Record<string, string> };

/** Checks the parameters against the route's schema; `directory` is read by directory.ts. */
export const parseQuery = (plan: QueryPlan, sent: ReadonlyMap<string, string>): Query => {
  const value: Record<string, string> = {};
  const prefixed: Record<string, string> = {};
  const unknown: Issue[] = [];
  for (const [name, text] of sent)
    if (name === "directory" || (name === "repository" && plan.inProject)) continue;
    else if (plan.names.has(name)) value[name] = text;
    else if (plan.prefix !== undefined && name.startsWith(plan.prefix) && name.length > plan.prefix.length)
      Object.defineProperty(prefixed, name.slice(plan.prefix.length), { value: text, enumerable: true });
    else {
      const known = ["directory", ...plan.names, ...(plan.prefix === undefined ? [] : [`${plan.prefix}<key>`])];
      const message = `Expected one of the parameters ${known.join(", ")}; got ${quote(name)}`;
      unknown.push({ path: `query.${name}`, message, code: "unrecognized_key" });
    }
  const parsed = plan.schema?.safeParse(value);
  const wrong = parsed?.success === false ? issuesOf(parsed.error.issues, plan.schema, value, "query") : [];
  if (unknown.length + wrong.length > 0) throw invalid([...wrong, ...unknown]);
  return { value: parsed?.data ?? {}, prefixed };
};
