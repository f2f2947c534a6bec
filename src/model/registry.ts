import type { ModelRef } from "../domain/agent.ts";
import { ServiceError, StartError } from "../error.ts";
import type { Log } from "../log.ts";
import type { Effort } from "../protocol/field.ts";
import { defaultLimits, type Limits } from "../protocol/limit.ts";
import type { Nodes } from "../store/node.ts";
import { type Breaker, type BreakerState, createBreaker, withCircuitBreaker, newsOf } from "./circuit-breaker.ts";
import { cassettesIn, openCassette, play, type Recorder } from "./replay/cassette.ts";
import { createRateLimit, withRateLimitPause, type RateLimit } from "./rate-limit.ts";
import { type Connection, type KnownKind, knownKinds, type ProviderKind } from "./provider-kind.ts";
import type { Model } from "./model.ts";
import { createProviderModel } from "./provider/provider.ts";
import { type ModelEntry, servedWindow, traitsOf } from "./provider/trait.ts";
import { keptOrLoaded } from "../async/load-once.ts";

/**
 * Which models exist, and which one is in use and why. Nothing is fetched, and no package is loaded, before the first
 * call.
 */

export const builtinModel: ModelRef = "builtin/rules-1";

/** A provider in the operator's configuration; `undefined` means absent. */
export type ProviderEntry = {
  kind: ProviderKind;
  name?: string | undefined;
  baseURL?: string | undefined;
  /** `env:NAME`, or the key itself. */
  apiKey?: string | undefined;
  headers?: Record<string, string> | undefined;
  api?: "responses" | "chat" | undefined;
  /** Names to list; an object also says what the model can read. */
  models?: (string | ModelEntry)[] | undefined;
};

export type ListedProvider = {
  id: string;
  kind: string;
  name: string;
  configured: boolean;
  keySource: string | null;
  baseURL: string | null;
  models: string[];
  breaker: BreakerState;
};

export interface Registry {
  /** The model of Tasks that name none; `ref` is "none" where the operator requires every Task to name one. */
  active(): { ref: string; source: string };
  /**
   * Validates a reference. @throws ServiceError model_not_found, model_not_configured: both messages say what would
   * help.
   */
  resolve(ref: string | undefined): ModelRef;
  /** The model, ready to be called. @throws as `resolve` */
  load(ref: ModelRef): Promise<Model>;
  /** The next model of the operator's `failover` list to use instead of `ref`; undefined: none can be called now. */
  fallbackModel(ref: ModelRef, tried: readonly ModelRef[]): Promise<ModelRef | undefined>;
  /** The circuit breakers of the providers called so far. */
  breakers(): [provider: string, state: BreakerState][];
  list(): ListedProvider[];
  /**
   * Replaces the provider's key, and with `active` the model of Tasks that name none. Calls under way continue as they
   * are.
   */
  setKey(id: KnownKind, apiKey: string, active?: { ref: string; source: string }): void;
}

export type RegistryOptions = {
  /** The other nodes, whose calls go to the same providers. */
  others?: Pick<Nodes, "tell" | "onTold"> | undefined;
  /** The operator's choice, and where it was made. */
  model: { ref: string; source: string } | undefined;
  providers: Readonly<Record<string, ProviderEntry>>;
  env: Readonly<Record<string, string | undefined>>;
  /** The reasoning effort where neither Task, agent nor model names one. */
  effort?: Effort | undefined;
  /** The built-in model, loaded on first use. */
  rules(): Promise<Model>;
  /** Models to use when another one cannot answer, in this order. */
  failover?: readonly string[];
  /** The folder of cassettes for `replay/<name>`; undefined: no such models. */
  cassettes?: string | undefined;
  recorder?: Recorder | undefined;
  limits?: Pick<
    Limits,
    "modelFirstSeconds" | "modelSilentSeconds" | "modelReplySeconds" | "breakerFailures" | "probeSeconds"
  >;
  log: Log;
};

/** `missing`: what it needs before it can be called, in words; undefined: nothing. */
type Provider = Connection & { name: string; models: string[]; entries: ModelEntry[]; missing: string | undefined };

