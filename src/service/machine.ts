import { homedir } from "node:os";
import { rgPath } from "@vscode/ripgrep";
import type { Config } from "../config/config.ts";
import { findBrowser } from "../check/browser/find.ts";
import type { Sandbox } from "../process/sandbox/sandbox.ts";
import { findSandbox } from "../process/sandbox/tier.ts";
import { problemOf } from "../repository/service.ts";
import { unusedMirrors } from "../repository/sweep.ts";
import { type Catalog, createCatalog } from "../squad/catalog/catalog.ts";
import { type Kept, keptIn } from "../workspace/worktree/kept.ts";

/**
 * What the configuration finds on this machine: sandbox, squads, browser, worktrees and mirrors that stayed. `sortie doctor` uses the
 * same functions.
 */

export const sandboxOf = (config: Config): Promise<Sandbox> =>
  findSandbox({
    ...config.sandbox,
    path: config.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
    home: config.env["HOME"] ?? homedir(),
    env: config.env,
    dataDir: config.dataDir,
    tmpBytes: config.limits.commandTmpBytes,
    programs: { rg: rgPath },
  });

export const catalogOf = ({ agents }: Config, dataDir: string | undefined): Catalog =>
  createCatalog({ dataDir, external: Object.keys(agents) });

export const browserOf = (config: Config): string | undefined => findBrowser(config.browser, config.env["PATH"] ?? "");

/** In words for the operator; undefined: there is none. */
export const repositoryProblem = ({ repositories, env }: Config): string | undefined => problemOf(repositories, env);

/** Addresses of repositories whose mirror stands though nobody used it for long. */
export const oldMirrors = ({ dataDir, repositories }: Config): string[] =>
  unusedMirrors(dataDir, repositories.mirrorDays, new Date()).map(({ url }) => url);

export const keptWorktrees = ({ dataDir }: Config): Kept[] => keptIn(dataDir);
