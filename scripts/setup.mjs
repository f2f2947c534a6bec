// Makes a fresh clone usable: installs what the lockfile names, builds `dist`. Runs before `npm run demo`, `npm test`
// and `npm run check`, on whatever Node the machine has (>= 18), so it needs no dependency. Fast when nothing is missing.
//   node scripts/setup.mjs [--no-build]
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isCurrent } from "./build.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

const say = (text) => process.stderr.write(`setup: ${text}\n`);

/** The first thing that the lockfile names and node_modules lacks; undefined when complete. */
const firstMissing = () => {
  const installed = join(root, "node_modules/.package-lock.json");
  if (!existsSync(installed)) return "node_modules";
  // npm keeps beside the packages what it installed; comparing it with the lockfile needs no trust in file times.
  const wanted = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages;
  const present = JSON.parse(readFileSync(installed, "utf8")).packages;
  for (const [path, entry] of Object.entries(wanted)) {
    // Optional packages are mostly those of other platforms.
    if (path === "" || entry.optional || entry.devOptional) continue;
    if (present[path]?.version !== entry.version) return `${path.replace("node_modules/", "")} ${entry.version}`;
  }
  // The Node that our scripts run on is fetched by an install script; without it they would run on the machine's.
  return existsSync(join(root, "node_modules/node/bin/node")) ? undefined : "the node of node_modules";
};

/** Runs npm; `quiet` keeps its words back. Resolves to what it said when it failed, else undefined. */
const npm = (args, quiet) => {
  // npm tells its own path to the scripts it runs; outside of npm the one in PATH is taken.
  const cli = process.env.npm_execpath;
  const [command, first] = cli?.endsWith(".js") ? [process.execPath, [cli]] : ["npm", []];
  const run = spawnSync(command, [...first, ...args, "--no-audit", "--no-fund"], {
    cwd: root,
    stdio: ["ignore", quiet ? "pipe" : 2, quiet ? "pipe" : 2],
    encoding: "utf8",
    // `prepare` leaves the build to us: a build that fails is not an installation that failed.
    env: { ...process.env, SORTIE_SETUP: "1" },
  });
  return run.status === 0 ? undefined : `${run.stdout ?? ""}${run.stderr ?? ""}${run.error?.message ?? ""}`;
};

const install = () => {
  say("installing the dependencies, about half a minute");
  const refusal = npm(["ci"], true);
  if (refusal === undefined) return true;
  // npm 11.10-11.19 refuses `ci` where the registry lacks an optional package of another platform; `install` accepts
  // the same lockfile, but drops those packages from it, so the file is put back.
  say(`npm ci failed (${/code (\w+)/.exec(refusal)?.[1] ?? "no code"}), trying npm install with the same lockfile`);
  const lockfile = join(root, "package-lock.json");
  const before = readFileSync(lockfile);
  const failed = npm(["install"], false) !== undefined;
  writeFileSync(lockfile, before);
  if (failed) say(`npm could not install the dependencies. npm ci said:\n${refusal}`);
  return !failed;
};

const missing = firstMissing();
if (missing !== undefined) {
  say(`${missing} is not installed`);
  if (!install()) process.exit(1);
}

if (!process.argv.includes("--no-build") && !isCurrent()) {
  say("building dist");
  const { status } = spawnSync(process.execPath, [join(root, "scripts/build.mjs")], {
    cwd: root,
    stdio: ["ignore", 2, 2],
  });
  if (status !== 0) process.exit(1);
}
