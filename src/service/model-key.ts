import type { Config } from "../config/config.ts";
import { editConfig, type Edit } from "../config/edit.ts";
import { readFile } from "../config/file.ts";
import { messageOf, ServiceError } from "../error.ts";
import type { Log } from "../log.ts";
import { knownKinds } from "../model/provider-kind.ts";
import type { Registry } from "../model/registry.ts";
import type { ModelKey, ModelKeySet } from "../protocol/service.ts";
import type { Secrets } from "../redact.ts";

/**
 * Gives the running service the key of a provider: writes it to the configuration file, and uses it from then on.
 * Accepted only for providers whose address is built in: a key is never sent to an address that a caller chose.
 */

export type KeyDeps = { config: Config; registry: Registry; secrets: Secrets; log: Log; changed?: () => void };

export const createKeys = ({ config, registry, secrets, log, changed }: KeyDeps) => {
  /** All keys given since the start, by provider: a key that was replaced is still redacted. */
  const given = new Map<string, string[]>();
  return ({ provider, key, model }: ModelKey): ModelKeySet => {
    const { configPath } = config;
    const file = readFile(configPath);
    const entry = file.providers?.[provider];
    const now = config.providers[provider];
    for (const known of [entry, now])
      if (known !== undefined && (known.kind !== provider || known.baseURL !== undefined))
        throw new ServiceError(
          "provider_not_fixed",
          `Expected a provider at its own address, got ${provider}, for which ${configPath} has another kind or baseURL. Set its key there.`,
        );
    const values = [...(given.get(provider) ?? []), key];
    given.set(provider, values);
    secrets.learn(`${provider}-key`, values);

    const ref = chosenModel({ config, registry }, provider, model);
    const edits: Edit[] = [
      entry === undefined
        ? [["providers", provider], { kind: provider, apiKey: key }]
        : [["providers", provider, "apiKey"], key],
      ...(ref === undefined ? [] : [[["model"], ref] satisfies Edit]),
    ];
    try {
      editConfig(configPath, edits, readFile, { secret: true });
    } catch (error) {
      throw new ServiceError(
        "config_not_writable",
        `Expected to write ${configPath}, and could not (${messageOf(error)}). Nothing was changed.`,
      );
    }
    registry.setKey(provider, key, ref === undefined ? undefined : { ref, source: configPath });
    changed?.();
    log.info({ provider, model: registry.active().ref }, "the key of a provider was set");
    return { provider, keySource: "config.jsonc", active: registry.active() };
  };
};

/**
 * The model to write: the requested one, or the provider's usual model when the service has no language model yet.
 * undefined: the file's model stays.
 */
const chosenModel = (
  { config, registry }: Pick<KeyDeps, "config" | "registry">,
  provider: ModelKey["provider"],
  model: string | undefined,
): string | undefined => {
  // A model from a flag or the environment takes precedence over the file, so the file is left alone.
  if (config.model !== undefined && config.model.source !== config.configPath) return undefined;
  if (model !== undefined) return `${provider}/${model}`;
  return registry.active().ref.startsWith("builtin/") ? `${provider}/${knownKinds[provider].model}` : undefined;
};
