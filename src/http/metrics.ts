import type { Registry as PromRegistry } from "prom-client";
import type { Recorded } from "../domain/event.ts";
import type { BreakerState } from "../model/circuit-breaker.ts";
import type { LifecycleStatus } from "../protocol/task/status.ts";
import { loadOnce } from "../async/load-once.ts";
import type { Node } from "../store/node.ts";

/** Prometheus metrics. Counters are plain numbers; prom-client is loaded with the first request for them. */

type Gauges = {
  tasksRunning: () => number;
  missionsRunning: () => number;
  waiting: () => Promise<number>;
  slotsFree: () => number;
  /** Bytes. */
  diskFree: () => number;
  diskPause: () => number;
  breakers: () => Iterable<[provider: string, state: BreakerState]>;
  /** Empty when no other node shares the database. */
  nodes: () => Promise<readonly MeasuredNode[]>;
  /** Open connections to the database server by purpose; empty when there is no server. */
  connections: () => Readonly<Record<string, number>>;
  webhooks: () => Promise<Record<"pending" | "dead" | "enabled" | "paused" | "disabled", number>>;
};

type MeasuredNode = Pick<
  Node,
  "name" | "version" | "role" | "state" | "tier" | "running" | "room" | "diskFree" | "seenAt"
>;

/**
 * The gauges that each node has: `info` has the constant value 1 and describes the node in its labels; the others have
 * only its name.
 */
const nodeGauges: [name: string, help: string, labels: "info" | "none", read: (node: MeasuredNode) => number][] = [
  ["sortie_node_info", "1 for each of these services, with what it is", "info", () => 1],
  ["sortie_node_running", "Tasks and Missions that run on it", "none", ({ running }) => running],
  ["sortie_node_room", "How many more it would start", "none", ({ room }) => room],
  ["sortie_node_disk_free_bytes", "Free space on the disk of its data folder", "none", ({ diskFree }) => diskFree],
  [
    "sortie_node_seen_seconds",
    "When it was last seen, in Unix time",
    "none",
    ({ seenAt }) => Date.parse(seenAt) / 1000,
  ],
];

const infoOf = ({ version, role, state, tier }: MeasuredNode) => ({ version, role, state, tier: String(tier) });

const positions: Record<BreakerState["state"], number> = { closed: 0, "half-open": 1, open: 2 };

