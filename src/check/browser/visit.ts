import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { messageOf } from "../../error.ts";
import type { Network } from "../../process/network/allow-list.ts";
import { loopbackCommand } from "../../process/sandbox/sandbox.ts";
import { shellQuote } from "../../shell-quote.ts";
import type { CheckEnvironment } from "../../workspace/workspace.ts";
import type { Browser } from "../check.ts";
import { toolPath } from "../shell.ts";
import { connectCommand, portOf, portLock, portTakenRemedy } from "../port.ts";
import { openDevTools } from "./devtools.ts";
import { capturePage, type PagePicture, type PageRequest } from "./page.ts";

/**
 * Runs a server and a browser in one sandbox, and so in one network, which is isolated where the sandbox has its own;
 * they are started and ended together. The browser is the machine's; none is ever downloaded.
 */

export type Visit = PageRequest & {
  start: string;
  cwd?: string | undefined;
  env?: Readonly<Record<string, string>> | undefined;
};

export type Visited = {
  /** `failed`: the page's or its server's fault. `error`: the visit could not be made. */
  shot: { png: Buffer } | { failed: string /** The timeout was reached. */; late?: true } | { error: string };
  /** The server's last output, and the exceptions that the page's scripts threw. */
  log: string;
};

export const noBrowser =
  "Expected Chromium on this machine, got none. Install it (Debian, Ubuntu: `apt-get install chromium`), or name one as `browser` in config.jsonc, and restart the service";

/**
 * Milliseconds to wait after the start command ended: a server that daemonizes ends its command and may answer a moment
 * later.
 */
const graceMs = 1000;

const leaveMs = 2000;

export const visit = async (
  where: Visit,
  place: CheckEnvironment,
  browser: Browser,
  { signal, timeoutMs, network }: { signal: AbortSignal; timeoutMs: number; network: Network },
): Promise<Visited> => {
  const { program } = browser;
  if (program === undefined) return { shot: { error: browser.why ?? noBrowser }, log: "" };
  const url = new URL(where.url);
  using _port = network === true ? await portLock(portOf(url), signal) : undefined;
  const late = AbortSignal.timeout(timeoutMs);
  const mark = randomBytes(8).toString("hex");
  const run = script(where, place.rootInSandbox, { ...browser, program }, { mark, network });
  const until = AbortSignal.any([signal, late]);
  const talking = await place.startInteractive({ run, env: where.env ?? {}, home: "passing", network, signal: until });
  try {
    const tools = openDevTools(talking);
    let stage = "the browser did not start";
    let endedAt: number | undefined;
    const ended = (): string | undefined => {
      const code = new RegExp(`${mark} server (\\d+)`).exec(talking.stderr())?.[1];
      if (code === undefined) return undefined;
      endedAt ??= performance.now();
      return performance.now() - endedAt > graceMs ? `the server exited (exit ${code})` : undefined;
    };
    const at = (what: string) => {
      stage = what;
    };
    const seen = await capturePage(tools, where, { at, ended }).catch((error: unknown) => {
      signal.throwIfAborted();
      return { stage, error };
    });
    if (!("stage" in seen)) {
      await Promise.race([tools.send("Browser.close").catch(() => {}), pause(leaveMs)]);
      return { shot: seen.shot, log: logOf(talking.stderr(), mark, seen) };
    }
    if (late.aborted)
      return {
        shot: { failed: `${seen.stage} within ${timeoutMs / 1000} s`, late: true },
        log: logOf(talking.stderr(), mark),
      };
    await Promise.race([talking.gone, pause(leaveMs)]);
    const log = logOf(talking.stderr(), mark);
    if (talking.stderr().includes(`${mark} taken`)) return { shot: { error: portTakenRemedy(url) }, log };
    return { shot: { error: `the browser (${program}) could not be used: ${messageOf(seen.error)}` }, log };
  } finally {
    talking.kill();
    await talking.gone;
  }
};

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const logOf = (stderr: string, mark: string, seen?: PagePicture): string => {
  const server = stderr.replace(new RegExp(`^${mark} .*\\n`, "gm"), "").trimEnd();
  const thrown = (seen?.errors ?? []).map((error) => `the page threw: ${error}`).join("\n");
  return [server, thrown].filter((part) => part !== "").join("\n");
};

/** Makes rendering equal on all machines, and keeps the browser from connecting to anything but loopback. */
const flags = [
  "--headless",
  "--remote-debugging-pipe",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-default-apps",
  "--disable-dev-shm-usage",
  "--disable-extensions",
  "--disable-gpu",
  "--disable-sync",
  "--font-render-hinting=none",
  "--force-color-profile=srgb",
  "--hide-scrollbars",
  "--mute-audio",
  "--no-default-browser-check",
  "--no-first-run",
  "--no-proxy-server",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.*, EXCLUDE [::1]",
];

/**
 * The script kills its process group once the browser has ended, so that nothing is left running even if the service
 * died.
 */
const script = (
  { start, cwd, url }: Visit,
  root: string,
  { program, bare }: { program: string; bare: boolean },
  { mark, network }: { mark: string; network: Network },
): string => `${network === true ? "" : `${loopbackCommand} 2>/dev/null`}
cd -- ${shellQuote(cwd === undefined ? root : join(root, cwd))} || exit 1
if (${connectCommand(new URL(url))}); then echo "${mark} taken" >&2; exit 1; fi
profile=$HOME/profile
{ ( export HOME=/tmp
    ${toolPath(root, cwd)}
    eval ${shellQuote(start)} )
  echo "${mark} server $?"; } </dev/null >&2 2>&1 &
${[program, ...flags, ...(bare ? ["--no-sandbox"] : [])].map(shellQuote).join(" ")} --user-data-dir="$profile" \\
  3<&0 4>&1 </dev/null >/dev/null 2>"$profile.log" || tail -n 5 "$profile.log" >&2
kill -9 0`;
