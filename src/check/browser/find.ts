import { existsSync } from "node:fs";
import { findProgram } from "../../process/sandbox/sandbox.ts";

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
