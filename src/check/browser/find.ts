import { existsSync } from "node:fs";
import { findProgram } from "../../process/sandbox/sandbox.ts";
import type { Browser } from "../check.ts";

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/** The path of the operator's browser, otherwise of the first one on PATH; undefined when there is none. */
export const findBrowser = (named: string | undefined, path: string): string | undefined => {
  if (named !== undefined) return existsSync(named) ? named : undefined;
  for (const name of names) {
    const found = findProgram(name, path);
    if (found !== undefined) return found;
  }
  return undefined;
};

/**
 * The machine's browser, for commands that may run in an image. With an image there is none: the server's sandbox is
 * another one, which the browser cannot reach.
 */
export const browserForImage = (browser: Browser, image: unknown): Browser =>
  image === undefined
    ? browser
    : {
        ...browser,
        program: undefined,
        why: "The project's commands run in an image, and this machine's browser cannot look at a page there. Use a check of the kind http",
      };
