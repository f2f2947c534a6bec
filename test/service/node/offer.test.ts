import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";
import { configurationOf } from "../../../src/service/node/offer.ts";

const config = () => loadConfig({ dataDir: "/nowhere" }, {});
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
