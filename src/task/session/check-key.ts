import { createHash } from "node:crypto";
import { isCommand, type RunCheck } from "../../protocol/check.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/**
 * A key for everything that the result of a project's check depends on: the tree, the check, and the state of the
 * machine.
 */
export const resultKey = (run: Run, workspace: Workspace, spec: RunCheck, tree: string): string => {
  const { directory } = run.state();
  const { tier, network } = run.sandbox;
  const { variables, secrets, network: own, image } = run.environment;
  const setup = run.setup === undefined ? null : [run.setup.run, run.setup.network];
  // Secrets by name only: a new value does not invalidate the result.
  const environment = [variables, Object.keys(secrets), own, ...(image === undefined ? [] : [image.id])];
  const definition = isCommand(spec) ? [spec.run, spec.cwd, spec.env, spec.expect, spec.timeoutSeconds] : spec;
  return hashOf([directory, tree, definition, workspace.dependencyStamp(), setup, environment, tier, network]);
};

/** A key for the last result of a project's check before a change, whatever the tree was. */
export const projectKey = (run: Run, spec: RunCheck): string =>
  hashOf(["on the base", run.state().directory, isCommand(spec) ? [spec.run, spec.timeoutSeconds] : spec]);

const hashOf = (parts: readonly unknown[]): string => createHash("sha256").update(JSON.stringify(parts)).digest("hex");
