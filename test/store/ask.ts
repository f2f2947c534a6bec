import { hash } from "../../src/store/sql/row.ts";
import type { Filter, ListQuery, MissionQuery, OrphanBlobs, Store } from "../../src/store/store.ts";
import type { Nodes } from "../../src/store/node.ts";
import type { DeliveryQuery, Webhooks } from "../../src/store/webhook-queue.ts";
import { messagesIn } from "../../src/task/query/message.ts";
import { created } from "../harness/events.ts";
import type { Filled } from "../harness/large/fill.ts";
import { hook } from "./hook.ts";

/**
 * Everything that a store can be asked, and each filter of it, for whoever looks at all its statements. A method or a
 * filter that has no entry here does not compile; what asks no database says why.
 */

type Ask = (store: Store) => Promise<unknown>;
type Asks = readonly Ask[] | { none: string };

/** Every method of a port, also those that not every store has. */
type Each<Port> = {
  [Name in keyof Port & string as NonNullable<Port[Name]> extends (...given: never[]) => unknown
    ? Name
    : never]-?: Asks;
};
/** For every filter of a query, some of its values. */
type EachFilter<Query> = { [Field in keyof Omit<Query, "limit" | "cursor" | "project">]-?: readonly Partial<Query>[] };

export const project = "/work/p0/.git";

const tasksBy: EachFilter<ListQuery> = {
  status: [{ status: "running" }, { status: "inactive" }],
  lifecycleStatus: [{ lifecycleStatus: "cancelled" }],
  productPillar: [{ productPillar: "work" }],
  missionID: [{ missionID: "none" }, { missionID: "none", search: "no such words" }],
  promptProfile: [{ promptProfile: "none", lifecycleStatus: "cancelled" }],
  priority: [{ priority: "low" }],
  search: [{ search: "no such words" }, { search: "cents" }, { search: "qz" }, { search: "none", status: "running" }],
  metadata: [
    { metadata: { ticket: "T-7" } },
    { metadata: { team: "red" }, search: "none" },
    { metadata: { team: "red", ticket: "none" } },
  ],
  archived: [{ archived: true }],
};

const missionsBy: EachFilter<MissionQuery> = {
  search: [{ search: "no such words" }, { search: "qz" }],
  priority: [{ priority: "low" }],
  metadata: [{ metadata: { ticket: "T-7" } }],
  archived: [{ archived: true }],
};

const deliveriesBy: EachFilter<DeliveryQuery> = {
  state: [{ state: "dead" }],
  webhook: [{ webhook: "none" }],
  stream: [{ stream: "task_none" }],
};

const eventsBy = ({ long, mission }: Filled): { [Field in keyof Filter]-?: readonly Filter[] } => ({
  stream: [{ stream: long, types: ["task.settled"] }],
  project: [{ project: "/nowhere" }, { project }],
  mission: [{ mission: mission.stream }, { mission: mission.stream, project }],
  types: [{ types: ["squad.refused"] }],
});

const all = <Query>(by: Record<string, readonly Query[]>): Query[] => Object.values(by).flat();

const webhookAsks: Each<Webhooks> = {
  secrets: [({ webhooks }) => webhooks.secrets("whsec_x")],
  setSecrets: [({ webhooks }) => webhooks.setSecrets([])],
  list: [({ webhooks }) => webhooks.list()],
  add: [({ webhooks }) => webhooks.add(hook({ url: "http://127.0.0.1:1" }), 10)],
  change: [({ webhooks }) => webhooks.change("wh_none", { description: "one" })],
  remove: [({ webhooks }) => webhooks.remove("none")],
  position: [({ webhooks }) => webhooks.position()],
  record: [({ webhooks }) => webhooks.record([], 1, 0)],
  claim: [({ webhooks }) => webhooks.claim({ now: Date.now(), worker: "w", leaseMs: 1, limit: 10 })],
  conclude: [
    ({ webhooks }) =>
      webhooks.conclude("none", "w", { state: "delivered", dueAt: 0, status: 200, reason: null, duration: 1 }, 0),
  ],
  free: [({ webhooks }) => webhooks.free("w/", 0)],
  nextDue: [({ webhooks }) => webhooks.nextDue()],
  deliveries: all<Partial<DeliveryQuery>>({ none: [{}], cursor: [{ cursor: "z" }], ...deliveriesBy }).map(
    (query) =>
      ({ webhooks }) =>
        webhooks.deliveries({ limit: 50, ...query }),
  ),
  bury: [({ webhooks }) => webhooks.bury("none", "gone", 0)],
  redeliver: [
    ({ webhooks }) => webhooks.redeliver({ id: "none" }, 0),
    ({ webhooks }) => webhooks.redeliver({ since: 0, webhook: "none" }, 0),
  ],
  counts: [({ webhooks }) => webhooks.counts()],
  purge: [({ webhooks }) => webhooks.purge({ delivered: 1, keep: 1, rest: 1 })],
};

const orphanAsks = ({ mission }: Filled): Each<OrphanBlobs> => ({
  markOrphans: [({ orphans }) => orphans.markOrphans(mission.stream)],
  release: [({ orphans }) => orphans.release(mission.stream, ["0".repeat(64)])],
  find: [({ orphans }) => orphans.find()],
  nameBlobs: [({ orphans }) => orphans.nameBlobs(new AbortController().signal)],
  forget: [({ orphans }) => orphans.forget(["0".repeat(64)])],
});

