import { hash } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type { Registry } from "../../model/registry.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Catalog } from "../../squad/catalog/catalog.ts";
import type { Configuration, Offer, Terms } from "../../store/node.ts";

/**
 * Digests of the parts of a configuration that affect Tasks. No secret goes into a digest, so none can be guessed from
 * it: headers are left out, of a key only whether it is set counts, and an address loses the parts that may hold a
 * password or token.
 */

type Wanted = Pick<Config, "permissions" | "providers" | "failover" | "effort" | "limits">;

/**
 * `active`: the model of Tasks that name none. `usable`: ids of the providers that can be called because they have all
 * that they need.
 */
type Models = { active: string; usable: readonly string[] };

/** Limits about how a node answers requests and about its machine, which do not affect the result of a Task. */
const ofNode =
  /^(?:body|largeBod|json|requests|creates|stream|archive|disk|waiting$|running|keepDays$|drainSeconds$|checkpointSeconds$|commandTmp)/;

const digestOf = (value: unknown): string => hash("sha256", JSON.stringify(sorted(value)), "hex").slice(0, 16);

/** The value with its keys sorted, so that the order in which they were written does not change the digest. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return entries.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, one]) => [key, sorted(one)]);
};

const placeOf = (address: string | undefined): string | undefined => {
  if (address === undefined) return undefined;
  const { origin, pathname } = new URL(address);
  return `${origin}${pathname}`;
};

const ofTasks = (limits: Limits) => Object.entries(limits).filter(([name]) => !ofNode.test(name));

/** `squads`: id and digest of each squad that not all nodes have. */
export const configurationOf = (
  { permissions, providers, failover, effort, limits }: Wanted,
  squads: readonly { id: string; digest: string }[],
  { active, usable }: Models,
): Configuration => ({
  squads: digestOf(squads.map(({ id, digest }) => `${id} ${digest}`).toSorted()),
  permissions: digestOf(permissions),
  providers: digestOf({
    model: active,
    usable: usable.toSorted(),
    failover,
    effort,
    providers: Object.entries(providers)
      .map(([id, { kind, baseURL, api, models }]) => ({ id, kind, place: placeOf(baseURL), api, models }))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1)),
  }),
  limits: digestOf(Object.fromEntries(ofTasks(limits))),
});

type Squads = {
  catalog: Pick<Catalog, "scan">;
  /** Ids of packages that differ from the shared package with the same id. */
  apart: () => ReadonlySet<string>;
};

/**
 * The squads that only this node has: external agents, and packages that differ from the shared ones. All other squads
 * reach every node soon, and a Task keeps the package that it was created with.
 */
const ownSquads = async ({ catalog, apart }: Squads): Promise<{ id: string; digest: string }[]> => {
  const { squads } = await catalog.scan();
  const known = new Map(squads.map((found) => [found.squad.id, found]));
  const agents = squads.filter(({ scope, files }) => scope === "user" && files === undefined);
  return [
    ...agents.map(({ squad, digest }) => ({ id: squad.id, digest })),
    ...[...apart()].map((id) => ({ id, digest: known.get(id)?.digest ?? "" })),
  ];
};

/** The models that can be called now; read again because the running service may be given a key. */
const modelsOf = (registry: Pick<Registry, "active" | "list">): Models => ({
  active: registry.active().ref,
  usable: registry.list().flatMap(({ id, configured }) => (configured ? [id] : [])),
});

/** Time between two scans of the squads, which may change while the node runs, also on other nodes. */
const lookMs = 2_000;

export type Offering = Disposable & {
  now: () => Offer;
  /** The terms of a Task that is accepted on this node. */
  terms: (browser: boolean) => Terms;
  /** Must be called when a provider has got another key. */
  keyed: () => void;
};

/** What this node offers, kept up to date. */
export const offerOf = async (
  config: Wanted,
  deps: Squads & {
    registry: Pick<Registry, "active" | "list">;
    tier: number;
    browser: () => boolean;
    hasSpace: () => boolean;
  },
): Promise<Offering> => {
  let own = await ownSquads(deps);
  const digests = () => configurationOf(config, own, modelsOf(deps.registry));
  let configuration = digests();
  let browser = deps.browser();
  const look = async (): Promise<void> => {
    own = await ownSquads(deps);
    configuration = digests();
    browser = deps.browser();
  };
  const timer = setInterval(() => {
    // Keeps the last squads until they can be read again.
    look().catch(() => {});
  }, lookMs);
  timer.unref();
  const { tier, hasSpace } = deps;
  return {
    now: () => ({ configuration, tier, browser, hasSpace: hasSpace() }),
    terms: (needsBrowser) => ({ ...configuration, tier, browser: needsBrowser }),
    keyed() {
      configuration = digests();
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
};
