import type { Stated } from "./manifest.ts";
import { shellQuote } from "../../../shell-quote.ts";

/**
 * Package managers: the lock file of each, and the command that sets one dependency to one version without running
 * scripts.
 */

export type Manager = "npm" | "pnpm" | "yarn" | "berry" | "bun" | "uv" | "cargo" | "go";

/** By the name of the lock file. `yarn.lock` belongs to two managers, which its first lines distinguish. */
export const managers: Readonly<Record<string, Manager>> = {
  "package-lock.json": "npm",
  "npm-shrinkwrap.json": "npm",
  "pnpm-lock.yaml": "pnpm",
  "yarn.lock": "yarn",
  "bun.lock": "bun",
  "bun.lockb": "bun",
  "uv.lock": "uv",
  "Cargo.lock": "cargo",
  "go.sum": "go",
};

export const programs: Readonly<Record<Manager, string>> = {
  npm: "npm",
  pnpm: "pnpm",
  yarn: "yarn",
  berry: "yarn",
  bun: "bun",
  uv: "uv",
  cargo: "cargo",
  go: "go",
};

type Wish = {
  name: string;
  version: string;
  stated: Stated;
  /** Path from the lock's folder to the manifest's; "" when they are the same. */
  member: string;
  /** The lock's folder is the root of a workspace. */
  root: boolean;
  /** The folder has a `node_modules` of its own, which must be updated, too. */
  installed: boolean;
};

/**
 * The command, the folder to run it in (relative to the lock's), and the version that the manifest states afterwards.
 */
type Bumping = { command: string; folder: string; spec: string };

export const bumpWith = (manager: Manager, wish: Wish): Bumping | { why: string } => {
  switch (manager) {
    case "npm":
    case "pnpm":
    case "yarn":
    case "berry":
    case "bun":
      return withNode(manager, wish);
    case "uv":
      return withUv(wish);
    case "cargo":
      return withCargo(wish);
    case "go":
      return withGo(wish);
  }
};

const three = /^\d+\.\d+\.\d+/;
const inexact = (manager: string, version: string) => ({
  why: `${manager} takes "${version}" for a range; expected an exact version such as 1.2.3`,
});

const sections: Readonly<Record<string, Record<"npm" | "pnpm" | "yarn" | "berry" | "bun", string>>> = {
  dependencies: { npm: "--save-prod", pnpm: "--save-prod", yarn: "", berry: "", bun: "" },
  devDependencies: { npm: "--save-dev", pnpm: "--save-dev", yarn: "--dev", berry: "--dev", bun: "--dev" },
  optionalDependencies: {
    npm: "--save-optional",
    pnpm: "--save-optional",
    yarn: "--optional",
    berry: "--optional",
    bun: "--optional",
  },
  peerDependencies: { npm: "--save-peer", pnpm: "--save-peer", yarn: "--peer", berry: "--peer", bun: "--peer" },
};

const withNode = (manager: "npm" | "pnpm" | "yarn" | "berry" | "bun", wish: Wish): Bumping | { why: string } => {
  const { name, stated, member, installed, root } = wish;
  const version = wish.version.replace(/^v/, "");
  if (!three.test(version)) return inexact(programs[manager], version);
  const prefix = /^([~^]?)\d[\w.+-]*$/.exec(stated.spec)?.[1];
  if (prefix === undefined || /\.x\b/i.test(stated.spec))
    return { why: `expected "${name}" to be a plain version such as ^1.2.3, the manifest says "${stated.spec}"` };
  const section = sections[stated.section]?.[manager] ?? "";
  const what = shellQuote(`${name}@${version}`);
  const words = (...parts: string[]) => parts.filter((part) => part !== "").join(" ");
  const spec = `${prefix}${version}`;
  switch (manager) {
    case "npm": {
      const style = prefix === "" ? "--save-exact" : `--save-prefix=${shellQuote(prefix)}`;
      const lock = installed ? "" : "--package-lock-only";
      const where = member === "" ? "" : `--workspace=${shellQuote(member)}`;
      const quiet = "--no-audit --no-fund --no-update-notifier";
      return {
        command: words("npm install --ignore-scripts", quiet, lock, section, style, where, "--", what),
        folder: "",
        spec,
      };
    }
    case "pnpm": {
      const style = prefix === "" ? "--save-exact" : `--save-prefix=${shellQuote(prefix)}`;
      const lock = installed ? "" : "--lockfile-only";
      const top = member === "" && root ? "--workspace-root" : "";
      return { command: words("pnpm add --ignore-scripts", lock, section, style, top, what), folder: member, spec };
    }
    case "yarn": {
      const style = prefix === "" ? "--exact" : prefix === "~" ? "--tilde" : "";
      const top = member === "" && root ? "--ignore-workspace-root-check" : "";
      return {
        command: words("yarn add --ignore-scripts --non-interactive", section, style, top, what),
        folder: member,
        spec,
      };
    }
    case "berry": {
      const style = prefix === "" ? "--exact" : prefix === "~" ? "--tilde" : "--caret";
      const mode = installed ? "--mode=skip-build" : "--mode=update-lockfile";
      return {
        command: words("YARN_ENABLE_SCRIPTS=false YARN_ENABLE_TELEMETRY=0 yarn add", mode, section, style, what),
        folder: member,
        spec,
      };
    }
    case "bun": {
      if (prefix === "~") return { why: `bun cannot keep "~" of "${stated.spec}"` };
      const style = prefix === "" ? "--exact" : "";
      return { command: words("bun add --ignore-scripts", section, style, what), folder: member, spec };
    }
  }
};

