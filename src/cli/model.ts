import { editConfig, type Edit } from "../config/edit.ts";
import { type Config, type Flags, loadConfig } from "../config/config.ts";
import { messageOf, ServiceError } from "../error.ts";
import { silent } from "../log.ts";
import { detectServers, type Found, servers } from "../model/local-server.ts";
import { createRegistry, type Registry } from "../model/registry.ts";
import { tryModel } from "../model/test-call.ts";
import { Exit, exit } from "./terminal/exit.ts";
import { during, type Screen } from "./terminal/screen.ts";
import { clean, duration, line, money, table } from "./terminal/format.ts";

/**
 * `sortie model`: lists the models that a start with these settings would have, finds model servers on this machine,
 * chooses a model and tries one. Needs no running service; a running service applies a change at its next start.
 */

type Emit = ((value: object) => void) | undefined;
type Detect = () => Promise<Found[]>;

const builtin = "builtin/rules-1";

const registryOf = ({ model, failover, providers, cassettes, limits, env }: Config): Registry =>
  createRegistry({
    model,
    failover,
    providers,
    cassettes,
    limits,
    env,
    rules: async () => (await import("../model/builtin/builtin.ts")).createBuiltinModel(),
    log: silent,
  });

/** Resolves a model's name. Throws an `Exit` when the model cannot be called. */
const resolve = (registry: Registry, ref: string | undefined) => {
  try {
    return registry.resolve(ref);
  } catch (error) {
    if (error instanceof ServiceError) throw new Exit(exit.needsModel, error.message);
    throw error;
  }
};

export const listModels = (flags: Flags, screen: Screen, emit: Emit): number => {
  const config = loadConfig(flags);
  const registry = registryOf(config);
  const active = registry.active();
  const providers = registry.list();
  if (emit !== undefined) emit({ active, failover: config.failover, providers });
  else {
    const { bold, dim } = screen.colors;
    const own = active.ref.slice(0, active.ref.indexOf("/"));
    const rows = providers.map(({ id, configured, keySource, baseURL, models }) => [
      id === own ? "*" : " ",
      id,
      configured ? (keySource === null ? "ready" : `ready, key in ${keySource}`) : "no key",
      clean(models.join(", ")),
      baseURL ?? "",
    ]);
    screen.say(`Model in use: ${bold(active.ref)} (${active.source})`);
    if (config.failover.length > 0) screen.say(`Stands in: ${config.failover.join(", ")}`);
    screen.say(table([["", "PROVIDER", "STATE", "MODELS", "ADDRESS"], ...rows]));
    if (active.ref === builtin)
      screen.say(dim("No language model: set a provider's key, or look for a local server: sortie model detect"));
  }
  return exit.completed;
};

export const detectModels = async (screen: Screen, emit: Emit, detect: Detect = detectServers): Promise<number> => {
  const found = await during(screen, "Looking for servers on this machine", detect());
  if (emit !== undefined) {
    for (const server of found) emit(server);
    return exit.completed;
  }
  const { bold, dim } = screen.colors;
  if (found.length === 0)
    screen.say(
      `Nothing found on this machine. Looked for ${servers.map(({ name, port }) => `${name} (${port})`).join(", ")}.`,
    );
  for (const { id, name, version, baseURL, models } of found) {
    screen.say(`${bold(name)}${version === null ? "" : ` ${line(version, 40)}`} at ${baseURL}`);
    if (models.length === 0) screen.say("  It has no models yet.");
    for (const model of models.slice(0, 20)) screen.say(`  ${line(`${id}/${model.id}`)}`);
    if (models.length > 20) screen.say(`  and ${models.length - 20} more`);
  }
  const [first] = found.flatMap(({ id, models }) => models.map((model) => `${id}/${model.id}`));
  if (first !== undefined) screen.say(dim(`Nothing was changed. To use one: sortie model use ${line(first)}`));
  return exit.completed;
};

