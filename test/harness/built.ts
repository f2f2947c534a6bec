import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { until } from "./project.ts";

/**
 * What service processes of the tests start from: `dist`, made of the sources as they are now. A start from `src` costs
 * three times as much, and the tests make a hundred.
 */

/** For processes that do not inherit the environment; test/setup.ts made it for the run alone. */
export const compileCache = { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "" };

const folder = compileCache.NODE_COMPILE_CACHE;

/** One worker of the run builds, where anything has changed; the others wait for it. */
export const built = async (): Promise<void> => {
  try {
    mkdirSync(`${folder}-building`);
  } catch {
    await until(
      () => Promise.resolve(existsSync(`${folder}-built`)),
      (there) => there,
      120_000,
    );
    return;
  }
  execFileSync(process.execPath, [fileURLToPath(new URL("../../scripts/setup.mjs", import.meta.url))], {
    stdio: "pipe",
  });
  writeFileSync(`${folder}-built`, "");
};
