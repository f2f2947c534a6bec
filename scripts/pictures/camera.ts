import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { findBrowser } from "../../src/check/browser/find.ts";

/** Takes pictures of the page in the machine's Chromium. */

export type Shot = {
  name: string;
  path: string;
  /** What somebody does before the picture is taken. */
  before?: (page: Page) => Promise<void>;
  /** Below the first window too. */
  whole?: boolean;
};
export type Look = { width: number; height: number; scheme: "light" | "dark" };

export const looks: readonly Look[] = [390, 768, 1280, 1440, 1920].flatMap((width) =>
  (["light", "dark"] as const).map((scheme) => ({
    width,
    height: { 390: 844, 768: 1024 }[width] ?? Math.round(width * 0.625),
    scheme,
  })),
);

/** Fonts that Debian has, so that pictures differ only where the page does. */
const fonts = (folder: string): string => {
  const same = ["ui-sans-serif", "system-ui", "sans-serif"].map((name) => [name, "Liberation Sans"]);
  const rules = [...same, ["ui-monospace", "DejaVu Sans Mono"]].map(
    ([name, font]) =>
      `<match target="pattern"><test name="family"><string>${name}</string></test><edit name="family" mode="assign" binding="strong"><string>${font}</string></edit></match>`,
  );
  const file = join(folder, "fonts.conf");
  writeFileSync(
    file,
    `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>/usr/share/fonts</dir><cachedir>${folder}/fonts</cachedir>${rules.join("")}</fontconfig>`,
  );
  return file;
};

export const openCamera = (folder: string): Promise<Browser> =>
  chromium.launch({
    executablePath: findBrowser(undefined, process.env["PATH"] ?? "") ?? "chromium",
    chromiumSandbox: process.getuid?.() !== 0,
    env: { ...process.env, FONTCONFIG_FILE: fonts(folder) },
  });

/** Opens what a shot shows, complete and at rest. */
export const show = async (page: Page, url: string, shot: Shot): Promise<void> => {
  await page.goto(url + shot.path);
  await page.locator("h1, [role=alert]").first().waitFor();
  await page.getByRole("status", { name: /^Loading/ }).waitFor({ state: "detached" });
  await page.waitForTimeout(500);
  await shot.before?.(page);
  await page.waitForTimeout(150);
};

export const take = async (
  browser: Browser,
  url: string,
  shots: readonly Shot[],
  look: Look,
  fileOf: (shot: Shot) => string,
): Promise<void> => {
  const { width, height, scheme } = look;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: "reduce",
  });
  // The offer of notifications is answered, as it is after the first day.
  await context.addInitScript("localStorage.setItem('sortie.notices', 'no')");
  for (const shot of shots) {
    const page = await context.newPage();
    await show(page, url, shot);
    if (shot.whole === true) {
      // The screen scrolls within the window: the window is made as high as what it shows.
      const inside = await page.evaluate<number>("document.querySelector('main')?.scrollHeight ?? 0");
      await page.setViewportSize({ width, height: Math.min(6000, Math.max(height, inside + (width < 1024 ? 48 : 0))) });
      await page.waitForTimeout(200);
    }
    await page.screenshot({ path: fileOf(shot) });
    if (shot.whole === true) await page.setViewportSize({ width, height });
    await page.close();
  }
  await context.close();
};
