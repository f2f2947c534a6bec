import { z } from "zod";
import type { Issue } from "../error.ts";

/**
 * Translates zod's issues: the path (`body.checks[0].run`), what was expected, and what was received. A schema's own
 * message ("Expected …, got …") is kept unchanged.
 */
export const issuesOf = (
  issues: readonly z.core.$ZodIssue[],
  schema: z.ZodType | undefined,
  input: unknown,
  at: string,
): Issue[] => issues.flatMap((issue) => translate(issue, schema, input, at));

const translate = (issue: z.core.$ZodIssue, schema: z.ZodType | undefined, input: unknown, at: string): Issue[] => {
  const got = valueAt(input, issue.path);
  const here = schemaAt(schema, issue.path, input);
  const place = issue.path.reduce<string>(
    (path, key) => (typeof key === "number" ? `${path}[${key}]` : `${path}.${String(key)}`),
    at,
  );
  const one = (expected: string, code: string = issue.code): Issue[] => [
    { path: place, message: `Expected ${expected}, got ${show(got)}`, code },
  ];
  switch (issue.code) {
    case "invalid_type":
      return one(nounOf(issue.expected), got === undefined ? "required" : issue.code);
    case "invalid_value":
      if (!isDefault(issue.message)) return [{ path: place, message: issue.message, code: issue.code }];
      return one(
        issue.values.length === 1
          ? show(issue.values[0])
          : `one of ${issue.values.map((value) => show(value)).join(", ")}`,
        got === undefined ? "required" : issue.code,
      );
    case "too_small":
      return one(`${issue.inclusive === false ? "more than" : "at least"} ${amount(issue.minimum, issue.origin)}`);
    case "too_big":
      return one(`${issue.inclusive === false ? "less than" : "at most"} ${amount(issue.maximum, issue.origin)}`);
    case "unrecognized_keys": {
      const known = here instanceof z.ZodObject ? Object.keys(here.shape) : [];
      return issue.keys.map((key) => ({
        path: `${place}.${key}`,
        message: `Expected ${known.length === 0 ? "known fields only" : `one of the fields ${known.join(", ")}`}; got ${quote(key)}`,
        code: "unrecognized_key",
      }));
    }
    case "invalid_union":
      if (issue.errors.length === 0 && !isDefault(issue.message))
        return [{ path: place, message: issue.message, code: "invalid_value" }];
      return translateUnion(issue, here, got, place, one);
    case "invalid_key":
      return issue.issues.flatMap((inner) => {
        const key = String(issue.path.at(-1));
        return [
          {
            path: place,
            message: `Expected ${formOf(inner, undefined)} as a key, got ${quote(key)}`,
            code: issue.code,
          },
        ];
      });
    case "invalid_format":
      return isDefault(issue.message)
        ? one(formOf(issue, here))
        : [{ path: place, message: issue.message, code: issue.code }];
    case "invalid_element":
      return issue.issues.flatMap((inner) => translate(inner, undefined, got, place));
    case "not_multiple_of":
      return one(`a multiple of ${issue.divisor}`);
    case "custom":
      return isDefault(issue.message)
        ? one("another value")
        : [{ path: place, message: issue.message, code: issue.code }];
  }
};

/** Reports on the member of the union that the caller probably meant: the one with the value's type. */
const translateUnion = (
  issue: Extract<z.core.$ZodIssue, { code: "invalid_union" }>,
  here: z.ZodType | undefined,
  got: unknown,
  place: string,
  one: (expected: string) => Issue[],
): Issue[] => {
  const members = here instanceof z.ZodUnion ? (here.options as z.ZodType[]) : [];
  const wrongType = (errors: readonly z.core.$ZodIssue[]) =>
    errors.some(({ code, path }) => code === "invalid_type" && path.length === 0);
  const meant = issue.errors.findIndex((errors) => !wrongType(errors));
  if (meant >= 0) return issuesOf(issue.errors[meant] as z.core.$ZodIssue[], members[meant], got, place);
  const nouns = issue.errors.flatMap((errors) =>
    errors.flatMap((error) => (error.code === "invalid_type" ? [nounOf(error.expected)] : [])),
  );
  return one(nouns.length === 0 ? "another value" : [...new Set(nouns)].join(" or "));
};

const isDefault = (message: string): boolean => /^(?:Invalid|Too (?:small|big)|Unrecognized)\b/.test(message);

const nounOf = (type: string): string => {
  switch (type) {
    case "int":
      return "a whole number";
    case "array":
    case "object":
      return `an ${type}`;
    case "record":
      return "an object";
    case "null":
    case "undefined":
      return type;
    default:
      return `a ${type}`;
  }
};

const amount = (limit: number | bigint, origin: string): string =>
  origin === "string"
    ? `${limit} ${limit === 1 ? "character" : "characters"}`
    : origin === "array"
      ? `${limit} ${limit === 1 ? "element" : "elements"}`
      : `${limit}`;

const formOf = (issue: z.core.$ZodIssue, here: z.ZodType | undefined): string => {
  if (issue.code !== "invalid_format") return "another value";
  if (issue.format === "base64") return "base64 (standard alphabet, padded, no white space)";
  const described = here?.description;
  if (described !== undefined) return described;
  const pattern = "pattern" in issue && typeof issue.pattern === "string" ? issue.pattern : undefined;
  return pattern === undefined ? `text in the format ${issue.format}` : `text that matches ${pattern}`;
};

const valueAt = (input: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key)
        ? (value as Record<PropertyKey, unknown>)[key]
        : undefined,
    input,
  );

/** The schema of a field, looking through wrappers; undefined if the path is ambiguous. */
const schemaAt = (
  schema: z.ZodType | undefined,
  path: readonly PropertyKey[],
  input: unknown,
): z.ZodType | undefined => {
  let here = memberOf(unwrap(schema), input);
  for (const [depth, key] of path.entries()) {
    if (here instanceof z.ZodObject) here = unwrap(here.shape[String(key)] as z.ZodType | undefined);
    else if (here instanceof z.ZodArray) here = unwrap(here.element as z.ZodType);
    else if (here instanceof z.ZodRecord) here = unwrap(here.valueType as z.ZodType);
    else return undefined;
    here = memberOf(here, valueAt(input, path.slice(0, depth + 1)));
  }
  return here;
};

/** The member of a discriminated union that the value's discriminator names; any other schema is returned unchanged. */
const memberOf = (schema: z.ZodType | undefined, value: unknown): z.ZodType | undefined =>
  schema instanceof z.ZodDiscriminatedUnion
    ? (schema.options as z.ZodObject[]).find(
        (option) =>
          option.shape[schema.def.discriminator]?.safeParse(valueAt(value, [schema.def.discriminator])).success,
      )
    : schema;

const unwrap = (schema: z.ZodType | undefined): z.ZodType | undefined => {
  let here = schema;
  while (here instanceof z.ZodOptional || here instanceof z.ZodDefault || here instanceof z.ZodNullable)
    here = here.unwrap() as z.ZodType;
  return here;
};

/** A value in a few words, a long one only with its size, so that an error never repeats a body. */
const show = (value: unknown): string => {
  if (value === undefined) return "nothing";
  if (value === null || typeof value === "number" || typeof value === "boolean") return `${value}`;
  if (typeof value === "string")
    return value.length > 60
      ? `${JSON.stringify(`${value.slice(0, 40)}…`)} (${value.length} characters)`
      : JSON.stringify(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return "an object";
};

/** Quotes and shortens foreign text for an error message. */
export const quote = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
