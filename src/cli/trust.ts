import { createInterface } from "node:readline/promises";
import { resolve } from "node:path";
import { type Flags, loadConfig } from "../config/config.ts";
import { ServiceError } from "../error.ts";
import { wordsOf } from "../service/grant-words.ts";
import { configuredFor } from "../service/vault.ts";
import { type ProjectRequest, requestsOf, setGrant } from "../service/trust.ts";
import { projectFile } from "../tool/mcp/project-file.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { clean } from "./terminal/format.ts";
import type { Screen } from "./terminal/screen.ts";

/**
 * `sortie trust`: shows what a project requests (MCP servers in one file, an environment in another), and grants it for
 * exactly these files. It writes into the service's data folder, so only the operator can run it, and no caller of the
 * service. The grant applies to Tasks that begin afterwards.
 */

export type TrustOptions = Flags & { directory: string; digest?: string; revoke?: true };

export const trust = async (
  { directory, digest, revoke, ...flags }: TrustOptions,
  screen: Screen,
  emit: ((value: object) => void) | undefined,
): Promise<number> => {
  const config = loadConfig(flags);
  const found = await requestsOf(config, resolve(directory)).catch((error: unknown) => {
    if (error instanceof ServiceError) throw new Exit(exit.usage, error.message);
    throw error;
  });
  if (found.length === 0) {
    if (emit !== undefined) emit({ file: null, granted: false });
    else screen.say(`${clean(directory)} has no ${projectFile} and no environment: there is nothing to grant.`);
    return exit.completed;
  }
  if (digest !== undefined && !found.some((one) => one.digest === digest))
    throw new Exit(
      exit.usage,
      `The files have changed. Expected --digest ${found.map((one) => `${one.digest} (${one.file})`).join(" or ")}, got ${clean(digest)}. Nothing was granted.`,
    );
  let all: number = exit.completed;
  for (const request of found) {
    const overridden =
      request.file !== projectFile && configuredFor(request.directory, config.environments) !== undefined;
    const ended = await decide(request, { dataDir: config.dataDir, digest, revoke, overridden }, screen, emit);
    if (ended !== exit.completed && (digest === undefined || digest === request.digest)) all = ended;
  }
  return all;
};

type How = {
  dataDir: string;
  digest: string | undefined;
  revoke: true | undefined;
  /** The configuration has an environment for the project, which takes precedence over the project's file. */
  overridden: boolean;
};

const ignored =
  "It has no effect while `environments` in config.jsonc has an environment for this project: the file is ignored.";

/** Shows the request in one file, and grants it if the options say so. */
const decide = async (
  request: ProjectRequest,
  { dataDir, digest, revoke, overridden }: How,
  screen: Screen,
  emit: ((value: object) => void) | undefined,
): Promise<number> => {
  const { project, file } = request;
  const show = (granted: boolean): number => {
    if (emit !== undefined) emit({ file, digest: request.digest, granted, ...request.asked });
    else
      screen.say(
        !granted ? "Not granted." : `Granted. ${overridden ? ignored : "It applies to Tasks created from now on."}`,
      );
    return granted || revoke === true ? exit.completed : exit.failed;
  };
  if (revoke === true) {
    setGrant(dataDir, project, null, file);
    return show(false);
  }
  const { requests, problems, grantable } = wordsOf(request);
  if (emit === undefined) {
    screen.say(`${file} of ${clean(request.directory)} (SHA-256 ${request.digest}) requests:`);
    for (const line of requests) screen.say(`  ${clean(line)}`);
    for (const problem of problems) screen.say(`  cannot be used: ${clean(problem)}`);
  }
  if (request.granted) return show(true);
  if (!grantable) return show(false);
  if (digest !== undefined && digest !== request.digest) return show(false);
  if (digest === undefined) {
    if (!process.stdin.isTTY || emit !== undefined) {
      screen.say(`Nothing was granted. To grant it: sortie trust --digest ${request.digest}`);
      return emit === undefined ? exit.failed : show(false);
    }
    const terminal = createInterface({ input: process.stdin, output: process.stdout });
    const answer = await terminal.question("Grant it? [y/N] ").finally(() => terminal.close());
    if (!/^y(es)?$/i.test(answer.trim())) return show(false);
  }
  setGrant(dataDir, project, request.digest, file);
  return show(true);
};
