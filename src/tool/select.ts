import { z } from "zod";
import type { ToolSpec } from "../model/model.ts";
import { ask } from "./ask.ts";
import { edit } from "./edit.ts";
import { git } from "./git.ts";
import { list } from "./list.ts";
import { note } from "./note.ts";
import { patch } from "./patch.ts";
import { process } from "./process.ts";
import { read } from "./read.ts";
import { search } from "./search.ts";
import { shell } from "./shell.ts";
import type { Tool } from "./tool.ts";
import { write } from "./write.ts";

/** The tools of this version by name. Their input is checked with `input` before `run`, so one map can hold them all. */
export const tools: Readonly<Record<string, Tool>> = Object.fromEntries(
  ([read, list, search, write, edit, patch, shell, process, git, note, ask] as Tool[]).map((tool) => [tool.name, tool]),
);

/** The tools an agent names. Throws for a name that is none: a squad's package is checked before it gets here. */
export const selectTools = (names: readonly string[]): Tool[] =>
  names.map((name) => {
    const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
    if (tool === undefined) throw new Error(`Expected a tool of ${Object.keys(tools).join(", ")}, got "${name}"`);
    return tool;
  });

const specs = new Map<Tool, ToolSpec>();

/** What a model is told of the tools; each JSON Schema is made once. */
export const toolSpecs = (chosen: readonly Tool[]): ToolSpec[] =>
  chosen.map((tool) => {
    const known = specs.get(tool);
    if (known !== undefined) return known;
    const { $schema: _, ...parameters } = z.toJSONSchema(tool.input, { io: "input" });
    const spec = { name: tool.name, description: tool.description, parameters };
    specs.set(tool, spec);
    return spec;
  });
