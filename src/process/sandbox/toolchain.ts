import { existsSync } from "node:fs";
import { join } from "node:path";

/**
 * Launchers such as rustup's `cargo` or pyenv's `python3` look for what they start below HOME, which is another one for
 * commands: these variables tell them where it stands.
 */

export type MachineEnvironment = {
  home: string;
  /** The service's environment: where the operator has moved a toolchain. */
  env?: Readonly<Record<string, string | undefined>>;
};

/** By variable, the folder below HOME that stands for it when it is not set; "" = none. */
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

/** Folders that the operator's environment names. */
export const movedTools = ({ env = {} }: MachineEnvironment): string[] =>
  Object.keys(homes).flatMap((name) => movedTo(env[name]) ?? []);

export const toolEnv = ({ home, env = {} }: MachineEnvironment, network: boolean): Record<string, string> => {
  const found: Record<string, string> = {};
  for (const [name, below] of Object.entries(homes)) {
    const standard = below === "" ? undefined : movedTo(join(home, below));
    const folder = movedTo(env[name]) ?? standard;
    if (folder !== undefined) found[name] = folder;
  }
  // A toolchain is the operator's to install, wherever commands could write it.
  if (found["RUSTUP_HOME"] !== undefined) found["RUSTUP_AUTO_INSTALL"] = "0";
  if (network) return found;
  // With the network cargo downloads into a folder of the command's own; without, what is there is all that there is.
  const cargo = movedTo(env["CARGO_HOME"]) ?? join(home, ".cargo");
  if (existsSync(join(cargo, "registry"))) found["CARGO_HOME"] = cargo;
  if (existsSync(join(cargo, "bin"))) found["CARGO_NET_OFFLINE"] = "true";
  return found;
};
