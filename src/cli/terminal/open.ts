import { spawn } from "node:child_process";

/** Hands an address to the desktop. */

/** Hands an address or a folder to the desktop; resolves when it has taken it. It has been printed before. */
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
