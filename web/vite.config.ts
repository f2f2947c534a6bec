import { fileURLToPath } from "node:url";
import tailwind from "@tailwindcss/vite";
import { defineConfig } from "vite";

/** The page. `scripts/build.mjs` builds it into `dist/web`; why it is built so: docs/decisions/0040. */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  plugins: [tailwind()],
  oxc: { jsx: { runtime: "automatic" } },
  logLevel: "warn",
  build: {
    target: "es2024",
    // Nothing is inlined, because the page's policy allows only scripts and styles in files of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    manifest: true,
    // "use client" has no meaning here, and nearly every module of React packages has it.
    rolldownOptions: {
      onLog: (level, log, handle) => {
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") handle(level, log);
      },
    },
  },
  // `npm run web` while `npm start` runs: the page as it is written, over the service's routes.
  server: {
    proxy: Object.fromEntries(
      ["/task", "/events", "/mission", "/squad", "/projects", "/health", "/models", "/metrics", "/doc", "/openapi"].map(
        (path) => [path, "http://127.0.0.1:7878"],
      ),
    ),
  },
});