/** @throws StartError 78 where a provider's entry is invalid. */
export const createRegistry = (options: RegistryOptions): Registry => {
  const providers = new Map<string, Provider>();
  for (const id of Object.keys(knownKinds) as KnownKind[])
    providers.set(id, connect(id, options.providers[id] ?? { kind: id }, options.env));
  for (const [id, entry] of Object.entries(options.providers))
    if (!providers.has(id)) providers.set(id, connect(id, entry, options.env));

  let active = chosen(options, providers);
  const { limits = defaultLimits } = options;
  const failover = standIns(options, providers);
  if (active.ref !== "none") options.log.info({ model: active.ref, source: active.source }, "model in use");
  for (const ref of new Set([active.ref, ...failover])) {
    const modelID = ref.slice(ref.indexOf("/") + 1);
    const providerID = ref.slice(0, ref.indexOf("/"));
    const provider = providers.get(providerID);
    if (provider?.kind !== "openai-compatible") continue;
    const entry = provider.entries.find((one) => one.id === modelID);
    options.log.info({ model: ref, ...servedWindow(providerID, modelID, entry) }, "context window assumed");
  }
  const models = new Map<ModelRef, Promise<Model>>();
  const breakers = new Map<string, Breaker>();
  const breakerOf = (id: string): Breaker => {
    const breaker =
      breakers.get(id) ??
      createBreaker(limits.breakerFailures, limits.probeSeconds * 1000, Date.now, (news) =>
        options.others?.tell(providerTopic, [id, ...news]),
      );
    breakers.set(id, breaker);
    return breaker;
  };
  options.others?.onTold(providerTopic, ([id, ...words]) => {
    const news = newsOf(words);
    if (typeof id === "string" && news !== undefined && providers.has(id)) breakerOf(id).hear(news);
  });
  const limited = new Map<string, RateLimit>();
  const limitOf = (ref: string): RateLimit => {
    const limit = limited.get(ref) ?? createRateLimit();
    limited.set(ref, limit);
    return limit;
  };
  options.others?.onTold(limitTopic, ([ref, ms]) => {
    if (typeof ref !== "string" || typeof ms !== "number") return;
    if (providers.has(ref.slice(0, ref.indexOf("/")))) limitOf(ref).pause(ms);
  });
  const patience = {
    firstMs: limits.modelFirstSeconds * 1000,
    silentMs: limits.modelSilentSeconds * 1000,
    replyMs: limits.modelReplySeconds * 1000,
  };

  const find = (text: string): { ref: ModelRef; provider: Provider | undefined; modelID: string } => {
    const slash = text.indexOf("/");
    const id = text.slice(0, slash);
    const modelID = text.slice(slash + 1);
    const usable = `Usable here: ${usableRefs(providers).join(", ")}.`;
    if (slash < 1 || modelID.trim() === "" || /\s/.test(text))
      throw notFound(`Expected a model as provider/model, got "${text}". ${usable}`);
    if (text === builtinModel) return { ref: builtinModel, provider: undefined, modelID };
    if (id === "replay" && options.cassettes !== undefined) {
      const names = cassettesIn(options.cassettes);
      if (names.includes(modelID)) return { ref: `replay/${modelID}`, provider: undefined, modelID };
      throw notFound(`No cassette "${modelID}" in ${options.cassettes}. There are: ${names.join(", ") || "none"}.`);
    }
    const provider = providers.get(id);
    if (provider === undefined)
      throw notFound(
        `No ${id === "builtin" ? "model" : "provider"} "${id === "builtin" ? text : id}". ${usable} Add others under providers in config.jsonc.`,
      );
    if (provider.missing !== undefined) throw notConfigured(`${text} cannot be called: ${provider.missing}`);
    return { ref: `${id}/${modelID}`, provider, modelID };
  };

  const replay = async (name: string): Promise<Model> => {
    const cassette = openCassette(options.cassettes ?? "", name);
    const { kind, api, baseURL, model } = cassette.provider;
    const connection = { id: "replay", kind, api, baseURL, apiKey: "none", keySource: null, headers: {} };
    const how = { ref: `replay/${name}` as const, tape: play(name, cassette) };
    return createProviderModel(connection, model, await traitsOf(kind, model, undefined), how);
  };

  const load = (ref: ModelRef): Promise<Model> =>
    keptOrLoaded(models, ref, async () => {
      const { provider, modelID } = find(ref);
      if (provider === undefined) return ref === builtinModel ? options.rules() : replay(modelID);
      const { id, kind, entries } = provider;
      const entry = entries.find((one) => one.id === modelID);
      const traits = await traitsOf(kind, modelID, entry, options.effort);
      const tape = options.recorder?.tape(provider, modelID);
      const how = { patience, ...(tape === undefined ? {} : { tape }) };
      const called = withCircuitBreaker(createProviderModel(provider, modelID, traits, how), breakerOf(id));
      return withRateLimitPause(called, limitOf(ref), (ms) => options.others?.tell(limitTopic, [ref, ms]));
    });

  return {
    active: () => active,
    resolve(ref) {
      const text = ref ?? active.ref;
      if (text === "none")
        throw notConfigured(
          `No model is set (${ref === undefined ? active.source : "model"} says "none"). Name one in the request's "model", or set SERVICE_MODEL; ${builtinModel} is always available.`,
        );
      return find(text).ref;
    },
    load,
    async fallbackModel(ref, tried) {
      // A Task that asked for another model keeps it; it is replaced only where the operator listed it.
      if (ref !== active.ref && !failover.includes(ref)) return undefined;
      for (const candidate of failover.length === 0 ? [] : [...failover, active.ref]) {
        const provider = providers.get(candidate.slice(0, candidate.indexOf("/")));
        if (provider === undefined || provider.missing !== undefined) continue;
        if (candidate === ref || tried.some((other) => other === candidate)) continue;
        const { takes } = await load(find(candidate).ref);
        if (takes.tools && breakerOf(provider.id).state().state !== "open") return find(candidate).ref;
      }
      return undefined;
    },
    setKey(id, apiKey, next) {
      providers.set(id, connect(id, { ...(options.providers[id] ?? { kind: id }), apiKey }, options.env));
      for (const ref of models.keys()) if (ref.startsWith(`${id}/`)) models.delete(ref);
      // Failures with the old key say nothing about the new one.
      breakers.delete(id);
      for (const ref of limited.keys()) if (ref.startsWith(`${id}/`)) limited.delete(ref);
      if (next === undefined) return;
      active = next;
      options.log.info({ model: active.ref, source: active.source }, "model in use");
    },
    breakers: () => [...breakers].map(([id, breaker]) => [id, breaker.state()]),
    list: () => [
      { ...own, id: "builtin", kind: "builtin", name: "Built-in rules (no language model)", models: ["rules-1"] },
      ...(options.cassettes === undefined
        ? []
        : [
            {
              ...own,
              id: "replay",
              kind: "replay",
              name: "Recorded exchanges",
              models: cassettesIn(options.cassettes),
            },
          ]),
      ...[...providers.values()].map(({ id, kind, name, missing, keySource, baseURL, models: names }) => ({
        id,
        kind,
        name,
        configured: missing === undefined,
        keySource,
        baseURL,
        models: names,
        breaker: breakers.get(id)?.state() ?? closed,
      })),
    ],
  };
};

