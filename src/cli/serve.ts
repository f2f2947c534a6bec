import { type Flags, isLoopback, loadConfig } from "../config.ts";
import { createLog } from "../log.ts";
import { createService } from "../service.ts";
import type { Screen } from "./print.ts";

/** How long a stop may take before the process ends anyway. */
const stopMs = 10_000;

/** `sortie serve`: this process is the service. Resolves when it listens; signals end the process. */
export const serve = async (flags: Flags, screen: Screen): Promise<void> => {
  const config = loadConfig(flags);
  const service = await createService(config, createLog(config.logLevel));
  // Before anything is printed: whoever reads the address may already want it gone.
  let stopping = false;
  const stop = (): void => {
    if (stopping) process.exit(1);
    stopping = true;
    setTimeout(() => process.exit(1), stopMs).unref();
    void service.close().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`sortie: could not stop in good order: ${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  void service.failure.then((error) => {
    process.stderr.write(`sortie: ${error.message}\n`);
    process.exit(error.exitCode);
  });
  process.on("SIGINT", stop);
  process.on("SIGTERM", stop);

  const { model, sandbox } = service;
  const { bold, dim } = screen.colors;
  const protection = config.password === undefined ? "no password" : `user ${config.username}, with a password`;
  screen.say(
    [
      `${bold(`Sortie ${service.version}`)} listening on ${bold(service.url)} ${dim(`(${protection})`)}`,
      `Model    ${model.ref} ${dim(`(${model.source})`)}`,
      ...(model.ref === "builtin/rules-1"
        ? [dim("         No language model. Set a provider's key, or look for a local server: sortie model detect")]
        : []),
      `Sandbox  ${sandbox.name}, tier ${sandbox.tier}: commands run as your user${sandbox.network ? ", with network" : ""}`,
      `Data     ${service.dataDir}, ${service.store}`,
      ...(isLoopback(config.host) ? [dim('Try in a project: sortie run "run the tests"')] : []),
    ].join("\n"),
  );
};
