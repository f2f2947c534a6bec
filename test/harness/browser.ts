import { appendFileSync } from "node:fs";
import { findBrowser } from "../../src/check/browser/find.ts";

/**
 * The machine's Chromium; undefined where it has none: the tests that need it are counted loudly at the end of the run.
 */
export const browserHere = findBrowser(undefined, process.env["PATH"] ?? "");

export const countBlind = (count: number): void =>
  appendFileSync(
    process.env["TEST_SKIPS"] === undefined ? "/dev/stderr" : `${process.env["TEST_SKIPS"]}-browser`,
    `${count}\n`,
  );
