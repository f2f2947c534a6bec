import { vi } from "vitest";
import { runMain } from "../../src/cli/main.ts";

/** What `sortie …` prints, and how it ends; in this process, which it would end. */
export const sortieIn =
  (place: () => { url: string; directory: string }) =>
  async (...args: string[]): Promise<{ code: number; out: string }> => {
    let out = "";
    const take = (text: unknown, done?: unknown) => {
      out += String(text);
      if (typeof done === "function") (done as () => void)();
      return true;
    };
    const spies = [
      vi.spyOn(process.stdout, "write").mockImplementation(take),
      vi.spyOn(process.stderr, "write").mockImplementation(take),
      vi.spyOn(process, "exit").mockImplementation((() => undefined) as never),
    ];
    const { url, directory } = place();
    const listening = process.stdout.listeners("error");
    try {
      await runMain(["node", "sortie", ...args, "--url", url, "-C", directory]);
      const { exitCode } = process;
      return { code: typeof exitCode === "number" ? exitCode : 0, out };
    } finally {
      for (const spy of spies) spy.mockRestore();
      // A command ends its process: what it listens to would be there for the next one, until Node warns of so many.
      for (const listener of process.stdout.listeners("error"))
        if (!listening.includes(listener)) process.stdout.off("error", listener as () => void);
      process.exitCode = undefined;
    }
  };
