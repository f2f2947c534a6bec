import { createServer, connect, type AddressInfo, type Socket } from "node:net";
import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";
import { browserHere } from "../harness/browser.ts";

/** The page in the machine's own Chromium. */

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: browserHere ?? "chromium",
    // As root Chromium refuses its own sandbox; what it opens is our own page.
    chromiumSandbox: process.getuid?.() !== 0,
  });

/** What the page complained about: a thrown error, a request of another host, a breach of its own policy. */
export const watch = (page: Page, origin: string): string[] => {
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(`threw ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      complaints.push(message.text());
  });
  page.on("request", (request) => {
    const { protocol, origin: asked } = new URL(request.url());
    if (protocol.startsWith("http") && asked !== origin) complaints.push(`asked ${request.url()}`);
  });
  return complaints;
};

type Violation = { id: string; impact: string | null; nodes: { html: string; failureSummary?: string }[] };

/** Resolves when colours are what they end as: a theme that has just changed is still on its way there. */
const still = `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))
  .then(() => document.getAnimations().filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity))
  .then((ending) => Promise.allSettled(ending.map(({ finished }) => finished)))`;

/** Rules of accessibility that the page breaks as it is now. */
export const violations = async (page: Page, rules: string[] = []): Promise<string[]> => {
  // Past the page's policy, as a browser's extension would be.
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axe.source });
  const options = { resultTypes: ["violations"], ...(rules.length === 0 ? {} : { runOnly: rules }) };
  const { result } = await session.send("Runtime.evaluate", {
    expression: `${still}.then(() => axe.run(document, ${JSON.stringify(options)})).then(({ violations }) => JSON.stringify(violations))`,
    awaitPromise: true,
  });
  await session.detach();
  return (JSON.parse(String(result.value)) as Violation[]).map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).join("\n")}`,
  );
};

export type Line = AsyncDisposable & { url: string; cut(): void; mend(): void };

/** A line to the service that can be cut: connections end, new ones are refused, until it is mended. */
export const openLine = async (to: string): Promise<Line> => {
  const sockets = new Set<Socket>();
  let whole = true;
  const server = createServer((near) => {
    if (!whole) return void near.destroy();
    const far = connect(Number(new URL(to).port), "127.0.0.1");
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.once("close", () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      whole = false;
      for (const socket of sockets) socket.destroy();
    },
    mend() {
      whole = true;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
