import { existsSync } from "node:fs";
import { join } from "node:path";

/**
 * Launchers such as rustup's `cargo` or pyenv's `python3` look below HOME for the programs they start. Commands have
 * another HOME, so these variables tell the launchers where the programs are.
 */

export type MachineEnvironment = {
  home: string;
  /** The service's environment, in which the operator may have moved a toolchain. */
  env?: Readonly<Record<string, string | undefined>>;
};

/** Each variable's default folder below HOME; "" for none. */
const homes: Readonly<Record<string, string>> = {
  RUSTUP_HOME: ".rustup",
  PYENV_ROOT: ".pyenv",
  VOLTA_HOME: ".volta",
  ASDF_DATA_DIR: ".asdf",
  MISE_DATA_DIR: ".local/share/mise",
  JAVA_HOME: "",
  GOROOT: "",
};

const movedTo = (value: string | undefined): string | undefined =>
  value?.startsWith("/") && existsSync(value) ? value : undefined;

/** Toolchain folders named in the operator's environment. */
export const movedTools = ({ env = {} }: MachineEnvironment): string[] =>
  Object.keys(homes).flatMap((name) => movedTo(env[name]) ?? []);

export const toolEnv = ({ home, env = {} }: MachineEnvironment, network: boolean): Record<string, string> => {
  const found: Record<string, string> = {};
  for (const [name, below] of Object.entries(homes)) {
    const standard = below === "" ? undefined : movedTo(join(home, below));
    const folder = movedTo(env[name]) ?? standard;
    if (folder !== undefined) found[name] = folder;
  }
  // Only the operator installs toolchains, even where commands could write the folder.
  if (found["RUSTUP_HOME"] !== undefined) found["RUSTUP_AUTO_INSTALL"] = "0";
  if (network) return found;
  // With network, cargo downloads into the command's own folder; without, it can only use what is there already.
  const cargo = movedTo(env["CARGO_HOME"]) ?? join(home, ".cargo");
  if (existsSync(join(cargo, "registry"))) found["CARGO_HOME"] = cargo;
  if (existsSync(join(cargo, "bin"))) found["CARGO_NET_OFFLINE"] = "true";
  return found;
};
