import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, platform, release } from "node:os";
import { fileURLToPath } from "node:url";
import { draw } from "./draw.ts";
import type { Row } from "./table.ts";

/** The figures of the last runs, each with where and when it was measured, and their pictures. */

const file = fileURLToPath(new URL("figures.json", import.meta.url));
const images = fileURLToPath(new URL("../docs/images", import.meta.url));

type Kept = Row & { at: string; commit: string; machine: string };

/** Replaces the figures of the same name. `units`: milliseconds of a durable commit, and of a start of bash. */
export const keep = (rows: readonly Row[], units: { commit: number; spawn: number }): void => {
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Kept[]) : [];
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const machine = `node ${process.version}, ${platform()} ${release()}, ${cpus().length} x ${cpus()[0]?.model}, load ${loadavg()[0]?.toFixed(1)}, a durable commit ${units.commit.toFixed(2)} ms, bash -c true ${units.spawn.toFixed(2)} ms`;
  const at = new Date().toISOString().slice(0, 16);
  const fresh = rows.map((row): Kept => ({ ...row, at, commit, machine }));
  const names = new Set(rows.map(({ figure }) => figure));
  const kept = [...known.filter(({ figure }) => !names.has(figure)), ...fresh];
  writeFileSync(file, `${JSON.stringify(kept, null, 1)}\n`);
  draw(images, kept);
};
