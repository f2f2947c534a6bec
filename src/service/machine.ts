import { homedir } from "node:os";
import { rgPath } from "@vscode/ripgrep";
import type { Config } from "../config/config.ts";
import { findBrowser } from "../check/browser/find.ts";
import type { Sandbox } from "../process/sandbox/sandbox.ts";
import { findSandbox } from "../process/sandbox/tier.ts";
import { type Catalog, createCatalog } from "../squad/catalog/catalog.ts";
import { type Kept, keptIn } from "../workspace/worktree/kept.ts";

/**
 * What the configuration finds on this machine: sandbox, squads, browser, worktrees that stayed. `sortie doctor` uses the
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

export const keptWorktrees = ({ dataDir }: Config): Kept[] => keptIn(dataDir);