export const createMetrics = (gauges: Gauges) => {
  const settled: Record<Exclude<LifecycleStatus, "active">, number> = { completed: 0, failed: 0, cancelled: 0 };
  const tools = { ok: 0, error: 0, interrupted: 0 };
  const checks = { passed: 0, failed: 0, error: 0 };
  const model = {
    calls: 0,
    failures: 0,
    inputTokens: 0,
    outputTokens: 0,
    costUSD: 0,
    seconds: 0,
    retries: 0,
    switches: 0,
    deferrals: 0,
  };

  /** The nodes, read once per scrape for all gauges. */
  let nodes: readonly MeasuredNode[] = [];

  const load = loadOnce(async (): Promise<PromRegistry> => {
    const { Counter, Gauge, Registry, collectDefaultMetrics } = await import("prom-client");
    const registry = new Registry();
    collectDefaultMetrics({ register: registry });
    const counter = (
      name: string,
      help: string,
      labelNames: string[],
      read: () => [Record<string, string>, number][],
    ) =>
      new Counter({
        name,
        help,
        labelNames,
        registers: [registry],
        collect() {
          this.reset();
          for (const [labels, value] of read()) this.inc(labels, value);
        },
      });
    const gauge = (name: string, help: string, read: () => number | Promise<number>) =>
      new Gauge({
        name,
        help,
        registers: [registry],
        async collect() {
          this.set(await read());
        },
      });
    const by = (label: string, counts: Record<string, number>) => () =>
      Object.entries(counts).map(([value, count]): [Record<string, string>, number] => [{ [label]: value }, count]);
    counter("sortie_tasks_settled_total", "Tasks that ended", ["lifecycle_status"], by("lifecycle_status", settled));
    counter("sortie_tool_calls_total", "Tool calls that ended", ["outcome"], by("outcome", tools));
    counter("sortie_checks_total", "Checks that ended", ["state"], by("state", checks));
    counter("sortie_model_calls_total", "Replies of models", ["result"], () => [
      [{ result: "ok" }, model.calls - model.failures],
      [{ result: "failed" }, model.failures],
    ]);
    counter(
      "sortie_model_setbacks_total",
      "Calls made again, models switched, Tasks delayed by a quota",
      ["kind"],
      () => [
        [{ kind: "retried" }, model.retries],
        [{ kind: "switched" }, model.switches],
        [{ kind: "deferred" }, model.deferrals],
      ],
    );
    counter("sortie_model_tokens_total", "Tokens used", ["direction"], () => [
      [{ direction: "input" }, model.inputTokens],
      [{ direction: "output" }, model.outputTokens],
    ]);
    counter("sortie_model_seconds_total", "Time spent waiting for models", [], () => [[{}, model.seconds]]);
    counter("sortie_model_cost_usd_total", "Known cost of model calls", [], () => [[{}, model.costUSD]]);
    gauge("sortie_tasks_running", "Tasks whose run is open", gauges.tasksRunning);
    gauge("sortie_missions_running", "Missions whose agent is running", gauges.missionsRunning);
    gauge("sortie_tasks_waiting", "Tasks waiting to start", gauges.waiting);
    registry.registerMetric(
      new Gauge({
        name: "sortie_provider_breaker",
        help: "Calls to the provider: 0 made, 1 being tested, 2 paused",
        labelNames: ["provider"],
        registers: [],
        collect() {
          this.reset();
          for (const [provider, { state }] of gauges.breakers()) this.set({ provider }, positions[state]);
        },
      }),
    );
    const states = (
      name: string,
      help: string,
      names: readonly ("pending" | "dead" | "enabled" | "paused" | "disabled")[],
    ) =>
      new Gauge({
        name,
        help,
        labelNames: ["state"],
        registers: [registry],
        async collect() {
          const counts = await gauges.webhooks();
          for (const state of names) this.set({ state }, counts[state]);
        },
      });
    states("sortie_webhooks", "Webhooks", ["enabled", "paused", "disabled"]);
    states("sortie_webhook_deliveries", "Pending and failed webhook deliveries", ["pending", "dead"]);
    registry.registerMetric(
      new Gauge({
        name: "sortie_nodes",
        help: "Services that share the database, seen within the last day",
        labelNames: ["state"],
        registers: [],
        collect() {
          for (const state of ["up", "draining", "stopped", "lost"] as const)
            this.set({ state }, nodes.filter((node) => node.state === state).length);
        },
      }),
    );
    for (const [name, help, labels, read] of nodeGauges)
      registry.registerMetric(
        new Gauge({
          name,
          help,
          labelNames: ["node", ...(labels === "info" ? ["version", "role", "state", "tier"] : [])],
          registers: [],
          collect() {
            // Removes the series of nodes that are gone, and of labels that a node no longer has.
            this.reset();
            for (const node of nodes)
              this.set({ node: node.name, ...(labels === "info" ? infoOf(node) : {}) }, read(node));
          },
        }),
      );
    registry.registerMetric(
      new Gauge({
        name: "sortie_database_connections",
        help: "Open connections to PostgreSQL",
        labelNames: ["purpose"],
        registers: [],
        collect() {
          for (const [purpose, count] of Object.entries(gauges.connections())) this.set({ purpose }, count);
        },
      }),
    );
    gauge("sortie_slots_free", "Free slots for tools, checks and landings", gauges.slotsFree);
    gauge("sortie_disk_free_bytes", "Free space on the disk of the data folder", gauges.diskFree);
    gauge("sortie_disk_pause", "1 while all Tasks pause for lack of space on that disk", gauges.diskPause);
    return registry;
  });

  return {
    recorded: (events: readonly Recorded[]): void => {
      for (const event of events)
        switch (event.type) {
          case "task.settled":
            settled[event.data.lifecycleStatus] += 1;
            break;
          case "tool.finished":
            tools[event.data.outcome] += 1;
            break;
          case "check.finished":
            checks[event.data.state] += 1;
            break;
          case "model.switched":
            model.switches += 1;
            break;
          case "task.deferred":
            model.deferrals += 1;
            break;
          case "reply.retried":
            model.retries += 1;
            break;
          case "reply.finished": {
            const { usage, finish, durationMs } = event.data;
            model.calls += 1;
            model.failures += finish === "failed" ? 1 : 0;
            model.inputTokens += usage.inputTokens;
            model.outputTokens += usage.outputTokens;
            model.costUSD += usage.costUSD ?? 0;
            model.seconds += durationMs / 1000;
            break;
          }
          default:
        }
    },
    text: async (): Promise<string> => {
      const registry = await load();
      nodes = await gauges.nodes();
      return registry.metrics();
    },
  };
};
