// Makes npm-shrinkwrap.json for the package: what package-lock.json names of what runs, by version and hash, so that an
// installed package is what was tested. npm runs it before it packs, and again with --remove afterwards: in a clone npm
// would take the file for the lockfile.
//   node scripts/shrinkwrap.mjs [--remove]
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const shrinkwrap = join(root, "npm-shrinkwrap.json");

/** The lockfile without what only develops. */
const runtime = ({ packages, ...lock }) => {
  const { devDependencies: _, ...own } = packages[""];
  const kept = Object.entries(packages).filter(([path, { dev }]) => path !== "" && dev !== true);
  const bare = kept.find(([, { integrity, link }]) => integrity === undefined || link === true);
  if (bare !== undefined) throw new Error(`Expected a hash for ${bare[0]} in package-lock.json, got none.`);
  return { ...lock, packages: { "": own, ...Object.fromEntries(kept) } };
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--remove")) rmSync(shrinkwrap, { force: true });
  else {
    const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
    writeFileSync(shrinkwrap, `${JSON.stringify(runtime(lock), null, 2)}\n`);
  }
}
