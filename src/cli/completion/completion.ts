import type { Command, Option } from "commander";
import { bash, fish, zsh } from "./script.ts";
import type { Source, Table, Word } from "./table.ts";

/** `sortie completion <shell>`: builds the table for completion scripts from the commands themselves. */

export const shells = { bash, zsh, fish };

/**
 * The completion of an option's value or an argument, by its name in angle brackets, which means the same in all
 * commands.
 */
const named: Readonly<Record<string, Source>> = {
  file: "files",
  path: "files",
  zip: "files",
  package: "files",
  folder: "folders",
};

const squadsOf = new Set(["--squad"]);

const flagsOf = ({ short, long }: Option): string[] => [short, long].flatMap((flag) => flag ?? []);

const words = (values: readonly string[]): Word[] => values.map((value) => [value, ""]);

/** The completion of `<id>`, by command group. */
const ids: Readonly<Record<string, Source>> = { task: "tasks", mission: "missions", squad: "squads" };

export const tableOf = (program: Command): Table => {
  const all = walk(program, "");
  const valued = new Map<string, { flags: string[]; source: Source | null }>();
  const differing: Table["values"][number][] = [];
  for (const { at, option } of all.flatMap(({ at, command }) => command.options.map((option) => ({ at, option })))) {
    if (!option.required && !option.optional) continue;
    const flags = flagsOf(option);
    const inBrackets = /<([^<>]{1,80})>/.exec(option.flags)?.[1] ?? "";
    const source =
      option.argChoices !== undefined
        ? words(option.argChoices)
        : squadsOf.has(option.long ?? "")
          ? "squads"
          : (named[inBrackets] ?? null);
    const known = valued.get(flags.join());
    if (known === undefined) valued.set(flags.join(), { flags, source });
    else if (String(known.source) !== String(source)) differing.push({ at, flags, source });
  }
  return {
    commands: all.map(({ at }) => at).filter((at) => at !== ""),
    values: [...differing, ...valued.values()],
    options: all.map(({ at, command }) => ({
      at,
      words: [
        ...command.options.flatMap((option): Word[] => flagsOf(option).map((flag) => [flag, option.description])),
        ["--help", "display help for command"],
      ],
    })),
    places: all.flatMap(({ at, command }) => {
      const children = visible(command);
      if (children.length > 0)
        return [{ at, n: 0, source: children.map((child): Word => [child.name(), child.description()]) }];
      return command.registeredArguments.flatMap((argument, n) => {
        const name = argument.name();
        const known = name === "id" ? ids[at.split(" ")[0] ?? ""] : named[name];
        const source = argument.argChoices === undefined ? known : words(argument.argChoices);
        return source === undefined ? [] : [{ at, n, source }];
      });
    }),
  };
};

const visible = (command: Command): readonly Command[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .filter((child) => child.name() !== "help");

/** Every command with the path that a user types; an alias has a path of its own. */
const walk = (command: Command, at: string): { at: string; command: Command }[] => [
  { at, command },
  ...visible(command).flatMap((child) =>
    [child.name(), ...child.aliases()].flatMap((name) => walk(child, at === "" ? name : `${at} ${name}`)),
  ),
];
