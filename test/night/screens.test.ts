import { afterAll, beforeAll, expect, test } from "vitest";
import type { Browser } from "playwright-core";
import { show } from "../../scripts/pictures/camera.ts";
import { little } from "../../scripts/pictures/little.ts";
import { much } from "../../scripts/pictures/much.ts";
import { none } from "../../scripts/pictures/none.ts";
import { browserHere } from "../harness/browser.ts";
import { built } from "../harness/built.ts";
import { launch, violations } from "../web/browser.ts";
import { inBrowser } from "../web/stage.ts";

/**
 * Every screen and dialog of the pictures, with nothing, a little and far too much in it: whether everybody can read
 * it, on a laptop in the light and on a telephone in the dark. `test/web/screens.test.ts` has the control.
 */

let browser: Browser;
beforeAll(async () => {
  if (browserHere === undefined) return;
  await built();
  browser = await launch();
}, 150_000);
afterAll(() => browser?.close());

inBrowser("no rule of accessibility is broken", () => {
  test.each([
    ["nothing", none, 14],
    ["a little", little, 30],
    ["far too much", much, 14],
  ])("with %s in it", { timeout: 600_000 }, async (_, seed, least) => {
    await using world = await seed();
    expect(world.shots.length).toBeGreaterThanOrEqual(least);
    const broken: string[] = [];
    for (const [width, height, colorScheme] of [
      [1280, 800, "light"],
      [390, 844, "dark"],
    ] as const) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
      await context.addInitScript("localStorage.setItem('sortie.notices', 'no')");
      for (const shot of world.shots) {
        const page = await context.newPage();
        await show(page, world.url, shot);
        broken.push(...(await violations(page)).map((line) => `${shot.name} ${width} ${colorScheme}: ${line}`));
        await page.close();
      }
      await context.close();
    }
    expect(broken).toEqual([]);
  });
});
