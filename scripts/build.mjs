// Builds `dist`: compiled JavaScript and declarations of `src`, and the files that the service serves.
// Builds beside and swaps, so that `dist` never holds half a build or a file whose source is gone.
//   node scripts/build.mjs [--prepare: not when setup.mjs installs, which builds afterwards itself]
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, "dist");
/** Its time is the beginning of the build that made `dist`: a file changed meanwhile counts as newer. */
const stamp = join(dist, ".built");

/** Newest change under a path, in ms; folders count too, because that is where a deletion shows. */
const newest = (path) => {
  const { mtimeMs } = statSync(path);
  if (!statSync(path).isDirectory()) return mtimeMs;
  return readdirSync(path).reduce((latest, name) => Math.max(latest, newest(join(path, name))), mtimeMs);
};

/** Whether `dist` was built from the sources as they are now. */
export const isCurrent = () =>
  existsSync(stamp) &&
  ["src", "tsconfig.json", "tsconfig.build.json", "package-lock.json", "scripts/build.mjs"].every(
    (path) => newest(join(root, path)) <= statSync(stamp).mtimeMs,
  );

const build = () => {
  const began = new Date();
  const next = join(root, "node_modules/.cache", `sortie-${process.pid}`);
  const previous = `${next}-previous`;
  const tsc = join(root, "node_modules/@typescript/native/bin/tsc");
  try {
    const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json", "--outDir", next], {
      cwd: root,
      stdio: "inherit",
    });
    if (status !== 0) return status ?? 1;
    // The reference page must work without the internet, so its script ships with us.
    const reference = join(next, "http/static");
    mkdirSync(reference, { recursive: true });
    cpSync(
      join(root, "node_modules/@scalar/api-reference/dist/browser/standalone.js"),
      join(reference, "reference.js"),
    );
    writeFileSync(join(next, ".built"), "");
    utimesSync(join(next, ".built"), began, began);
    if (existsSync(dist)) renameSync(dist, previous);
    renameSync(next, dist);
    return 0;
  } finally {
    for (const path of [next, previous]) rmSync(path, { recursive: true, force: true });
  }
};

const waits = process.argv.includes("--prepare") && process.env.SORTIE_SETUP === "1";
if (process.argv[1] === fileURLToPath(import.meta.url) && !waits) process.exitCode = build();
