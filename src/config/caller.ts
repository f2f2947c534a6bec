import type { Config } from "./config.ts";

/** What the command line takes from the environment. */

/** What the command line takes from the environment when it speaks to a service, or starts one without the user's settings. */
export const loadCaller = (env: Config["env"] = process.env) => ({
  username: env["SERVICE_SERVER_USERNAME"] ?? "service",
  password: env["SERVICE_SERVER_PASSWORD"],
  /** The service that these variables would start. */
  url: `http://127.0.0.1:${env["SERVICE_PORT"] || 7878}`,
  /** No colours, no moving lines. */
  plain: (env["NO_COLOR"] ?? "") !== "" || (env["CI"] ?? "") !== "" || env["TERM"] === "dumb",
  /** Somebody sits there who could be shown a page. */
  display:
    process.platform === "darwin" || [env["DISPLAY"], env["WAYLAND_DISPLAY"]].some((name) => (name ?? "") !== ""),
  /** How somebody calls this command again: `sortie` is on nobody's PATH in a clone, nor where npx started it. */
  self:
    env["npm_command"] === "exec"
      ? "npx sortie"
      : env["npm_package_name"] === "sortie" && env["npm_lifecycle_event"] !== undefined
        ? "npm run -s sortie --"
        : "sortie",
  /** What commands need to run, and nothing that configures the service. */
  bare: Object.fromEntries(["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"].map((name) => [name, env[name]])),
});

export type Caller = ReturnType<typeof loadCaller>;