const nodeAsks = ({ long }: Filled): Each<Nodes> => ({
  turn: { none: "it takes a lock" },
  onDue: { none: "it listens" },
  onTold: { none: "it listens" },
  tell: { none: "it notifies" },
  endedSessions: [async ({ nodes }) => nodes?.endedSessions()],
  endSession: [async ({ nodes }) => nodes?.endSession("mark", Date.now() + 1e9)],
  offer: { none: "it notes what the node has" },
  directories: [async ({ nodes }) => nodes?.directories("/work/p0")],
  elsewhere: [async ({ nodes }) => nodes?.elsewhere([long])],
  takers: [async ({ nodes }) => nodes?.takers()],
  unplaced: [async ({ nodes }) => nodes?.unplaced([long])],
  untaken: [async ({ nodes }) => nodes?.untaken()],
  unneeded: [async ({ nodes }) => nodes?.unneeded()],
  removed: [async ({ nodes }) => nodes?.removed("task_none")],
});

const storeAsks = (filled: Filled): Each<Store> => {
  const { long, mission } = filled;
  const since = new Date(Date.now() - 1e9);
  const cursor = { updated: Date.now() - 1e9, taskID: long };
  const first = created({ directory: "/work/p0" });
  const stream = first.data.taskID;
  return {
    redact: { none: "it changes a text" },
    connections: { none: "it counts what is open" },
    commit: [
      (store) =>
        store.commit({
          appends: [{ stream, expected: 0, events: [first] }],
          due: [{ stream, due: { at: new Date(), rank: 0 } }],
          once: { scope: "s", key: "k", bodyHash: "h", answer: { status: 200, body: {} } },
        }),
    ],
    claim: [
      async (store) => {
        await (await store.claim(stream, "w"))?.release();
      },
    ],
    erase: [(store) => store.erase(stream)],
    forget: [(store) => store.forget(new Date(0))],
    state: [(store) => store.state(long)],
    mission: [(store) => store.mission(mission.stream)],
    read: [
      (store) => store.read(long, { types: ["ask.opened"] }),
      (store) => store.read(long, { last: true, limit: 1 }),
      (store) => store.read(long, { after: 5, limit: 500 }),
    ],
    since: [
      (store) => store.since(0, 200),
      (store) => messagesIn(store, long, { after: 0, limit: 5, open: [] }),
      ...all(eventsBy(filled)).map((filter) => (store: Store) => store.since(0, 200, filter)),
    ],
    position: [(store) => store.position()],
    follow: { none: "it asks for the events since" },
    once: [(store) => store.once("scope", "key")],
    list: all<Partial<ListQuery>>({ none: [{}], own: [{ missionID: mission.missionID }], ...tasksBy }).flatMap(
      (query) => [
        (store: Store) => store.list({ project, limit: 51, ...query }),
        (store: Store) => store.list({ project, limit: 51, cursor, ...query }),
      ],
    ),
    aged: [
      (store) => store.aged({ before: new Date(), limit: 100, after: undefined }),
      (store) =>
        store.aged({ before: new Date(), limit: 100, after: { project: hash(project), updated: 0, stream: "" } }),
    ],
    projects: [(store) => store.projects(50)],
    overview: [(store) => store.overview({ since, project: undefined }), (store) => store.overview({ since, project })],
    missions: all<Partial<MissionQuery>>({
      none: [{}],
      cursor: [{ cursor: { updated: Date.now(), sessionID: "ses_z" } }],
      ...missionsBy,
    }).flatMap((query) => [
      (store: Store) => store.missions({ limit: 51, ...query }),
      (store: Store) => store.missions({ limit: 51, project, ...query }),
    ]),
    missionsNamed: [
      (store) => store.missionsNamed(mission.missionID),
      (store) => store.missionsNamed(mission.missionID, project),
    ],
    dispatched: [(store) => store.dispatched(mission.stream)],
    productions: [(store) => store.productions(project)],
    due: [
      (store) => store.due(new Date(), 10),
      (store) => store.due(new Date(), 10, { all: false, projects: [hash(project)] }),
    ],
    running: [(store) => store.running(), (store) => store.running([long, "task_1"])],
    nextDue: [(store) => store.nextDue()],
    waiting: [(store) => store.waiting()],
    places: [(store) => store.places([long]), (store) => store.places([long, "task_1", "task_2"])],
    check: [(store) => store.check()],
  };
};

type Port = "store" | "webhooks" | "orphans" | "nodes";

/** Each of them, with what it is of: all that a store with nodes, or without, is asked. */
export const asksOf = (filled: Filled): { port: Port; name: string; asks: Asks }[] =>
  Object.entries({
    store: storeAsks(filled),
    webhooks: webhookAsks,
    orphans: orphanAsks(filled),
    nodes: nodeAsks(filled),
  } as const).flatMap(([port, asks]) =>
    Object.entries(asks as Record<string, Asks>).map(([name, own]) => ({ port: port as Port, name, asks: own })),
  );

/** What a store of several nodes asks otherwise than one alone. */
const ofNodes: ReadonlySet<string> = new Set(["due", "nextDue", "waiting", "commit", "claim", "erase"]);

export const askAll = async (store: Store, filled: Filled): Promise<void> => {
  for (const { port, name, asks } of asksOf(filled))
    if (!("none" in asks) && (store.nodes === undefined || port === "nodes" || ofNodes.has(name)))
      for (const ask of asks) await ask(store);
};
