import { setTimeout as pause } from "node:timers/promises";
import { messageOf } from "../../error.ts";
import type { DevTools } from "./devtools.ts";

/** One page of a browser: loaded until it answers, brought to rest and photographed. */

export type PageRequest = { url: string; viewport: { width: number; height: number }; waitFor?: string | undefined };

export type PagePicture = {
  /** `failed`: why the page could not be photographed; the fault is the page's or its server's. */
  shot: { png: Buffer } | { failed: string };
  /** Exceptions that the page's scripts threw, one string each. */
  errors: string[];
};

/** Network errors of a server that is still starting. */
const notYet = /ERR_(CONNECTION_|EMPTY_RESPONSE|SOCKET_NOT_CONNECTED|ADDRESS_UNREACHABLE)/;
const busy = new Set([502, 503, 504]);
const againMs = 100;
const maxErrors = 20;

/**
 * Loads a page and takes its screenshot. It has no time limit of its own: the caller ends the browser. `at` is called
 * with what is being waited for, so that the caller can say what did not happen; `ended` returns why no server will
 * answer any more, or undefined while one may. Rejects when the browser is gone.
 */
export const capturePage = async (
  { send, on }: DevTools,
  { url, viewport, waitFor }: PageRequest,
  { at, ended }: { at: (what: string) => void; ended: () => string | undefined },
): Promise<PagePicture> => {
  const errors: string[] = [];
  const failed = (why: string): PagePicture => ({ shot: { failed: why }, errors });
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const page = (method: string, params?: object) => send(method, params, String(sessionId));
  let status: number | undefined;
  on("Network.responseReceived", ({ type, frameId, response }) => {
    if (type === "Document" && frameId === targetId) ({ status } = response as { status: number });
  });
  on("Runtime.exceptionThrown", ({ exceptionDetails }) => {
    const { text = "", exception } = exceptionDetails as { text?: string; exception?: { description?: string } };
    if (errors.length < maxErrors) errors.push((exception?.description ?? text).slice(0, 400));
  });
  on("Page.javascriptDialogOpening", () => void page("Page.handleJavaScriptDialog", { accept: true }).catch(() => {}));
  await Promise.all(["Page.enable", "Network.enable", "Runtime.enable"].map((method) => page(method)));
  await page("Emulation.setDeviceMetricsOverride", { ...viewport, deviceScaleFactor: 1, mobile: false });
  await page("Emulation.setEmulatedMedia", { features: [{ name: "prefers-reduced-motion", value: "reduce" }] });
  const ask = async (expression: string): Promise<unknown> => {
    const { result, exceptionDetails } = await page("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails).slice(0, 400));
    return (result as { value?: unknown }).value;
  };
  const until = async (expression: string) => {
    // A navigation of the page destroys the context that evaluates the expression, so ask again.
    while ((await ask(expression).catch((error: unknown) => isMoving(error))) !== true) await pause(againMs);
  };

  at(`${url} did not answer`);
  for (;;) {
    status = undefined;
    const { errorText } = (await page("Page.navigate", { url })) as { errorText?: string };
    if (errorText === undefined && !busy.has(status ?? 200)) break;
    if (errorText !== undefined && !notYet.test(errorText))
      return failed(`Expected a page at ${url}, got ${errorText}`);
    const why = ended();
    if (why !== undefined) return failed(`${why} before ${url} answered`);
    await pause(againMs);
  }
  at(`${url} did not finish loading`);
  await until(`document.readyState === "complete"`);
  if ((status ?? 200) >= 400) return failed(`Expected a page at ${url}, got status ${status}`);
  if (waitFor !== undefined) {
    at(`nothing on ${url} matched ${waitFor}`);
    const selector = JSON.stringify(waitFor);
    const problem = await ask(`try { document.querySelector(${selector}); "" } catch (error) { String(error) }`);
    if (problem !== "") return failed(`Expected a CSS selector, got ${selector}: ${String(problem)}`);
    await until(`document.querySelector(${selector}) !== null`);
  }
  at(`${url} did not stop changing`);
  await ask(atRest);
  return { shot: { png: await photograph(page) }, errors };
};

const isMoving = (error: unknown): false => {
  if (/context|navigat|Inspected target/i.test(messageOf(error))) return false;
  throw error;
};

/**
 * Stops animations and waits for fonts and two frames. A constructed style sheet is not subject to the page's content
 * security policy.
 */
const atRest = `(async () => {
  const still = new CSSStyleSheet();
  still.replaceSync("*, *::before, *::after { animation: none !important; transition: none !important; caret-color: transparent !important; scroll-behavior: auto !important; }");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
  await document.fonts.ready;
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
})()`;

const tries = 10;

/** The screenshot once two in a row are equal; for a page that never comes to rest, the last one. */
const photograph = async (page: (method: string, params?: object) => Promise<Record<string, unknown>>) => {
  let before = "";
  for (let count = 0; ; count += 1) {
    const { data } = (await page("Page.captureScreenshot", { format: "png" })) as { data: string };
    if (data === before || count === tries) return Buffer.from(data, "base64");
    before = data;
    await pause(againMs);
  }
};
