import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Ends the script where the page is not built: without it a screen is waited for until its time is over. */
export const needBuild = (): void => {
  if (existsSync(join(dirname(fileURLToPath(import.meta.url)), "../../dist/web/index.html"))) return;
  console.error("Expected the built page in dist/web, got none. Run `npm run build` first.");
  process.exit(2);
};
