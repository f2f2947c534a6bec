import { setTimeout as pause } from "node:timers/promises";
import type { Random } from "../../harness/random.ts";
import type { Cluster } from "./cluster.ts";
import type { FaultNode } from "./node.ts";

/** What happens to a node, or to all of them, and how it ends. Each resolves to what it did, in words. */
type Strike = (at: { cluster: Cluster; node: FaultNode; random: Random }) => Promise<string>;

/** Milliseconds from `least` on. */
const between = (random: Random, least: number, most: number): number => least + random.below(most - least);

/** A lease is ten seconds. */
const leaseMs = 10_000;

export const faults = {
  "kill -9": async ({ node, random }) => {
    // One in four is away for longer than its leases, so that others take over what it had.
    const away = random.below(4) === 0 ? between(random, leaseMs, leaseMs + 3000) : between(random, 0, 2500);
    await node.end("SIGKILL");
    await pause(away);
    await node.start();
    return `killed, and started after ${away} ms`;
  },
  "SIGSTOP, and SIGCONT after the lease": async ({ node, random }) => {
    const away = between(random, leaseMs + 500, leaseMs + 4000);
    node.signal("SIGSTOP");
    try {
      await pause(away);
    } finally {
      node.signal("SIGCONT");
    }
    return `stopped for ${away} ms`;
  },
  SIGTERM: async ({ node, random }) => {
    const away = between(random, 0, 1500);
    const since = performance.now();
    await node.end("SIGTERM");
    const took = Math.round(performance.now() - since);
    await pause(away);
    await node.start();
    return `ended by itself within ${took} ms, and started after ${away} ms`;
  },
  "the database stopped and started": async ({ cluster, random }) => {
    const away = between(random, 0, 4000);
    const mode = random.pick(["fast", "immediate"] as const);
    await cluster.database.stop(mode);
    await pause(away);
    await cluster.database.start();
    return `${mode}, for ${away} ms`;
  },
  "connections cut": async ({ cluster, node, random }) => {
    if (random.below(3) === 0) {
      for (const { proxy } of cluster.nodes) proxy.cutAll();
      return "all of all nodes";
    }
    const at = 1 + random.below(60);
    const how = random.pick(["cut", "cut after"] as const);
    // Once: the message is lost, or its answer.
    let done = false;
    node.proxy.rule(({ count }) => {
      if (done || count < at) return "pass";
      done = true;
      return how;
    });
    await pause(1500);
    node.proxy.rule(undefined);
    return `${how} message ${at}`;
  },
  "the network between a node and the database cut": async ({ node, random }) => {
    const away = between(random, 500, leaseMs + 3000);
    node.proxy.rule(() => "hold");
    await pause(away);
    node.proxy.rule(undefined);
    // What was on its way does not arrive any more.
    node.proxy.cutAll();
    return `nothing passed for ${away} ms`;
  },
  "a node's disk full": async ({ node, random }) => {
    const away = between(random, 500, 5000);
    const undo = node.disk?.fill();
    await pause(away);
    undo?.();
    return `for ${away} ms`;
  },
  "a node's clock two minutes wrong": async ({ node, random }) => {
    const ahead = random.pick([120_000, -120_000]);
    const again = random.below(2) === 0;
    const away = between(random, 2000, 5000);
    if (again) await node.end("SIGTERM");
    node.setClock(ahead);
    if (again) await node.start();
    await pause(away);
    node.setClock(0);
    return `${ahead / 1000} s${again ? " from its start on" : ""}, for ${away} ms`;
  },
} satisfies Record<string, Strike>;

export type Fault = keyof typeof faults;
