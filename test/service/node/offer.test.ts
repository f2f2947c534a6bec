import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { silent } from "../../../src/log.ts";
import { createRegistry } from "../../../src/model/registry.ts";
import { configurationOf as digestsOf, offerOf } from "../../../src/service/node/offer.ts";

const config = () => loadConfig({ dataDir: "/nowhere" }, {});
const models = { active: "one/large", usable: ["one"] };
const configurationOf = (own: Parameters<typeof digestsOf>[0], others: Parameters<typeof digestsOf>[1]) =>
  digestsOf(own, others, models);
const squads = [
  { id: "a", digest: "1" },
  { id: "b", digest: "2" },
];
const provider = { kind: "openai-compatible" as const, baseURL: "https://user:hunter2@example.org/v1?key=hunter3" };

test("digests say which part differs, whatever the order; secrets and what is the machine's do not count", () => {
  const own = { ...config(), providers: { one: { ...provider, apiKey: "hunter1", headers: { "x-key": "hunter4" } } } };
  const digests = configurationOf(own, squads);
  expect(configurationOf(own, squads.toReversed())).toEqual(digests);
  const secrets = { ...own, providers: { one: { ...provider, baseURL: "https://example.org/v1", apiKey: "other" } } };
  expect(configurationOf(secrets, squads)).toEqual(digests);
  const machine = { ...own, limits: { ...own.limits, streams: 3, diskFreeBytes: 7, waiting: 2 } };
  expect(configurationOf(machine, squads)).toEqual(digests);

  const differs = (changed: typeof own, others = squads) =>
    Object.entries(configurationOf(changed, others)).flatMap(([part, digest]) =>
      digest === digests[part as keyof typeof digests] ? [] : [part],
    );
  expect(differs(own, [{ id: "a", digest: "3" }])).toEqual(["squads"]);
  expect(differs({ ...own, permissions: { ...own.permissions, deny: ["shell(rm *)"] } })).toEqual(["permissions"]);
  expect(differs({ ...own, failover: ["one/large"] })).toEqual(["providers"]);
  expect(differs({ ...own, providers: { one: { ...own.providers.one, baseURL: "https://example.com/v1" } } })).toEqual([
    "providers",
  ]);
  expect(differs({ ...own, limits: { ...own.limits, steps: 3 } })).toEqual(["limits"]);
});

test("a provider's key makes the difference that it is there, also one that is given later, and not which it is", async () => {
  const of = async (env: Record<string, string>) => {
    const registry = createRegistry({
      model: undefined,
      providers: {},
      env,
      rules: () => Promise.reject(new Error("no model is called")),
      log: silent,
    });
    const catalog = { scan: () => Promise.resolve({ squads: [] }) } as never;
    const deps = { registry, catalog, apart: () => new Set<string>(), tier: 1 };
    const offering = await offerOf(config(), { ...deps, browser: () => false, hasSpace: () => true });
    return { registry, offering };
  };
  const { offering: one } = await of({ ANTHROPIC_API_KEY: "k1" });
  const { offering: other } = await of({ ANTHROPIC_API_KEY: "k2" });
  const { offering: none, registry } = await of({});
  using _one = one;
  using _other = other;
  using _none = none;
  const own = one.terms(false);
  expect(other.terms(false)).toEqual(own);
  const without = none.terms(false);
  expect(without).toEqual({ ...own, providers: without.providers });
  expect(without.providers).not.toBe(own.providers);
  const { ref, source } = (await of({ ANTHROPIC_API_KEY: "k1" })).registry.active();
  registry.setKey("anthropic", "k3", { ref, source });
  none.keyed();
  expect(none.terms(false)).toEqual(own);
  expect(none.now().configuration?.providers).toBe(own.providers);
});