/** Writes the choice into config.jsonc; the rest of the file stays as it is, including its comments. */
export const useModel = async (
  ref: string,
  flags: Flags,
  screen: Screen,
  emit: Emit,
  detect: Detect = detectServers,
): Promise<number> => {
  const config = loadConfig(flags);
  const [id = "", ...rest] = ref.split("/");
  const edits: Edit[] = [[["model"], ref]];
  const known = registryOf(config).list();
  if (ref !== "none" && !known.some((provider) => provider.id === id) && servers.some((server) => server.id === id)) {
    const server = (await detect()).find((candidate) => candidate.id === id);
    if (server === undefined)
      throw new Exit(
        exit.needsModel,
        `No ${id} server is running on this machine. Start it, or see \`sortie model detect\`.`,
      );
    const model = server.models.find((candidate) => candidate.id === rest.join("/"));
    const names = server.models.map((candidate) => `${id}/${candidate.id}`).join(", ");
    if (model === undefined)
      throw new Exit(exit.needsModel, `${server.name} has no model "${rest.join("/")}". It has: ${names || "none"}.`);
    edits.push([["providers", id], { kind: "openai-compatible", baseURL: server.baseURL, models: [model] }]);
  } else if (ref !== "none") resolve(registryOf(config), ref);

  try {
    const check = (path: string) => void loadConfig({ ...flags, config: path });
    editConfig(config.configPath, edits, check, { secret: false });
  } catch (error) {
    throw new Exit(exit.failed, `${config.configPath} was not changed: ${messageOf(error)}`);
  }
  const now = loadConfig(flags);
  const overruled = now.model !== undefined && now.model.source !== now.configPath ? now.model : undefined;
  if (emit !== undefined)
    emit({
      model: ref,
      file: config.configPath,
      active: registryOf(now).active(),
      overruledBy: overruled?.source ?? null,
    });
  else {
    screen.say(`${ref} is now the model in ${config.configPath}. A running service uses it once it is restarted.`);
    if (overruled !== undefined)
      screen.say(screen.colors.yellow(`${overruled.source} says ${overruled.ref} and overrides the file. Unset it.`));
  }
  return exit.completed;
};

/** Makes one real call to the model. */
export const testModel = async (
  given: string | undefined,
  flags: Flags,
  screen: Screen,
  emit: Emit,
): Promise<number> => {
  const config = loadConfig(flags);
  const registry = registryOf(config);
  const ref = resolve(registry, given);
  if (ref === builtin)
    throw new Exit(
      exit.needsModel,
      `${builtin} is not a language model: there is nothing to test. Name one, or see \`sortie model ls\`.`,
    );
  const call = registry.load(ref).then((model) => tryModel(model, config.limits.modelReplySeconds * 1000));
  const trial = await during(screen, ref, call);
  const { failure, firstMs, totalMs, usage, tools, text } = trial;
  if (emit !== undefined) emit(trial);
  else {
    const { green, red, bold } = screen.colors;
    if (failure !== null) {
      screen.say(`${red("failed")}  ${clean(failure.message)}`);
      if (failure.remedy !== null) screen.say(`        ${clean(failure.remedy)}`);
    } else {
      const first = firstMs === null ? "" : `first token after ${duration(firstMs)}, `;
      screen.say(`${bold(ref)} answers: ${first}${duration(totalMs)} in all`);
      screen.say(`Tokens  ${usage.inputTokens} in, ${usage.outputTokens} out, cost ${money(usage.costUSD)}`);
      screen.say(
        tools === "worked" ? `Tools   ${green("work")}` : `Tools   ${red(tools)}; agents cannot work without them`,
      );
      if (tools !== "worked" && text !== "") screen.say(`It said "${line(text, 200)}"`);
    }
  }
  if (failure === null) return tools === "worked" ? exit.completed : exit.failed;
  if (/\((401|403)\)/.test(failure.message)) return exit.credentials;
  return failure.code === "provider_unavailable" ? exit.unreachable : exit.failed;
};
