import type { Network } from "../process/network/allow-list.ts";
import type { Image } from "../process/sandbox/image-root.ts";
import type { EnvironmentSettings } from "../protocol/task/environment.ts";

/** What the commands of a project get in addition to its files, as the operator has configured or granted it. */

/**
 * The command that prepares new worktrees, from the service's configuration or from a project's environment that the
 * operator has granted. `network`: what the command may reach; undefined: the same as the Task's commands. `env`: the
 * secrets it gets.
 */
export type Setup = { run: string; network: Network | undefined; env?: Readonly<Record<string, string>> };

export type Environment = {
  /** Checks files after edits, instead of the checkers found in the project; undefined: the service's default. */
  diagnostics?: EnvironmentSettings["diagnostics"];
  variables: Readonly<Record<string, string>>;
  secrets: Readonly<Record<string, string>>;
  paths: readonly string[];
  /** undefined: the service's default. */
  network: Network | undefined;
  shell: readonly string[];
  /** The image that commands run in; undefined: this machine's own system. */
  image?: Image | undefined;
};
