// Makes a fresh clone usable: installs what the lockfile names, builds `dist`. Runs before `npm run demo`, `npm test`
// and `npm run check`, on whatever Node the machine has (>= 18), so it needs no dependency. Fast when nothing is
// missing.
//   node scripts/setup.mjs [--no-build]
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isCurrent } from "./build.mjs";
import { shrinkwrap } from "./shrinkwrap.mjs";

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

/**
 * Runs it with its words kept back, and says how long it takes: a line that moves on a terminal, elsewhere one every
 * ten seconds. Resolves to what it said when it failed, else undefined.
 */
const quietly = (what, command, args, env = {}) =>
  new Promise((resolve) => {
    const began = performance.now();
    const seconds = () => `${Math.round((performance.now() - began) / 1000)} s`;
    const moves = process.stderr.isTTY && !process.env.CI;
    if (!moves) say(what);
    const tell = () =>
      moves ? process.stderr.write(`\r\x1b[Ksetup: ${what}, ${seconds()}`) : say(`${what}, ${seconds()}`);
    const timer = setInterval(tell, moves ? 1000 : 10_000);
    const child = spawn(command, args, {
      cwd: root,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
    const end = (failure) => {
      clearInterval(timer);
      if (moves) process.stderr.write("\r\x1b[K");
      if (failure === undefined) say(`${what}: done after ${seconds()}`);
      resolve(failure);
    };
    child.once("error", (error) => end(error.message));
    child.once("close", (code) => end(code === 0 ? undefined : said));
  });

const npm = (what, args) => {
  // npm tells its own path to the scripts it runs; outside of npm the one in PATH is taken.
  const cli = process.env.npm_execpath;
  const [command, first] = cli?.endsWith(".js") ? [process.execPath, [cli]] : ["npm", []];
  // Without warnings: that packages want a newer Node than the one which starts npm is no news to anybody.
  // `prepare` leaves the build to us: a build that fails is not an installation that failed.
  return quietly(what, command, [...first, ...args, "--no-audit", "--no-fund", "--loglevel=error"], {
    SORTIE_SETUP: "1",
  });
};

const install = async () => {
  // Left by a packing that was interrupted, it would be taken for the lockfile.
  rmSync(shrinkwrap, { force: true });
  const refusal = await npm("installing the dependencies", ["ci"]);
  if (refusal === undefined) return true;
  // npm 11.10-11.19 refuses `ci` where the registry lacks an optional package of another platform; `install` accepts
  // the same lockfile, but drops those packages from it, so the file is put back.
  const lockfile = join(root, "package-lock.json");
  const before = readFileSync(lockfile);
  say(
    `this npm cannot use npm ci here (${/code (\w+)/.exec(refusal)?.[1] ?? "no code"}), so npm install reads the lockfile instead`,
  );
  const failed = await npm("installing the dependencies", ["install"]);
  writeFileSync(lockfile, before);
  if (failed !== undefined)
    say(`npm could not install the dependencies. npm ci said:\n${refusal}\nnpm install said:\n${failed}`);
  return failed === undefined;
};

const missing = firstMissing();
if (missing !== undefined) {
  say(`${missing} is not installed; with the build that takes a minute or two, once`);
  if (!(await install())) process.exit(1);
}

if (!process.argv.includes("--no-build") && !isCurrent()) {
  const failed = await quietly("building", process.execPath, [join(root, "scripts/build.mjs")]);
  if (failed !== undefined) {
    say(`the build said:\n${failed}`);
    process.exit(1);
  }
}
