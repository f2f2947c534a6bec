import { expect, test } from "vitest";
import { createMetrics } from "../../src/http/metrics.ts";
import type { Node } from "../../src/store/node.ts";

/**
 * What Prometheus is shown of each node; the names of all metrics are held against the manual in test/service/document.
 */

const node = (name: string, more: Partial<Node> = {}): Node => ({
  name,
  version: "1.2.3",
  role: "all",
  state: "up",
  tier: 2,
  running: 3,
  room: 5,
  diskFree: 1e9,
  host: "h",
  startedAt: "2026-01-01T00:00:00.000Z",
  seenAt: "2026-01-01T00:00:10.500Z",
  configuration: null,
  browser: true,
  hasSpace: true,
  url: null,
  ...more,
});

test("each node by its name, as it is now, and asked for once a look", async () => {
  let nodes: Node[] = [];
  let asked = 0;
  const metrics = createMetrics({
    tasksRunning: () => 0,
    missionsRunning: () => 0,
    waiting: async () => 0,
    slotsFree: () => 0,
    diskFree: () => 0,
    diskPause: () => 0,
    breakers: () => [],
    nodes: async () => {
      asked += 1;
      return nodes;
    },
    connections: () => ({}),
    webhooks: async () => ({ pending: 0, dead: 0, enabled: 0, paused: 0, disabled: 0 }),
  });
  const lines = async () => (await metrics.text()).split("\n").filter((line) => line.startsWith("sortie_node"));
  const counts = ["up", "draining", "stopped", "lost"];
  // Control: a service that has its database alone.
  expect(await lines()).toEqual(counts.map((state) => `sortie_nodes{state="${state}"} 0`));
  nodes = [node("a"), node("b", { role: "api", state: "lost", tier: 1, running: 0, room: 0, diskFree: 7 })];
  asked = 0;
  expect((await lines()).slice(counts.length)).toEqual([
    'sortie_node_info{node="a",version="1.2.3",role="all",state="up",tier="2"} 1',
    'sortie_node_info{node="b",version="1.2.3",role="api",state="lost",tier="1"} 1',
    'sortie_node_running{node="a"} 3',
    'sortie_node_running{node="b"} 0',
    'sortie_node_room{node="a"} 5',
    'sortie_node_room{node="b"} 0',
    'sortie_node_disk_free_bytes{node="a"} 1000000000',
    'sortie_node_disk_free_bytes{node="b"} 7',
    'sortie_node_seen_seconds{node="a"} 1767225610.5',
    'sortie_node_seen_seconds{node="b"} 1767225610.5',
  ]);
  expect(asked).toBe(1);
  nodes = [node("a", { state: "draining" })];
  const later = await lines();
  expect(later.filter((line) => line.includes("node="))).toHaveLength(5);
  expect(later).toContain('sortie_node_info{node="a",version="1.2.3",role="all",state="draining",tier="2"} 1');
});
