import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { ZipFile } from "yazl";
import type { PackageFile } from "../../../src/squad/package/package.ts";

/** Small squad packages. */

export type Texts = Record<string, string>;

export const manifestOf = (fields: object = {}): string =>
  JSON.stringify(
    {
      id: "api",
      version: "1.0.0",
      name: "API",
      summary: "Builds HTTP interfaces.",
      notFor: "Front ends.",
      pillars: ["code"],
      owns: { domains: ["backend-api"], phases: ["payments/checkout"] },
      agents: ["qa"],
      skills: ["routes"],
      ...fields,
    },
    null,
    2,
  );

export const agentOf = (name: string, head = "", body = `You are ${name}.`): string =>
  `---\nname: ${name}\ndescription: Does what ${name} does.\ntools: [read, shell]\n${head}---\n\n${body}\n`;

/** A package in order, with these files instead or besides; undefined leaves one out. */
export const textsOf = (changes: Record<string, string | undefined> = {}, fields: object = {}): Texts => {
  const texts = {
    "squad.json": manifestOf(fields),
    "README.md": "# API\n",
    "agents/orchestrator.md": agentOf("orchestrator", "delegates: [qa]\n"),
    "agents/qa.md": agentOf("qa"),
    "skills/routes/SKILL.md": "---\nname: routes\ndescription: How routes are written here.\n---\n\nOne file each.\n",
    ...changes,
  };
  return Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== undefined));
};

/** A small squad at work, by path below the folder of squads; what each agent may use, and more of its head. */
export const teamOf = (
  id: string,
  {
    orchestrator,
    ...agents
  }: { orchestrator: readonly [tools: string, head?: string] } & Record<
    string,
    readonly [tools: string, head?: string]
  >,
  fields: object = {},
): Texts => {
  const all = { orchestrator, ...agents };
  const texts: Texts = {
    "squad.json": manifestOf({ id, owns: {}, skills: [], agents: Object.keys(agents), ...fields }),
    "README.md": `# ${id}\n`,
  };
  for (const [name, [tools, head]] of Object.entries(all))
    texts[`agents/${name}.md`] =
      `---\nname: ${name}\ndescription: The ${name}.\ntools: [${tools}]\n${head === undefined ? "" : `${head}\n`}---\n\nYou are the ${name}.\n`;
  return Object.fromEntries(Object.entries(texts).map(([path, text]) => [`${id}/${path}`, text]));
};

export const filesOf = (texts: Texts): PackageFile[] =>
  Object.entries(texts).map(([path, text]) => ({ path, bytes: Buffer.from(text) }));

/** Writes the package into a folder and returns that. */
export const writePackage = (folder: string, texts: Texts): string => {
  for (const [path, text] of Object.entries(texts)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
};

/** A ZIP of these files; `mode` as Unix has it. */
export const zipOf = async (texts: Record<string, string | Buffer>, mode?: number): Promise<Buffer> => {
  const zip = new ZipFile();
  for (const [path, text] of Object.entries(texts))
    zip.addBuffer(typeof text === "string" ? Buffer.from(text) : text, path, mode === undefined ? {} : { mode });
  zip.end();
  return buffer(zip.outputStream as Readable);
};
