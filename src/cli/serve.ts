import { loadCaller } from "../config/caller.ts";
import { type Flags, isLoopback, loadConfig } from "../config/config.ts";
import { createLog } from "../log.ts";
import { createService, type Service } from "../service/service.ts";
import { boundHeap, releaseAfterStart } from "./heap.ts";
import { createServiceManager } from "./systemd.ts";
import { openInDesktop } from "./terminal/open.ts";
import type { Screen } from "./terminal/screen.ts";

/** The URL that commands call when neither a flag nor the environment names one. */
const defaultURL = loadCaller({}).url;

/** The longest time that a stop may take, in milliseconds; then the process exits anyway. */
const stopMs = 10_000;

/** `sortie serve`: runs the service in this process. Resolves once it listens; signals end the process. */
export const serve = async (flags: Flags, screen: Screen, self: string, open: boolean): Promise<void> => {
  outliveOutput();
  const config = loadConfig({ startedIn: process.cwd(), ...flags });
  const log = createLog(config.logLevel);
  const service = await createService(config, log);
  boundHeap();
  releaseAfterStart();
  const manager = createServiceManager(config.env, log);
  // Set up before the address is printed, because whoever reads it may stop the service at once.
  let stopping = false;
  const handedOver = async (): Promise<void> => {
    await service.handOver();
    setTimeout(() => process.exit(1), stopMs).unref();
    await service.close();
  };
  const stop = (drains = false): void => {
    if (stopping) process.exit(1);
    stopping = true;
    manager.stopping();
    if (!drains) setTimeout(() => process.exit(1), stopMs).unref();
    void (drains ? handedOver() : service.close()).then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`sortie: could not stop cleanly: ${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  void service.failure.then((error) => {
    process.stderr.write(`sortie: ${error.message}\n`);
    process.exit(error.exitCode);
  });
  // An unhandled rejection is the fault of one Task or request, and ending the process would end all others. An
  // uncaught exception still ends it.
  process.on("unhandledRejection", (error) => service.unhandled(error));
  process.on("SIGINT", () => stop());
  // SIGTERM drains first, while other nodes answer. A service that is alone stops at once.
  process.on("SIGTERM", () => stop(true));
  manager.ready(`listening on ${service.url}`);

  if (config.env["npm_lifecycle_event"] !== undefined) endWithParent(stop);

  const { model, sandbox } = service;
  const { bold, dim } = screen.colors;
  // A command in another terminal does not know this service's URL unless it is the default one.
  const where = service.url === defaultURL ? "" : ` --url ${service.url}`;
  const protection = config.password === undefined ? "no password" : `user ${config.username}, with a password`;
  screen.say(
    [
      `${bold(`Sortie ${service.version}`)} listening on ${bold(service.url)} ${dim(`(${protection})`)}`,
      `Model    ${model.ref} ${dim(`(${model.source})`)}`,
      ...(model.ref === "builtin/rules-1"
        ? [dim(`         No language model. Set a provider's key, or look for a local server: ${self} model detect`)]
        : []),
      `Sandbox  ${sandboxLine(sandbox)}`,
      `Data     ${service.dataDir}, ${service.store}`,
      ...(isLoopback(config.host) && service.url.startsWith("http")
        ? [dim(`Open ${service.url} in a browser, or: ${self} run "run the tests" -C /path/to/a/git/project${where}`)]
        : []),
    ].join("\n"),
  );
  if (open && service.url.startsWith("http")) await openInDesktop(service.url);
};

/** Keeps the service running when its output cannot be written, for example on a full disk. */
const outliveOutput = (): void => {
  for (const output of [process.stdout, process.stderr]) {
    output.removeAllListeners("error");
    output.on("error", () => {});
  }
};

/** Stops the service when its parent process ends: `npm start` forwards signals, but not one that ends npm itself. */
const endWithParent = (stop: () => void): void => {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, 1000);
  timer.unref();
};

const covers = {
  bubblewrap: "commands see only their Task's files and the system's programs",
  container: "commands see only their Task's files and the image's programs (an experiment)",
  "pid-namespace": "commands run as your user and see your files, in a separate process namespace",
  "process-group": "commands run as your user and see your files",
};

/** What the sandbox protects, and what it does not. */
const sandboxLine = ({ tier, name, network, note, unfiltered }: Service["sandbox"]): string =>
  [
    `${name}, tier ${tier}: ${covers[name]}, ${network ? "with" : "without"} network`,
    ...(note === undefined ? [] : [`         Not tier 1: ${note}`]),
    ...(unfiltered === undefined ? [] : [`         System calls are not filtered: ${unfiltered}`]),
  ].join("\n");
