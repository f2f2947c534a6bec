import { createInterface } from "node:readline/promises";
import { resolve } from "node:path";
import { type Flags, loadConfig } from "../config/config.ts";
import { ServiceError } from "../error.ts";
import { requestOf, setGrant } from "../service/trust.ts";
import { askedWords, projectFile } from "../tool/mcp/project-file.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { clean } from "./terminal/format.ts";
import type { Screen } from "./terminal/screen.ts";

/**
 * `sortie trust`: shows which MCP servers a project asks for, and grants them for exactly the file as it is. It writes into
 * the service's data folder, so it is the operator's: no caller of the service can do it. Tasks that begin afterwards have them.
 */

export type TrustOptions = Flags & { directory: string; digest?: string; revoke?: true };

export const trust = async (
  { directory, digest, revoke, ...flags }: TrustOptions,
  screen: Screen,
  emit: ((value: object) => void) | undefined,
): Promise<number> => {
  const config = loadConfig(flags);
  const found = await requestOf(config, resolve(directory)).catch((error: unknown) => {
    if (error instanceof ServiceError) throw new Exit(exit.usage, error.message);
    throw error;
  });
  if (found === undefined) {
    if (emit !== undefined) emit({ file: null, granted: false });
    else screen.say(`${clean(directory)} has no ${projectFile}: it asks for nothing.`);
    return exit.completed;
  }
  const { project, asked } = found;
  const show = (granted: boolean): number => {
    if (emit !== undefined) emit({ file: projectFile, digest: found.digest, granted, ...asked });
    else screen.say(granted ? "Granted. Tasks that begin from now on have these servers." : "Not granted.");
    return granted || revoke === true ? exit.completed : exit.failed;
  };
  if (revoke === true) {
    setGrant(config.dataDir, project, null);
    return show(false);
  }
  if (emit === undefined) {
    screen.say(`${projectFile} of ${clean(found.directory)} (SHA-256 ${found.digest}) asks for MCP servers:`);
    for (const [name, server] of Object.entries(asked.servers)) screen.say(`  ${name}: ${clean(askedWords(server))}`);
    for (const [name, why] of Object.entries(asked.problems))
      screen.say(`  ${clean(name) || projectFile}: not possible, ${clean(why)}`);
  }
  if (found.granted) return show(true);
  if (Object.keys(asked.servers).length === 0) return show(false);
  if (digest !== undefined && digest !== found.digest)
    throw new Exit(
      exit.usage,
      `Expected --digest ${found.digest}, which ${projectFile} has now, got ${clean(digest)}. Nothing was granted.`,
    );
  if (digest === undefined) {
    if (!process.stdin.isTTY || emit !== undefined) {
      screen.say(`Nothing was granted. To grant it: sortie trust --digest ${found.digest}`);
      return emit === undefined ? exit.failed : show(false);
    }
    const terminal = createInterface({ input: process.stdin, output: process.stdout });
    const answer = await terminal.question("Grant it? [y/N] ").finally(() => terminal.close());
    if (!/^y(es)?$/i.test(answer.trim())) return show(false);
  }
  setGrant(config.dataDir, project, found.digest);
  return show(true);
};
