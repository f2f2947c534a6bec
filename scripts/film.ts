/**
 * The moving picture of the README: one real run, in the terminal on the left and on the page on the right.
 *   node scripts/film.ts             docs/images/run.webp
 * The service, the command line, Git, the sandbox and the checks are real; the model is a script that answers on a
 * port. Needs `npm run build` before, Chromium on PATH, script(1) of util-linux, and the npm registry for what draws
 * it.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { makeProject } from "../test/harness/project.ts";
import { type Encoder, encode } from "./film/encode.ts";
import { record } from "./film/record.ts";
import { says } from "./film/says.ts";
import { openCamera } from "./pictures/camera.ts";
import { needBuild } from "./pictures/need-build.ts";
import { at, model, prepare } from "./pictures/world.ts";

/** What the film alone needs, of these versions. */
const packages = ["sharp@0.35.5", "@xterm/xterm@6.0.0"];

/** GitHub shows pictures up to 10 MB; a README should open at once. */
const maxBytes = 2 * 1024 * 1024;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
needBuild();
const own = mkdtempSync(join(tmpdir(), "sortie-film-"));
try {
  execFileSync("npm", ["install", "--silent", "--no-save", "--prefix", own, ...packages], { stdio: "inherit" });
  const here = createRequire(join(own, "film.js"));
  await using ground = await prepare({ settings: { model }, says });
  const project = join(ground.folder, "billing");
  cpSync(join(root, "examples/sum"), project, { recursive: true });
  makeProject(project, {});
  const browser = await openCamera(own);
  const frames = await record({
    browser,
    terminal: dirname(here.resolve("@xterm/xterm/package.json")),
    url: ground.url,
    path: `/${at(project)}`,
    project,
    bin: join(root, "bin/sortie.js"),
    words: ["run", "totals drift by a cent, fix it", "--check", "npm test"],
  });
  await browser.close();
  const film = await encode(here("sharp") as Encoder, frames);
  const file = join(root, "docs/images/run.webp");
  writeFileSync(file, film);
  const seconds = frames.reduce((sum, { ms }) => sum + ms, 0) / 1000;
  console.log(`${frames.length} frames, ${seconds.toFixed(1)} s, ${Math.round(statSync(file).size / 1024)} KB`);
  if (film.length > maxBytes) throw new Error(`Expected at most ${maxBytes} bytes, got ${film.length}.`);
} finally {
  rmSync(own, { recursive: true, force: true, maxRetries: 5 });
}