const withUv = ({ name, version, stated, member }: Wish): Bumping | { why: string } => {
  const match = /^([A-Za-z0-9][\w.-]*) ?(\[[\w, .-]*\])? ?(?:(==|>=|~=) ?[\w.!+*-]+)? ?(;.*)?$/.exec(
    stated.spec.replaceAll(/\s+/g, " ").trim(),
  );
  if (match === null) return { why: `expected "${name}" with one of ==, >= or ~=, the manifest says "${stated.spec}"` };
  const [, written = name, extras = "", operator = "==", marker = ""] = match;
  const exact = version.replace(/^v/, "");
  const spec = `${written}${extras}${operator}${exact}${marker === "" ? "" : ` ${marker}`}`;
  const [, group] = /^dependency-groups\.(.+)$/.exec(stated.section) ?? [];
  const [, extra] = /^project\.optional-dependencies\.(.+)$/.exec(stated.section) ?? [];
  const section =
    group !== undefined
      ? `--group ${shellQuote(group)} `
      : extra !== undefined
        ? `--optional ${shellQuote(extra)} `
        : stated.section === "tool.uv.dev-dependencies"
          ? "--dev "
          : "";
  return {
    command: `uv add --no-sync --no-build ${section}--upgrade-package ${shellQuote(`${written}==${exact}`)} -- ${shellQuote(spec)}`,
    folder: member,
    spec,
  };
};

const withCargo = ({ name, version, stated, member }: Wish): Bumping | { why: string } => {
  const exact = version.replace(/^v/, "");
  if (!three.test(exact)) return inexact("cargo", exact);
  const style = /^([=~^]?)\s*\d[\w.+-]*$/.exec(stated.spec)?.[1];
  if (style === undefined)
    return { why: `expected "${name}" to be a plain version such as "1.2.3", the manifest says "${stated.spec}"` };
  const target = /^target\.(?:'([^']+)'|"([^"]+)"|([\w.-]+))\./
    .exec(stated.section)
    ?.slice(1)
    .find((part) => part !== undefined);
  const kind = /(dev|build)-dependencies$/.exec(stated.section)?.[1];
  if (stated.section.startsWith("workspace."))
    return { why: "cargo has no command for [workspace.dependencies]; edit the version there with `replace`" };
  const section = `${kind === undefined ? "" : ` --${kind}`}${target === undefined ? "" : ` --target ${shellQuote(target)}`}`;
  const spec = `${style}${exact}`;
  return {
    command: `cargo add${section} ${shellQuote(`${name}@${spec}`)} && cargo update --package ${shellQuote(name)} --precise ${shellQuote(exact)}`,
    folder: member,
    spec,
  };
};

const withGo = ({ name, version }: Wish): Bumping | { why: string } => {
  const exact = version.startsWith("v") ? version : `v${version}`;
  return three.test(exact.slice(1))
    ? { command: `go get -- ${shellQuote(`${name}@${exact}`)} && go mod tidy`, folder: "", spec: exact }
    : inexact("go", exact);
};
