/**
 * Pictures of every screen, of a real service with real Tasks.
 *   node scripts/screenshots.ts             docs/images/*.png
 *   node scripts/screenshots.ts --all DIR   every screen with nothing, a little and far too much in it, and what waits for
 *                                           somebody, at five widths, light and dark, to be looked at
 *     --of little,waiting                   only these
 *     --like "mission.*(390|1280)-light"    only such names
 * Needs `npm run build` before, and Chromium on PATH.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Browser } from "playwright-core";
import { type Look, looks, openCamera, type Shot, take } from "./pictures/camera.ts";
import { little } from "./pictures/little.ts";
import { much } from "./pictures/much.ts";
import { needBuild } from "./pictures/need-build.ts";
import { none } from "./pictures/none.ts";
import { waiting } from "./pictures/waiting.ts";
import type { World } from "./pictures/world.ts";

const worlds: Record<string, () => Promise<World>> = { none, little, much, waiting };

/** Those that the documents show, by what they are called there. */
const kept: Record<string, Record<string, string>> = {
  none: { first: "first" },
  little: Object.fromEntries(
    [
      "tasks board task running result changes checks visual topology events asks",
      "missions mission squads squad models usage webhooks doctor palette help doc",
    ]
      .flatMap((names) => names.split(" "))
      .map((name) => [name, name]),
  ),
};

const keep = async (browser: Browser): Promise<void> => {
  const images = join(dirname(dirname(fileURLToPath(import.meta.url))), "docs/images");
  const one: Look = { width: 1280, height: 800, scheme: "light" };
  for (const [name, names] of Object.entries(kept)) {
    await using world = await worlds[name]!();
    const shots = world.shots.filter((shot) => shot.name in names).map((shot) => ({ ...shot, whole: false }));
    const some = (...wanted: string[]) => shots.filter((shot) => wanted.includes(shot.name));
    await take(browser, world.url, shots, one, (shot) => join(images, `${shot.name}.png`));
    // A little lower: none is to be larger than 150 kB.
    const lower = { ...one, height: 780 };
    await take(browser, world.url, some("mission"), lower, (shot) => join(images, `${shot.name}.png`));
    await take(browser, world.url, some("task", "mission"), { ...lower, scheme: "dark" }, (shot) =>
      join(images, `${shot.name}-dark.png`),
    );
    await take(browser, world.url, some("tasks", "task"), { width: 390, height: 844, scheme: "light" }, (shot) =>
      join(images, `${shot.name}-narrow.png`),
    );
  }
  const files = readdirSync(images).map((name) => ({ name, size: statSync(join(images, name)).size }));
  const sizes = files.map(({ size }) => size);
  for (const { name, size } of files)
    if (size > 150_000 && name.endsWith(".png")) console.warn(`${name} has ${size} bytes, at most 150,000 are meant.`);
  console.log(`${sizes.length} pictures, ${Math.round(sizes.reduce((sum, size) => sum + size, 0) / 1024)} KB`);
};

const takeAll = async (browser: Browser, folder: string, of: readonly string[], like: RegExp): Promise<void> => {
  mkdirSync(folder, { recursive: true });
  for (const name of of) {
    const nameOf = (shot: Shot, { width, scheme }: Look) => `${name}-${shot.name}-${width}-${scheme}`;
    await using world = await worlds[name]!();
    for (const look of looks) {
      const wanted = world.shots.filter((shot) => like.test(nameOf(shot, look)));
      await take(browser, world.url, wanted, look, (shot) => join(folder, `${nameOf(shot, look)}.png`));
    }
  }
};

const { values } = parseArgs({
  options: { all: { type: "string" }, of: { type: "string" }, like: { type: "string", default: "" } },
});
needBuild();
const own = mkdtempSync(join(tmpdir(), "sortie-camera-"));
const browser = await openCamera(own);
try {
  if (values.all === undefined) await keep(browser);
  else await takeAll(browser, values.all, values.of?.split(",") ?? Object.keys(worlds), new RegExp(values.like));
} finally {
  await browser.close();
  rmSync(own, { recursive: true, force: true, maxRetries: 5 });
}
