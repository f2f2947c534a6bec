import type { Network } from "../process/network/allow-list.ts";
import type { Image } from "../process/sandbox/image-root.ts";
import type { EnvironmentSettings } from "../protocol/task/environment.ts";

/** What the commands of one project get besides its files, as the operator has said it or granted it. */

/**
 * The command for new worktrees: of the service's configuration, or of the project's environment, which the operator
 * has granted. `network`: what it may reach; undefined: what the Task's commands may. `env`: secrets that it is given.
 */
export type Setup = { run: string; network: Network | undefined; env?: Readonly<Record<string, string>> };

export type Environment = {
  /** What looks at files after edits, instead of what is found; undefined: as the service has it. */
  diagnostics?: EnvironmentSettings["diagnostics"];
  variables: Readonly<Record<string, string>>;
  secrets: Readonly<Record<string, string>>;
  paths: readonly string[];
  /** undefined: as the service has it. */
  network: Network | undefined;
  shell: readonly string[];
  /** The system that commands have; undefined: this machine's. */
  image?: Image | undefined;
};
