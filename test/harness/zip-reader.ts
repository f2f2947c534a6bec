import { rmSync } from "node:fs";
import { entriesOf } from "./entries.ts";
import { type Finding } from "../../src/cli/terminal/finding.ts";
import { verify } from "../../src/cli/verify/verify.ts";
import type { Manifest } from "../../src/domain/view/archive.ts";
import { createZip } from "../../src/archive/zip.ts";

/** Archives taken apart, put together again, and verified as the command does it. */

export type Files = Map<string, Buffer>;

export const unpack = (zip: Buffer): Files => new Map(entriesOf(zip).map((entry) => [entry.path, entry.read()]));

export const manifestOf = (files: Files): Manifest =>
  JSON.parse(String(files.get("execution-flow/manifest.json"))) as Manifest;

/** With the modes that the manifest names. */
export const pack = async (path: string, files: Files): Promise<string> => {
  rmSync(path, { force: true });
  const modes = new Map(manifestOf(files).files.map(({ name, mode }) => [name, mode]));
  const zip = createZip(path, new AbortController().signal);
  for (const [name, bytes] of files) await zip.add(name, Number.parseInt(modes.get(name) ?? "100644", 8), bytes);
  await zip.finish();
  return path;
};

export const verified = async (path: string, head?: string): Promise<{ code: number; findings: Finding[] }> => {
  const findings: Finding[] = [];
  const screen = { colors: {}, say: () => undefined, status: () => undefined } as never;
  const code = await verify(path, head === undefined ? {} : { head }, screen, (finding) => findings.push(finding));
  return { code, findings };
};