const providerTopic = "provider";
const limitTopic = "rate limit";

const closed: BreakerState = { state: "closed", failures: 0, since: null, retryAt: null };

/** Common fields of the providers that make no network calls. */
const own = { configured: true, keySource: null, baseURL: null, breaker: closed };

const notFound = (message: string) => new ServiceError("model_not_found", message);
const notConfigured = (message: string) => new ServiceError("model_not_configured", message);

/** The configured model, else that of the first provider with a key in the environment, else the built-in one. */
const chosen = ({ model }: RegistryOptions, providers: ReadonlyMap<string, Provider>) => {
  if (model !== undefined) return { ref: model.ref, source: model.source };
  for (const [id, known] of Object.entries(knownKinds)) {
    const provider = providers.get(id);
    if (provider?.missing === undefined && known.keys.includes(provider?.keySource ?? ""))
      return { ref: `${id}/${known.model}`, source: `key in ${provider?.keySource}` };
  }
  return { ref: builtinModel, source: "built-in default" };
};

/** The parsed `failover` list. @throws StartError where it has an unknown provider or a duplicate. */
const standIns = ({ failover = [], log }: RegistryOptions, providers: ReadonlyMap<string, Provider>): ModelRef[] =>
  failover.map((text, index) => {
    const id = text.slice(0, text.indexOf("/"));
    const provider = providers.get(id);
    if (provider === undefined || failover.indexOf(text) !== index)
      throw new StartError(
        78,
        `failover in config.jsonc: expected different models of ${[...providers.keys()].join(", ")}, got "${text}".`,
      );
    if (provider.missing !== undefined) log.warn({ model: text }, `left out of failover: ${provider.missing}`);
    return `${id}/${text.slice(id.length + 1)}` as const;
  });

