import type { Config } from "./config.ts";

/**
 * What the command line reads from the environment, for commands that call a service, or start one without the user's
 * settings.
 */
export const loadCaller = (env: Config["env"] = process.env) => ({
  username: env["SERVICE_SERVER_USERNAME"] ?? "service",
  password: env["SERVICE_SERVER_PASSWORD"],
  /** The URL of the service to call: `SERVICE_URL`, else that of the service that these variables would start. */
  url: env["SERVICE_URL"] || `http://127.0.0.1:${env["SERVICE_PORT"] || 7878}`,
  /** Whether to print without colours and animated lines. */
  plain: (env["NO_COLOR"] ?? "") !== "" || (env["CI"] ?? "") !== "" || env["TERM"] === "dumb",
  /** Whether there is a display to open a page on. */
  display:
    process.platform === "darwin" || [env["DISPLAY"], env["WAYLAND_DISPLAY"]].some((name) => (name ?? "") !== ""),
  /** How the user can call this command again: in a clone and under npx, `sortie` is not on the PATH. */
  self:
    env["npm_command"] === "exec"
      ? "npx sortie"
      : env["npm_package_name"] === "sortie" && env["npm_lifecycle_event"] !== undefined
        ? "npm run -s sortie --"
        : "sortie",
  /** The environment that commands need to run, without the variables that configure the service. */
  bare: Object.fromEntries(["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"].map((name) => [name, env[name]])),
});

export type Caller = ReturnType<typeof loadCaller>;
