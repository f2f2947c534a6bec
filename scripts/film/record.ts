import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";

/** Records a command in a terminal, and beside it the page, until the command has ended. */

/** One picture of both, and how long it stands. */
export type Frame = { left: Buffer; right: Buffer; ms: number };

export type Scene = {
  browser: Browser;
  /** The folder of the package that draws a terminal. */
  terminal: string;
  url: string;
  /** Where the page begins. */
  path: string;
  project: string;
  bin: string;
  words: readonly string[];
};

export const size = { left: 600, right: 680, height: 640 };
const columns = 78;
const rows = 33;
const everyMs = 150;
const afterMs = 3500;

export const record = async (scene: Scene): Promise<Frame[]> => {
  const { browser, url, path, words } = scene;
  const look = { colorScheme: "dark", reducedMotion: "no-preference" } as const;
  const left = await browser.newPage({ ...look, viewport: { width: size.left, height: size.height } });
  const right = await browser.newPage({ ...look, viewport: { width: size.right, height: size.height } });
  await openTerminal(left, scene.terminal);
  await right.goto(url + path);
  await right.locator("h1").first().waitFor();
  const write = (text: string) => left.evaluate(`write(${JSON.stringify(text)})`);

  let ended = false;
  const shots = shoot(left, right, () => ended);
  await write("\u001b[32m$\u001b[0m ");
  const typed = `sortie ${words.map((word) => (word.includes(" ") ? `"${word}"` : word)).join(" ")}`;
  for (const letter of typed) {
    await write(letter);
    await pause(18);
  }
  await write("\r\n");
  await Promise.all([run(scene, write), followTask(right)]);
  await pause(afterMs);
  ended = true;
  return shots;
};

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const openTerminal = async (page: Page, folder: string): Promise<void> => {
  const read = (name: string) => readFileSync(join(folder, name), "utf8");
  await page.setContent(
    `<style>${read("css/xterm.css")} body { margin: 0; padding: 14px; background: #0d0f14 } .xterm-viewport { overflow: hidden !important }</style><div id="terminal"></div>`,
  );
  await page.addScriptTag({ content: read("lib/xterm.js") });
  await page.evaluate(`
    const terminal = new Terminal({
      cols: ${columns}, rows: ${rows}, fontSize: 12, fontFamily: "DejaVu Sans Mono", lineHeight: 1.2, cursorBlink: false,
      theme: { background: "#0d0f14", foreground: "#d9dce3", cursor: "#0d0f14" },
    });
    terminal.open(document.getElementById("terminal"));
    window.write = (text) => new Promise((done) => terminal.write(text, done));
  `);
};

/** The command in a terminal of its own; what it prints is drawn as it comes. */
const run = async ({ bin, url, project, words }: Scene, write: (text: string) => Promise<unknown>): Promise<void> => {
  const command = [process.execPath, bin, ...words, "--url", url, "-C", project];
  const line = `stty cols ${columns} rows ${rows}; exec ${command.map((word) => `'${word}'`).join(" ")}`;
  const child = spawn("script", ["-qec", line, "/dev/null"], { env: { ...process.env, TERM: "xterm-256color" } });
  let drawn: Promise<unknown> = Promise.resolve();
  child.stdout.setEncoding("utf8").on("data", (text: string) => void (drawn = drawn.then(() => write(text))));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  await drawn;
  if (code !== 0) throw new Error(`Expected the run to end with 0, got ${code}.`);
};

/** Opens the Task as soon as the list has it; its page shows the rest by itself. */
const followTask = async (page: Page): Promise<void> => {
  const row = page.getByRole("link", { name: /drift/ }).first();
  await row.waitFor();
  await pause(900);
  await row.click();
  await page.getByRole("heading", { level: 1, name: /drift/ }).waitFor();
};

/** A picture whenever one of the two has changed. */
const shoot = async (left: Page, right: Page, ended: () => boolean): Promise<Frame[]> => {
  const frames: (Frame & { at: number })[] = [];
  for (;;) {
    const at = Date.now();
    const [one, two] = await Promise.all([left.screenshot(), right.screenshot()]);
    const last = frames.at(-1);
    if (last === undefined || !last.left.equals(one) || !last.right.equals(two)) {
      if (last !== undefined) last.ms = at - last.at;
      frames.push({ left: one, right: two, ms: 0, at });
    }
    if (ended()) break;
    await pause(Math.max(0, everyMs - (Date.now() - at)));
  }
  const last = frames.at(-1);
  if (last !== undefined) last.ms = afterMs;
  return frames.map(({ left: one, right: two, ms }) => ({ left: one, right: two, ms }));
};
