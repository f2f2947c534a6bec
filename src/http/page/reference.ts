import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { type HttpAnswer, answer, type RequestContext } from "../response/response.ts";
import { readBuilt } from "./page.ts";

/**
 * The API reference at `/doc`. Everything comes from this service: the build copies the standalone file of
 * @scalar/api-reference next to the compiled code; when the source runs, it is read from node_modules. Nothing is
 * loaded from other hosts: no fonts, no telemetry, no agent.
 */

export const referencePath = "/doc/reference.js";

const configuration = {
  url: "/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  hideClientButton: true,
  showDeveloperTools: "never",
  theme: "default",
};

const attribute = (text: string) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");

const reference = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sortie: API reference</title>
</head>
<body>
<noscript>The interface is described in <a href="/openapi.json">/openapi.json</a>.</noscript>
<script id="api-reference" data-url="/openapi.json" data-configuration="${attribute(JSON.stringify(configuration))}"></script>
<script src="${referencePath}"></script>
</body>
</html>
`;

/** Inline styles are allowed because the page's script writes them; everything else comes from this origin. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

export const referencePage = (entry: RequestContext): HttpAnswer =>
  answer(entry, 200, reference, "text/html; charset=utf-8", {
    "content-security-policy": policy,
    "x-frame-options": "DENY",
  });

export const referenceScript = async (entry: RequestContext): Promise<HttpAnswer> =>
  answer(entry, 200, await readScript(), "text/javascript; charset=utf-8");

const readScript = async (): Promise<Uint8Array<ArrayBuffer>> =>
  (await readBuilt("static/reference.js")) ?? new Uint8Array(await readFile(standalonePath()));

/** The package's one-file build, which scripts/openapi.ts copies. */
export const standalonePath = (): string =>
  createRequire(import.meta.url)
    .resolve("@scalar/api-reference")
    .replace(/dist\/.*$/, "dist/browser/standalone.js");
