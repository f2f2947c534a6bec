import { spawn } from "node:child_process";

/** The URL of a page of the service; the service's own URL may end with a path. */
export const pageAt = (service: string, path: string): URL =>
  new URL(path, service.endsWith("/") ? service : `${service}/`);

/**
 * Opens a URL or a folder with the desktop's default program. Resolves once the program has started or failed to;
 * errors are ignored, because the caller has printed the address.
 */
export const openInDesktop = (what: string): Promise<void> =>
  new Promise((resolve) => {
    const child = spawn(process.platform === "darwin" ? "open" : "xdg-open", [what], {
      detached: true,
      stdio: "ignore",
    });
    child.once("error", () => resolve());
    child.once("spawn", () => {
      child.unref();
      resolve();
    });
  });
