import type { Facts } from "../model/model.ts";
import type { Files } from "../workspace/files.ts";

/** The project's own commands, from its manifests. The first manifest that names a command wins. */

type Commands = Facts["detected"];
const kinds = ["test", "build", "lint", "typecheck"] as const;

export const detectCommands = async (files: Files): Promise<Commands> => {
  const text = (path: string) =>
    files.read(path, 1024 * 1024).then(
      ({ bytes }) => bytes.toString("utf8"),
      () => undefined,
    );
  const [manifest, pnpm, yarn, pyproject, goMod, cargo, makefile] = await Promise.all(
    ["package.json", "pnpm-lock.yaml", "yarn.lock", "pyproject.toml", "go.mod", "Cargo.toml", "Makefile"].map(text),
  );
  const runner = pnpm !== undefined ? "pnpm" : yarn !== undefined ? "yarn" : "npm";
  return {
    ...(makefile === undefined ? {} : fromMake(makefile)),
    ...(cargo === undefined ? {} : { test: "cargo test", build: "cargo build", typecheck: "cargo check" }),
    ...(goMod === undefined ? {} : { test: "go test ./...", build: "go build ./...", lint: "go vet ./..." }),
    ...(pyproject === undefined ? {} : { test: "python3 -m pytest" }),
    ...(manifest === undefined ? {} : fromPackage(manifest, runner)),
  };
};

const fromPackage = (manifest: string, runner: string): Commands => {
  const scripts = scriptsOf(manifest);
  const found: Commands = {};
  for (const kind of kinds)
    if (scripts[kind] !== undefined && !/no test specified/.test(scripts[kind]))
      found[kind] = kind === "test" ? `${runner} test` : `${runner} run ${kind}`;
  return found;
};

const scriptsOf = (manifest: string): Record<string, string> => {
  try {
    const { scripts } = JSON.parse(manifest) as { scripts?: Record<string, string> };
    return typeof scripts === "object" && scripts !== null ? scripts : {};
  } catch {
    return {};
  }
};

const fromMake = (makefile: string): Commands => {
  const found: Commands = {};
  for (const kind of kinds) if (new RegExp(`^${kind}\\s*:`, "m").test(makefile)) found[kind] = `make ${kind}`;
  return found;
};
