import { z } from "zod";
import { commandTools } from "../domain/agent.ts";
import type { ToolSpec } from "../model/model.ts";
import { artifact } from "./task/artifact.ts";
import { ask } from "./task/ask.ts";
import { delegate } from "./task/delegate.ts";
import { edit } from "./edit/edit.ts";
import { fetch } from "./web/fetch.ts";
import { git } from "./command/git.ts";
import { gitHistory } from "./command/git-history.ts";
import { list } from "./file/list.ts";
import { note } from "./task/note.ts";
import { patch } from "./edit/patch.ts";
import { process } from "./command/process.ts";
import { read } from "./file/read.ts";
import { search } from "./file/search.ts";
import { shell } from "./command/shell.ts";
import { type OwnSkill, skill, skillOf } from "./task/skill.ts";
import { slice } from "./task/slice.ts";
import type { Tool } from "./tool.ts";
import { verdict } from "./task/verdict.ts";
import { write } from "./file/write.ts";

/**
 * The tools of this version by name. Arguments are validated with `input` before `run`, so one map can hold them all.
 */
export const tools: Readonly<Record<string, Tool>> = Object.fromEntries(
  (
    [
      read,
      list,
      search,
      write,
      edit,
      patch,
      shell,
      process,
      git,
      note,
      artifact,
      ask,
      fetch,
      skill,
      slice,
      delegate,
      verdict,
    ] as Tool[]
  ).map((tool) => [tool.name, tool]),
);

/** The tools of an agent that judges, whatever its package says. */
export const reviewTools: readonly Tool[] = [read, list, search, gitHistory, verdict] as Tool[];

/**
 * The tools that an agent names and the tools that belong to them, without those that the operator has not enabled.
 * Throws for an unknown name: packages are validated earlier.
 */
export const selectTools = (
  names: readonly string[],
  { web = false, skills = [] }: { web?: boolean; skills?: readonly OwnSkill[] } = {},
): Tool[] =>
  together(names).flatMap((name) => {
    const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
    if (tool === undefined) throw new Error(`Expected a tool of ${Object.keys(tools).join(", ")}, got "${name}"`);
    if (tool === skill) return skillOf(skills);
    return tool === fetch && !web ? [] : [tool];
  });

/** Each name once, in the given order; a tool that was not named follows the tool it belongs to. */
const together = (names: readonly string[]): string[] => [
  ...new Set(
    names.flatMap((name) =>
      commandTools.includes(name) ? [name, ...commandTools.filter((other) => !names.includes(other))] : [name],
    ),
  ),
];

/** Keywords removed from the schemas that models read, to save tokens: a refusal says what was expected. */
const bounds = ["minLength", "maxLength", "minItems", "maxItems", "pattern", "minimum", "maximum"] as const;

/**
 * By name, then by schema and description. The name alone does not identify a tool's definition, because `skill` is
 * created per squad; nor does the schema, because a Mission's `remember` and a Task's `note` take the same input.
 */
const specs = new Map<string, { input: Tool["input"]; spec: ToolSpec }[]>();

const mostOfOneName = 64;

/** The tools' descriptions for a model; each JSON Schema is generated once. */
export const toolSpecs = (chosen: readonly Tool[]): ToolSpec[] =>
  chosen.map((tool) => {
    const { name, parameters: own } = tool;
    const added = Object.entries(tool.beside ?? {}).filter(([other]) => chosen.some((each) => each.name === other));
    const description = [tool.description, ...added.map(([, words]) => words)].join(" ");
    if (own !== undefined) return { name, description, parameters: own };
    const known = specs.get(tool.name) ?? [];
    const made = known.find(({ input, spec }) => input === tool.input && spec.description === description);
    if (made !== undefined) return made.spec;
    const { $schema: _, ...parameters } = z.toJSONSchema(tool.input, {
      io: "input",
      override({ jsonSchema }) {
        for (const key of bounds) delete jsonSchema[key];
        const { properties = {} } = jsonSchema;
        for (const [name, property] of Object.entries(properties))
          if (typeof property === "object" && property["untold"] === true) delete properties[name];
        const hidden = jsonSchema["untold"];
        if (Array.isArray(hidden)) {
          jsonSchema.enum = jsonSchema.enum?.filter((each) => !hidden.includes(each)) ?? [];
          delete jsonSchema["untold"];
        }
        if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
      },
    });
    const spec = { name, description, parameters };
    specs.set(tool.name, [{ input: tool.input, spec }, ...known].slice(0, mostOfOneName));
    return spec;
  });
