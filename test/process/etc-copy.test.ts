import { chmodSync, lstatSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { copyEtc } from "../../src/process/sandbox/etc-copy.ts";
import type { Mount } from "../../src/process/sandbox/place.ts";
import { temporary, writeFiles } from "../harness/project.ts";

/** /etc of sandboxes is kept from start to start, as long as nothing that it was made of has changed. */

const lab = () => {
  const scratch = temporary();
  const etc = join(scratch.path, "etc");
  const folder = join(scratch.path, "copy");
  writeFiles(etc, { passwd: "root:x:0", "fonts/one.conf": "1", "locale.gen": "en", shadow: "secret" });
  symlinkSync("/usr/share/zoneinfo/UTC", join(etc, "localtime"));
  const make = (mounts: readonly Mount[] = []) => copyEtc(folder, mounts, etc);
  /** Whether another call leaves the copy as it is. */
  const isKept = (mounts: readonly Mount[] = []): boolean => {
    const before = statSync(folder).ino;
    writeFileSync(join(folder, "mark"), "");
    make(mounts);
    const kept = statSync(folder).ino === before && lstatSync(join(folder, "mark"), { throwIfNoEntry: false });
    return Boolean(kept);
  };
  return { etc, folder, make, isKept, [Symbol.dispose]: () => scratch[Symbol.dispose]() };
};

test("what programs need is copied, nothing else, and kept for the next start", () => {
  using it = lab();
  expect(it.make()).toEqual([{ kind: "ro", from: it.folder, to: "/etc" }]);
  expect(readFileSync(join(it.folder, "passwd"), "utf8")).toBe("root:x:0");
  expect(readFileSync(join(it.folder, "fonts/one.conf"), "utf8")).toBe("1");
  expect(lstatSync(join(it.folder, "localtime")).isSymbolicLink()).toBe(true);
  expect(lstatSync(join(it.folder, "shadow"), { throwIfNoEntry: false })).toBeUndefined();
  expect(it.isKept()).toBe(true);
});

const mount = { kind: "ro", from: "/usr", to: "/etc/opt/tool" } as const;
test.each([
  ["a file with another text", (etc: string) => writeFileSync(join(etc, "passwd"), "root:x:1")],
  ["a file with another mode", (etc: string) => chmodSync(join(etc, "passwd"), 0o640)],
  ["a file more", (etc: string) => writeFileSync(join(etc, "timezone"), "UTC")],
  ["a file more in a folder", (etc: string) => writeFileSync(join(etc, "fonts/two.conf"), "2")],
  ["a file less", (etc: string) => rmSync(join(etc, "locale.gen"))],
  ["a folder with too many files now", (etc: string) => writeFiles(etc, many)],
  ["a link to another place", (etc: string) => relink(join(etc, "localtime"), "/usr/share/zoneinfo/CET")],
])("it is made anew after a change: %s", (_, change) => {
  using it = lab();
  it.make();
  expect(it.isKept(), "control").toBe(true);
  change(it.etc);
  expect(it.isKept()).toBe(false);
  expect(it.isKept(), "and kept again").toBe(true);
});

const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`fonts/${index}.conf`, ""]));
const relink = (path: string, to: string) => {
  rmSync(path);
  symlinkSync(to, path);
};

test("it is made anew for another mount below /etc, and when it was not finished", () => {
  using it = lab();
  it.make();
  expect(it.isKept([mount])).toBe(false);
  expect(statSync(join(it.folder, "opt/tool")).isDirectory()).toBe(true);
  expect(it.isKept([mount])).toBe(true);
  rmSync(`${it.folder}.json`);
  expect(it.isKept([mount])).toBe(false);
  rmSync(it.folder, { recursive: true });
  it.make([mount]);
  expect(statSync(join(it.folder, "opt/tool")).isDirectory()).toBe(true);
});
