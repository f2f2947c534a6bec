import { isNestedWithin } from "../../json.ts";
import { counted } from "../result.ts";
import { type ListedTool, type Listing, mcpPrefix } from "./server.ts";

/**
 * The part of a server's tool listing that agents see. The server is not trusted: names are reduced to plain
 * characters, descriptions truncated, long or deep schemas left out, and tools beyond the limits only counted.
 */

const mostTools = 200;
const longestName = 64;
const longestDescription = 500;
const longestInner = 200;
const mostSchemaChars = 4000;
const mostLevels = 12;

type Given = { name: string; description?: string | undefined; inputSchema?: unknown };

export const listingOf = (server: string, given: readonly Given[]): Listing => {
  const names = new Set<string>();
  const tools: ListedTool[] = [];
  for (const { name: tool, description = "", inputSchema } of given.slice(0, mostTools)) {
    const name = freeName(`${mcpPrefix}${server}__${plain(tool)}`.slice(0, longestName), names);
    names.add(name);
    tools.push({
      name,
      tool,
      description: cut(oneLine(description), longestDescription),
      parameters: schemaOf(inputSchema),
    });
  }
  const left = given.length - tools.length;
  return {
    tools: tools.toSorted((one, other) => (one.name < other.name ? -1 : 1)),
    problem: left === 0 ? null : `it lists ${counted(given.length, "tool")}; the first ${mostTools} are shown`,
  };
};

const plain = (name: string): string => name.replaceAll(/[^A-Za-z0-9_-]/g, "_") || "_";

/** Names that become equal are told apart by a number at the end. */
const freeName = (name: string, taken: ReadonlySet<string>): string => {
  for (let serial = 2, free = name; ; serial += 1) {
    if (!taken.has(free)) return free;
    const end = `_${serial}`;
    free = `${name.slice(0, longestName - end.length)}${end}`;
  }
};

const oneLine = (text: string): string =>
  text
    .slice(0, 20 * longestDescription)
    .replaceAll(/\s+/g, " ")
    .trim();

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** A schema of arguments that every provider accepts; an object of anything if the given one cannot be shown. */
const schemaOf = (given: unknown): object => {
  if (typeof given !== "object" || given === null || Array.isArray(given) || !isNestedWithin(given, mostLevels))
    return anything;
  const schema = shortened(given) as Record<string, unknown>;
  if (schema["type"] !== "object" || JSON.stringify(schema).length > mostSchemaChars) return anything;
  return { ...schema, properties: schema["properties"] ?? {} };
};

const anything = { type: "object", properties: {} };

/** Removes keywords that say nothing about the arguments, and truncates descriptions. */
const shortened = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shortened);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => {
      if (key === "$schema" || key === "$id" || key === "$comment" || key === "examples") return [];
      return [
        [
          key,
          key === "description" && typeof inner === "string" ? cut(oneLine(inner), longestInner) : shortened(inner),
        ],
      ];
    }),
  );
};
