import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ServiceError } from "../../src/error.ts";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { createManager } from "../../src/squad/install/manager.ts";
import type { Source } from "../../src/squad/install/source.ts";
import { temporary } from "../harness/project.ts";
import { type Random, seededRandom } from "../harness/random.ts";
import { textsOf, zipOf } from "../harness/double/squads.ts";
import { night } from "../harness/night.ts";

/** Packages with faults that nobody thought of: each is refused or stands healthy, never half, and nothing throws. */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
const rounds = night ? 500 : 80;

type Files = Record<string, Buffer>;

/** What faults are made of: syntax of both languages, names, and bytes that are no text. */
const scraps = [
  '"',
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "---\n",
  "\n",
  "\t",
  "- ",
  "&a ",
  "*a",
  "!!js ",
  "<<: ",
  "null",
  "1e999",
]
  .concat([
    "\u0000",
    "\u202e",
    "\ud800",
    "__proto__",
    "constructor",
    "../",
    "/",
    "orchestrator",
    "acp:x",
    "{".repeat(3000),
  ])
  .map((text) => Buffer.from(text))
  .concat([Buffer.of(0xff, 0xfe), Buffer.of(0xc0, 0x80), Buffer.alloc(70_000, 0x20)]);
const paths = [
  "agents/QA.md",
  "agents/x.md",
  "agents/.md",
  "skills/SKILL.md",
  "skills/x/SKILL.md",
  "skills/x/run.sh",
  "SQUAD.json",
  "a\\b",
  "é.md",
  "x".repeat(200),
];

const cut = (bytes: Buffer, { below }: Random): [Buffer, Buffer, Buffer] => {
  const from = below(bytes.length + 1);
  const to = Math.min(bytes.length, from + below(40));
  return [bytes.subarray(0, from), bytes.subarray(from, to), bytes.subarray(to)];
};

const faults: ((files: Files, random: Random) => void)[] = [
  ...Array.from({ length: 4 }, () => (files: Files, random: Random) => {
    const path = random.pick(Object.keys(files));
    const [head, , tail] = cut(files[path] ?? Buffer.of(), random);
    files[path] = Buffer.concat([head, random.pick(scraps), tail]);
  }),
  (files, random) => {
    const path = random.pick(Object.keys(files));
    const [head, part, tail] = cut(files[path] ?? Buffer.of(), random);
    files[path] = Buffer.concat([head, part, part, tail]);
  },
  (files, random) => {
    const path = random.pick(Object.keys(files));
    files[path] = (files[path] ?? Buffer.of()).subarray(0, random.below(200));
  },
  (files, random) => {
    files[random.pick(paths)] = Buffer.from("---\nname: x\ndescription: x\ntools: []\n---\nx");
  },
  (files, random) => void delete files[random.pick(Object.keys(files))],
  (files, random) => {
    const [one, other] = [random.pick(Object.keys(files)), random.pick(Object.keys(files))];
    [files[one], files[other]] = [files[other] ?? Buffer.of(), files[one] ?? Buffer.of()];
  },
  // White space alone: such a package is in order.
  (files) => void (files["README.md"] = Buffer.concat([files["README.md"] ?? Buffer.of(), Buffer.from("\n\n")])),
];

const write = (folder: string, files: Files, random: Random): void => {
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
  if (random.below(12) === 0) symlinkSync("README.md", join(folder, "LICENSE"));
  if (random.below(12) === 0) mkdirSync(join(folder, "agents/empty"), { recursive: true });
};

test(`${rounds} packages with faults`, { timeout: 600_000 }, async () => {
  console.log(`squad faults: TEST_SEED=${seed}`);
  using root = temporary("sortie-squad-fuzz-");
  const dataDir = join(root.path, "data");
  mkdirSync(join(dataDir, "squads"), { recursive: true });
  const inspect = async (directory: string) => ({ directory, project: directory, git: undefined });
  const catalog = createCatalog({ dataDir, external: [] });
  const manager = createManager({ catalog, dataDir, external: [], inspect });
  const random = seededRandom(seed);
  const outcomes = { refused: 0, stands: 0 };
  for (let round = 0; round < rounds; round += 1) {
    const files: Files = Object.fromEntries(Object.entries(textsOf()).map(([path, text]) => [path, Buffer.from(text)]));
    for (let count = random.below(3); count >= 0; count -= 1) random.pick(faults)(files, random);
    let source: Source;
    if (random.below(3) === 0) {
      const texts = Object.fromEntries(
        Object.entries(files).map(([path, bytes]) => [path.replaceAll("\\", "_"), bytes]),
      );
      const zip = await zipOf(texts);
      for (let flips = random.below(4); flips > 0; flips -= 1) zip[random.below(zip.length)] = random.below(256);
      source = { zip: zip.toString("base64") };
    } else {
      source = { path: join(root.path, `p-${round}`) };
      mkdirSync(join(root.path, `p-${round}`));
      write(join(root.path, `p-${round}`), files, random);
    }
    const done = await manager.install(source, "user").catch((error: unknown) => error);
    const again = await catalog.scan();
    expect({ round, healthy: again.healthy }).toEqual({ round, healthy: true });
    if (done instanceof ServiceError) {
      expect({ round, code: done.code }).toEqual({ round, code: "squad_invalid" });
      expect(done.issues?.length).toBeGreaterThan(0);
      expect(readdirSync(join(dataDir, "squads"))).toEqual([]);
      outcomes.refused += 1;
      continue;
    }
    expect({ round, done }).toMatchObject({ round, done: { replaced: null } });
    const own = again.squads.filter(({ scope }) => scope === "user");
    expect(own.map(({ squad, digest }) => ({ id: squad.id, digest }))).toEqual([
      { id: own[0]?.squad.id, digest: (done as { squad: { digest: string } }).squad.digest },
    ]);
    await manager.uninstall(own[0]?.squad.id ?? "", "user");
    outcomes.stands += 1;
  }
  // Both ways are gone, else the faults say nothing.
  expect(outcomes.refused).toBeGreaterThan(rounds / 4);
  expect(outcomes.stands).toBeGreaterThan(0);
});
