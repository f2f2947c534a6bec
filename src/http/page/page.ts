import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ServiceError } from "../../error.ts";
import { packageRoot } from "../../package-root.ts";
import { type HttpAnswer, answer, empty, type RequestContext } from "../response/response.ts";

/** Serves the web page. Files are read at each request and not cached in memory. */

/** Paths of the page's screens. One document answers them all; they are not routes of the interface. */
export const isScreen = (path: string): boolean => path === "/" || path === "/ui" || path.startsWith("/ui/");

export const screenPaths = ["/", "/ui", "/ui/*"] as const;

export const assetPath = "/assets/{name}";

/** A file of the build by its path in `dist`; undefined when it was not built. */
export const readBuilt = async (path: string): Promise<Uint8Array<ArrayBuffer> | undefined> => {
  const found = await readFile(join(packageRoot, "dist", path)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  return found && new Uint8Array(found);
};

/** Allows only the service's own files: no inline code, no markup from strings (Trusted Types), no other host. */
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

export const page = async (entry: RequestContext, known: string | undefined): Promise<HttpAnswer> => {
  const found = await readBuilt("web/index.html");
  if (found === undefined)
    throw new ServiceError("route_not_found", "Expected the page's files in dist/web, got none. Run `npm run build`.");
  const etag = `"${createHash("sha256").update(found).digest("base64url").slice(0, 22)}"`;
  const headers = {
    etag,
    "cache-control": "no-cache",
    "content-security-policy": pagePolicy,
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
  };
  if (known?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag)) return empty(entry, 304, headers);
  return answer(entry, 200, found, "text/html; charset=utf-8", headers);
};

const assetTypes: Readonly<Record<string, string>> = {
  woff2: "font/woff2",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/** A file of the page. Its name contains a hash of the content, so browsers may cache it forever. */
export const asset = async (entry: RequestContext, name: string): Promise<HttpAnswer> => {
  const type = /^[\w-][\w.-]*\.(?:css|js|svg|woff2)$/.test(name)
    ? assetTypes[name.slice(name.lastIndexOf(".") + 1)]
    : undefined;
  const found = type === undefined ? undefined : await readBuilt(`web/assets/${name}`);
  if (type === undefined || found === undefined)
    throw new ServiceError(
      "route_not_found",
      "Expected the name of one of the page's files, got another. Reload the page.",
    );
  return answer(entry, 200, found, type, {
    "cache-control": "private, max-age=31536000, immutable",
    ...(type === "image/svg+xml" ? { "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'" } : {}),
  });
};
