import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import type { SquadCatalog } from "../protocol/squad.ts";
import { connect, dataOf, type Target } from "./connection.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { during, type Screen } from "./terminal/screen.ts";
import { clean, line, table } from "./terminal/format.ts";

/**
 * The actions of `sortie squad …`, one function per command. Each resolves to the exit code; with `--json` answers go
 * to `emit`.
 */

type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined };
type Where = { scope?: "user" | "project" };

export const list = async ({ target, screen, emit }: Context) => {
  const catalog = dataOf(await connect(target).squad.list(), target.url);
  if (emit !== undefined) emit(catalog);
  else {
    const { squads } = catalog;
    screen.say(
      table([
        ["SQUAD", "VERSION", "SCOPE", "AGENTS", "SKILLS", "OWNS", "SUMMARY"],
        ...squads.map(({ id, version, scope, agents, skills, owns, summary }) => [
          line(id),
          line(version),
          scope,
          String(agents.length),
          String(skills.length),
          line([...owns.domains, ...owns.phases].join(", ") || "-", 40),
          line(summary, 60),
        ]),
      ]),
    );
    for (const text of problemsOf(catalog)) screen.say(text);
  }
  return catalog.healthy ? exit.completed : exit.failed;
};

/** Issues and warnings, one line each. A catalog with warnings may still be healthy. */
const problemsOf = ({ issues, warnings }: SquadCatalog): string[] => [
  ...issues.map((issue) => `issue    ${placeOf(issue)}`),
  ...warnings.map((warning) => `warning  ${placeOf(warning)}`),
];

type Problem = { file: string; line?: number | undefined; column?: number | undefined; message: string };

const placeOf = ({ file, line: row, column, message, ...of }: Problem & { scope?: string; squad?: string }): string => {
  const place = [file || "package", row, column].filter((part) => part !== undefined).join(":");
  return line(
    [of.scope, of.squad, `${place}: ${message}`].filter((part) => part !== undefined && part !== "").join(" "),
    300,
  );
};

export const show = async (id: string, { target, screen, emit }: Context) => {
  const squad = dataOf(await connect(target).squad.get({ path: { id } }), target.url);
  if (emit !== undefined) {
    emit(squad);
    return exit.completed;
  }
  const { bold, dim } = screen.colors;
  const { domains, phases } = squad.owns;
  const rows = [
    ["Squad", `${line(squad.id)} ${line(squad.version)}, ${squad.scope}`],
    ["Digest", squad.digest],
    ["For", line(squad.summary, 300)],
    ["Not for", line(squad.notFor, 300)],
    ["Owns", line([...domains, ...phases].join(", ") || "nothing", 300)],
  ];
  screen.say(
    [
      table(rows.map(([name = "", value = ""]) => [bold(name), value])),
      bold("Agents"),
      ...squad.agents.map(
        (agent) => `  ${line(agent.name)}: ${line(agent.description, 200)} ${dim(line(agent.tools.join(" "), 200))}`,
      ),
      ...(squad.skills.length === 0 ? [] : [bold("Skills")]),
      ...squad.skills.map((skill) => `  ${line(skill.name)}: ${line(skill.description, 200)}`),
      ...(squad.readme === null ? [] : ["", clean(squad.readme).trim()]),
    ].join("\n"),
  );
  return exit.completed;
};

/** The package as the service takes it: a ZIP file is uploaded; a folder must be on the service's machine. */
const sourceOf = (given: string, ref: string | undefined) => {
  const path = resolve(given);
  if (ref !== undefined) return { git: { path, ref } };
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined || stats.isDirectory()) return { path };
  if (!stats.isFile()) throw new Exit(exit.usage, `Expected a folder or a ZIP file, got ${given}.`);
  return { zip: readFileSync(path).toString("base64") };
};

export const validate = async (given: string, options: Where & { ref?: string }, { target, screen, emit }: Context) => {
  const source = sourceOf(given, options.ref);
  const body = { ...source, ...(options.scope === undefined ? {} : { scope: options.scope }) };
  const answer = await during(screen, "Reading the package", connect(target).squad.validate({ body }));
  // When no service answers, the package is checked here; only the names of external agents stay unchecked, because
  // they are in the service's configuration.
  const here =
    answer.response === undefined && !("git" in source)
      ? await (await import("./squad-folder.ts")).validateLocally(source, options.scope ?? "user")
      : undefined;
  if (here === undefined && "path" in source && answer.response === undefined)
    throw new Exit(exit.usage, `Expected a folder or a ZIP file, got ${given}, which does not exist.`);
  const checked = here ?? dataOf(answer, target.url);
  if (emit !== undefined) emit(checked);
  else if (checked.squad !== null)
    screen.say(`${line(checked.squad.id)} ${line(checked.squad.version)} is valid (${checked.squad.digest}).`);
  else screen.say(checked.issues.map((issue) => placeOf(issue)).join("\n"));
  return checked.valid ? exit.completed : exit.failed;
};

export const install = async (
  given: string,
  options: Where & { ref?: string; expect?: string },
  { target, screen, emit }: Context,
) => {
  const body = {
    ...sourceOf(given, options.ref),
    scope: options.scope ?? "user",
    ...(options.expect === undefined ? {} : { expectedDigest: options.expect }),
  };
  const installed = dataOf(await during(screen, "Installing", connect(target).squad.install({ body })), target.url);
  if (emit !== undefined) emit(installed);
  else {
    const { squad, replaced } = installed;
    const how =
      replaced === null ? "installed" : replaced === squad.digest ? "was there already" : `replaces ${replaced}`;
    screen.say(`${line(squad.id)} ${line(squad.version)} ${how}, scope ${squad.scope} (${squad.digest}).`);
  }
  return exit.completed;
};

export const remove = async (id: string, options: Where & { expect?: string }, { target, screen, emit }: Context) => {
  const query = {
    ...(options.scope === undefined ? {} : { scope: options.scope }),
    ...(options.expect === undefined ? {} : { expectedDigest: options.expect }),
  };
  const removed = dataOf(await connect(target).squad.remove({ path: { id }, query }), target.url);
  if (emit !== undefined) emit(removed);
  else
    screen.say(`${line(removed.id)} was removed from the scope ${removed.scope}. Tasks that started with it keep it.`);
  return exit.completed;
};

export const recommend = async (
  phase: string,
  options: { pillar: "code" | "work" },
  { target, screen, emit }: Context,
) => {
  const query = { phase, productPillar: options.pillar };
  const found = dataOf(await connect(target).squad.recommend({ query }), target.url);
  if (emit !== undefined) emit(found);
  else {
    const rows = (kind: string, squads: typeof found.owners) =>
      squads.map((squad) => [kind, line(squad.id), squad.scope, line(squad.reasons.join(" "), 200)]);
    const all = [...rows("owns", found.owners), ...rows("related", found.related)];
    screen.say(all.length === 0 ? `No squad owns ${line(found.phase)}, and none is close to it.` : table(all));
  }
  return found.owners.length === 0 ? exit.failed : exit.completed;
};