const usableRefs = (providers: ReadonlyMap<string, Provider>): string[] => [
  builtinModel,
  ...[...providers.values()]
    .filter(({ missing }) => missing === undefined)
    .map(({ id, models }) => `${id}/${models[0] ?? "<model>"}`),
];

const connect = (id: string, entry: ProviderEntry, env: RegistryOptions["env"]): Provider => {
  if (!/^[a-z0-9][a-z0-9-]{0,31}$/.test(id) || id === "builtin" || id === "replay")
    throw new StartError(78, `Expected an id other than "${id}" for a provider in config.jsonc.`);
  const known = entry.kind === "openai-compatible" ? undefined : knownKinds[entry.kind];
  const baseURL = entry.baseURL ?? known?.baseURL;
  if (baseURL === undefined)
    throw new StartError(78, `Provider ${id} needs a baseURL in config.jsonc: its kind is ${entry.kind}.`);
  checkURL(id, baseURL);

  // A key from one of the usual variables goes only to that provider's usual address, or to the address in its own
  // entry.
  const usual = known !== undefined && (entry.baseURL === undefined || id === entry.kind) ? known.keys : [];
  const key = findKey(entry.apiKey, usual, env);
  return {
    id,
    kind: entry.kind,
    name: entry.name ?? known?.name ?? id,
    baseURL: baseURL.replace(/(?<!\/)\/+$/, ""),
    apiKey: key.value,
    keySource: key.value === undefined ? null : key.source,
    headers: entry.headers ?? {},
    api: entry.api ?? "responses",
    models:
      entry.models?.map((model) => (typeof model === "string" ? model : model.id)) ??
      (known === undefined ? [] : [known.model]),
    entries: entry.models?.filter((model) => typeof model !== "string") ?? [],
    missing:
      key.value !== undefined || (known === undefined && entry.apiKey === undefined) ? undefined : key.missing(id),
  };
};

const findKey = (apiKey: string | undefined, usual: string[], env: RegistryOptions["env"]) => {
  if (apiKey !== undefined && !apiKey.startsWith("env:"))
    return { value: apiKey, source: "config.jsonc", missing: () => "" };
  const names = apiKey === undefined ? usual : [apiKey.slice("env:".length)];
  const name = names.find((candidate) => (env[candidate] ?? "").trim() !== "");
  return {
    value: name === undefined ? undefined : env[name]?.trim(),
    source: name ?? null,
    missing: (id: string) =>
      names.length === 0
        ? `provider ${id} has no key. Set providers.${id}.apiKey in config.jsonc, e.g. to "env:NAME".`
        : `${names.join(" and ")} ${names.length === 1 ? "is" : "are"} not set. Set ${names[0]} to the key of ${id} and restart the service.`,
  };
};

/** Throws where a key would cross a network unencrypted. */
const checkURL = (id: string, text: string): void => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const host = url?.hostname ?? "";
  const loopback = host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
  if (url?.protocol === "https:" || (url?.protocol === "http:" && loopback)) {
    if (url.username === "" && url.password === "") return;
    throw new StartError(78, `Provider ${id}: expected a baseURL without user and password; put the key under apiKey.`);
  }
  throw new StartError(78, `Provider ${id}: expected an https baseURL (http only on this machine), got "${text}".`);
};
