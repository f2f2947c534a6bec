import { hash } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type { Registry } from "../../model/registry.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { Catalog } from "../../squad/catalog/catalog.ts";
import type { Configuration, Offer, Terms } from "../../store/node.ts";

/**
 * The parts of a configuration that decide a Task, each by its digest. Nothing secret goes into one: headers are left
 * out, keys but for that they are there, and of an address what may hold a password or a token, so that no digest can
 * be guessed from.
 */

type Wanted = Pick<Config, "permissions" | "providers" | "failover" | "effort" | "limits">;

/**
 * `active`: the model of Tasks that name none. `usable`: the providers that can be called, as they have what they need.
 */
type Models = { active: string; usable: readonly string[] };

/** Limits that say how a node answers requests and what its machine has, not what becomes of a Task. */
const ofNode =
  /^(?:body|largeBod|json|requests|creates|stream|archive|disk|waiting$|running|keepDays$|drainSeconds$|checkpointSeconds$|commandTmp)/;

const digestOf = (value: unknown): string => hash("sha256", JSON.stringify(sorted(value)), "hex").slice(0, 16);

/** The same whatever the order in which keys were written. */
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

/** `squads`: id and digest of each that not all nodes have. */
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
  /** Packages of which another one is shared. */
  apart: () => ReadonlySet<string>;
};

/**
 * The squads that this node has by itself: external agents, and packages that came apart. The others are on all nodes
 * soon, and a Task has the package that it was created with.
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

/** What can be called now: a key may be given to the running service. */
const modelsOf = (registry: Pick<Registry, "active" | "list">): Models => ({
  active: registry.active().ref,
  usable: registry.list().flatMap(({ id, configured }) => (configured ? [id] : [])),
});

/** Between two looks at the squads, which come and go while a node runs, on other nodes too. */
const lookMs = 2_000;

export type Offering = Disposable & {
  now: () => Offer;
  /** What a Task that is accepted here asks for. */
  terms: (browser: boolean) => Terms;
  /** A provider has another key from now on. */
  keyed: () => void;
};

/** What a node has, kept up to date. */
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
    // The squads of before, until they can be read again.
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
