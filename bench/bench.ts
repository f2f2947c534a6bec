import { spawnSync } from "node:child_process";
import { cpus, loadavg, platform, release } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { temporary } from "../test/harness/project.ts";
import { archive } from "./archive.ts";
import { beside } from "./beside.ts";
import { checkpoint } from "./checkpoint.ts";
import { dependencies } from "./dependencies.ts";
import { keep } from "./kept.ts";
import { createBench, type Figure } from "./figure.ts";
import { kill } from "./kill.ts";
import { long, prompt } from "./long.ts";
import { landing } from "./landing.ts";
import { mission } from "./mission.ts";
import { events, post } from "./latency.ts";
import { cold, memory } from "./memory.ts";
import { nodes } from "./nodes.ts";
import { reads } from "./reads.ts";
import { repository } from "./repository.ts";
import { sandbox } from "./sandbox.ts";
import { squad } from "./squad.ts";
import { squads } from "./squads.ts";
import { flat, step } from "./steps.ts";
import { isMet, type Row, tableOf } from "./table.ts";
import { store } from "./store.ts";
import { readers, token } from "./streams.ts";
import { throughput } from "./throughput.ts";
import { webhook } from "./webhook.ts";

/**
 * What the service adds to what its machine must do anyway. Each figure stands beside its floor, measured in the same
 * run, in turns, on the same disk; of several rounds the median counts. Loopback only.
 *
 *   npm run bench -- [--only step,reads] [--quick]   (without --quick: kept in bench/figures.json, drawn in docs/images)
 *   npm run bench -- --only store    (a log of 100,000 Tasks beside one of 10,000, on both databases)
 *   npm run bench -- --only nodes    (1, 2, 3 and 6 services on one PostgreSQL; SQLite stands in the column of the floor)
 *   npm run bench -- --only checkpoint    (what keeping a Task's files for other nodes costs, of 2,000 and 50,000 files)
 *   npm run bench -- --beside ../another-checkout   (built; its service stands in the column of the floor)
 */

const figures: Record<string, Figure> = {
  step,
  flat,
  throughput,
  post,
  events,
  token,
  readers,
  reads,
  memory,
  cold,
  archive,
  landing,
  kill,
  long,
  prompt,
  sandbox,
  dependencies,
  squad,
  squads,
  mission,
  repository,
  webhook,
  store,
  nodes,
  checkpoint,
};

/** They take minutes to make what they measure: only where they are named. */
const named = ["store", "nodes", "checkpoint"];

const { values } = parseArgs({
  options: { only: { type: "string" }, beside: { type: "string" }, quick: { type: "boolean", default: false } },
});
const chosen = values.only?.split(",") ?? Object.keys(figures).filter((name) => !named.includes(name));
const unknown = chosen.filter((name) => !(name in figures));
if (unknown.length > 0) {
  process.stderr.write(`Expected --only with some of ${Object.keys(figures).join(", ")}, got ${unknown.join(", ")}.\n`);
  process.exit(64);
}

const setup = spawnSync(process.execPath, [fileURLToPath(new URL("../scripts/setup.mjs", import.meta.url))], {
  stdio: ["ignore", "ignore", "inherit"],
});
if (setup.status !== 0) process.exit(1);

const begun = performance.now();
using folder = temporary("sortie-bench-");
await using bench = await createBench(folder.path, values.quick);
const rows: Row[] = [];
if (values.beside !== undefined) rows.push(...(await beside(bench, resolve(values.beside))));
for (const name of values.beside === undefined || values.only !== undefined ? chosen : []) {
  process.stderr.write(`${((performance.now() - begun) / 1000).toFixed(0).padStart(4)} s  ${name}\n`);
  rows.push(...((await figures[name]?.(bench)) ?? []));
}

const { commit, spawn } = await bench.floor.call("units");
if (!values.quick && values.beside === undefined) keep(rows, { commit, spawn });
const missed = rows.filter((row) => isMet(row) === false).length;
process.stdout.write(
  [
    "",
    `node ${process.version}, ${platform()} ${release()}, ${cpus().length} x ${cpus()[0]?.model}`,
    `a durable commit ${commit.toFixed(2)} ms, bash -c true ${spawn.toFixed(2)} ms, load ${loadavg()[0]?.toFixed(1)}${values.quick ? "; --quick: too few samples to judge by" : ""}`,
    "",
    tableOf(rows),
    "",
    `${missed === 0 ? "All goals are met" : `${missed} of ${rows.filter(({ goal }) => goal).length} goals are not met`}; ${((performance.now() - begun) / 1000).toFixed(0)} s.`,
    "",
  ].join("\n"),
);
