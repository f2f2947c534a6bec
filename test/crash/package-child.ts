import fs from "node:fs";
import fsp from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

/**
 * Installs or removes a package and kills itself (SIGKILL) before the n-th change of the file system; 0 lets it end and
 * prints how many there were. The removal of a folder counts twice: before it, and with one of its files gone.
 *   node package-child.ts install|uninstall|naive <data folder> <package's folder> <expected digest or -> <n>
 */
const [what = "", dataDir = "", source = "", expected = "-", at = "0"] = process.argv.slice(2);
let count = 0;
const change = (): void => {
  count += 1;
  if (count === Number(at)) process.kill(process.pid, "SIGKILL");
};

const before = <F extends (...args: never[]) => unknown>(real: F): F =>
  ((...args: Parameters<F>) => {
    change();
    return real(...args);
  }) as F;

const handle = await fsp.open("/dev/null");
const files = Object.getPrototypeOf(handle) as typeof handle;
await handle.close();
for (const name of ["sync", "writeFile"] as const) {
  const real = files[name] as (this: unknown, ...args: unknown[]) => Promise<void>;
  Object.assign(files, {
    [name](this: unknown, ...args: unknown[]) {
      change();
      return real.apply(this, args);
    },
  });
}
const remove = fsp.rm;
Object.assign(fs, { renameSync: before(fs.renameSync), mkdirSync: before(fs.mkdirSync) });
Object.assign(fsp, {
  open: before(fsp.open),
  rm: async (path: string, options: object) => {
    change();
    const [first] = fs.existsSync(path) ? fs.readdirSync(path) : [];
    if (first !== undefined) {
      fs.rmSync(join(path, first), { recursive: true });
      change();
    }
    return remove(path, options);
  },
});
syncBuiltinESMExports();

const { createCatalog } = await import("../../src/squad/catalog/catalog.ts");
const { createManager } = await import("../../src/squad/install/manager.ts");
const catalog = createCatalog({ dataDir, external: [] });
const inspect = async (directory: string) => ({ directory, project: directory, git: undefined });
const manager = createManager({ catalog, dataDir, external: [], inspect });
count = 0;
if (what === "install")
  await manager.install({ path: source }, "user", undefined, expected === "-" ? undefined : expected);
else if (what === "uninstall") await manager.uninstall("api", "user");
else {
  // Control: what an installer must not do.
  await fsp.rm(join(dataDir, "squads/api"), { recursive: true });
  for (const name of fs.readdirSync(source)) {
    change();
    fs.cpSync(join(source, name), join(dataDir, "squads/api", name), { recursive: true });
  }
}
process.stdout.write(`${count}\n`);
