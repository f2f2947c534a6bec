import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { entriesOf } from "../harness/entries.ts";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createSecrets } from "../../src/redact.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { createArchiver } from "../../src/archive/service.ts";
import { createProcesses } from "../../src/process/service.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { created } from "../harness/events.ts";
import { gitEnv, temporary } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";
import { noRepositories } from "../harness/repositories.ts";

/**
 * T9: archives of 60 hostile and 300 random trees, made by plumbing so that every name can be there, read back by two
 * readers of other people's: each is a whole ZIP, every entry stays inside, and no secret is in the execution flow.
 */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
const { below: random, pick } = seededRandom(seed);

const canary = "canary-9f8e7d6c5b4a39281706f5e4d3c2b1a0";

type Entry = { mode: string; name: Buffer; object: string };

const hostileNames = [
  "..",
  ".",
  "...",
  "../up",
  "../../etc/passwd",
  "/etc/cron",
  ".git",
  ".GIT",
  ".Git ",
  "git~1",
  ".git.",
  "a\\..\\b",
  "C:\\x",
  "C:x",
  "con",
  "nul.txt",
  "a\nb",
  "a\rb",
  "a\tb",
  "\u001b[31m",
  "a\u0000b".replace("\u0000", "\u0001"),
  "é",
  "e\u0301",
  "É",
  "ﬁ",
  "\u202egnp.exe",
  " ",
  "a ",
  "-rf",
  "--",
  "~",
  "$HOME",
  "`id`",
  "a".repeat(255),
  "💥",
  "%2e%2e%2f",
  "project",
  "execution-flow",
  "manifest.json",
  ".env",
  "id_rsa",
  "x.pem",
];

const bytesOf = (name: string): Buffer => Buffer.from(name);
const oddBytes = (): Buffer =>
  Buffer.from(Array.from({ length: 1 + random(12) }, () => 1 + random(255)).filter((byte) => byte !== 47));

describe("T9 archives of hostile and random trees", () => {
  test("all are read by unzip and Python, and stay inside", async () => {
    console.log(`T9: TEST_SEED=${seed}`);
    using folder = temporary("sortie-trees-");
    const project = join(folder.path, "project");
    const zips = join(folder.path, "zips");
    const dataDir = join(folder.path, "data");
    mkdirSync(project);
    mkdirSync(zips);
    const env = gitEnv(folder.path);
    const git = (input: Buffer | string, ...args: string[]): string =>
      execFileSync("git", args, { cwd: project, env, input, stdio: ["pipe", "pipe", "pipe"] })
        .toString()
        .trim();
    git("", "init", "-q", "-b", "main");
    const blobs = ["", "text\n", "x".repeat(70_000), "\0\x01binary", `${"y".repeat(3000)}\n`].map((text) =>
      git(text, "hash-object", "-w", "--stdin"),
    );
    const links = [
      "../out",
      "/etc/passwd",
      "a",
      "../../../x",
      "a/../../b",
      "C:\\x",
      "",
      ".git/config",
      "./a",
      "a\\b",
    ].map((text) => git(text, "hash-object", "-w", "--stdin"));
    const tree = (entries: readonly Entry[]): string =>
      git(
        Buffer.concat(
          entries.flatMap(({ mode, name, object }) => [
            Buffer.from(`${mode} `),
            name,
            Buffer.from([0]),
            Buffer.from(object, "hex"),
          ]),
        ),
        "hash-object",
        "-t",
        "tree",
        "-w",
        "--literally",
        "--stdin",
      );
    const treeOf = (names: () => Buffer, depth: number): string => {
      const count = 1 + random(6);
      const entries: Entry[] = [];
      for (let made = 0; made < count; made += 1) {
        const name = names();
        if (name.length === 0) continue;
        const kind = random(10);
        if (kind < 5) entries.push({ mode: pick(["100644", "100755", "100664"]), name, object: pick(blobs) });
        else if (kind < 7) entries.push({ mode: "120000", name, object: pick(links) });
        else if (kind < 8) entries.push({ mode: "160000", name, object: "1".repeat(40) });
        else if (depth > 0) entries.push({ mode: "40000", name, object: treeOf(names, depth - 1) });
      }
      entries.push({ mode: "100644", name: Buffer.from("kept.txt"), object: blobs[1] as string });
      return tree(entries);
    };

    await using store = await createSqliteStore({ file: ":memory:", dataDir, log: silent });
    const processes = createProcesses({ folder: join(dataDir, "p"), runID: "test", keepEnv: {}, log: silent });
    const workspaces = createWorkspaces({
      dataDir,
      projectRoots: [folder.path],
      processes,
      limits: defaultLimits,
      log: silent,
    });
    const secrets = createSecrets([{ kind: "canary", value: canary }]);
    const archiver = createArchiver({
      store,
      workspaces,
      repositories: noRepositories,
      limits: defaultLimits,
      dataDir,
      secrets,
    }).ofTask;
    let refused = 0;
    let entriesSeen = 0;
    for (let number = 0; number < 360; number += 1) {
      const hostile = number < 60;
      const names = hostile
        ? () => bytesOf(pick(hostileNames))
        : () => (random(3) === 0 ? oddBytes() : bytesOf(pick(["a", "b.txt", "src", "ä", "x y", "A"])));
      const made = git("", "commit-tree", treeOf(names, 3), "-m", "tree");
      git("", "update-ref", "refs/heads/main", made);
      const event = created({ directory: project, project: join(project, ".git"), request: `tell ${canary} to all` });
      const { taskID } = event.data;
      await store.commit({ appends: [{ stream: taskID, expected: "any", events: [event] }] });
      const task = await store.state(taskID);
      if (task === undefined) throw new Error("Expected a Task");
      try {
        await using file = await archiver(task, AbortSignal.timeout(60_000));
        copyFileSync(file.path, join(zips, `${number}.zip`));
      } catch (error) {
        // An error instead of a broken ZIP is right; what it is is said.
        refused += 1;
        console.log(`T9: tree ${number} is refused: ${String(error).slice(0, 200)}`);
        continue;
      }
      const entries = entriesOf(readFileSync(join(zips, `${number}.zip`)));
      const paths = entries.map(({ path }) => path);
      entriesSeen += paths.length;
      const wrong = paths.filter(
        (path) =>
          !/^(?:project|execution-flow)\//.test(path) ||
          path
            .split("/")
            .some((part) => part === "" || part === "." || part === ".." || /^(?:\.git|git~\d+)[. ]*$/i.test(part)) ||
          /[\\\p{Cc}]/u.test(path),
      );
      expect([number, wrong]).toEqual([number, []]);
      expect(new Set(paths.map((path) => path.normalize("NFC").toUpperCase().toLowerCase())).size).toBe(paths.length);
      for (const entry of entries)
        if (entry.path.startsWith("execution-flow/")) expect(entry.read().includes(canary)).toBe(false);
    }
    console.log(`T9: ${entriesSeen} entries in ${360 - refused} archives, ${refused} refused`);
    // Trees that git itself will not read are few.
    expect(refused).toBeLessThan(30);

    const python = [
      "import sys, zipfile, pathlib",
      "bad = [p.name for p in pathlib.Path(sys.argv[1]).glob('*.zip') if zipfile.ZipFile(p).testzip() is not None]",
      "print(len(bad)); sys.exit(1 if bad else 0)",
    ].join("\n");
    const read = spawnSync("python3", ["-c", python, zips], { timeout: 300_000 });
    const unzip = spawnSync("bash", ["-c", 'for z in "$1"/*.zip; do unzip -tqq "$z" || exit 1; done', "x", zips], {
      timeout: 300_000,
    });
    for (const [name, { error, status, stderr }] of [
      ["python3", read],
      ["unzip", unzip],
    ] as const) {
      const missing = error !== undefined || status === 127;
      if (missing) console.error(`!!! T9 SKIPPED for ${name}: it is not on this machine`);
      else expect([name, status, stderr.toString().slice(0, 500)]).toEqual([name, 0, ""]);
    }
    // Control: the same readers see a broken one.
    rmSync(zips, { recursive: true });
    mkdirSync(zips);
    writeFileSync(join(zips, "broken.zip"), "PK no zip");
    expect(spawnSync("python3", ["-c", python, zips]).status).not.toBe(0);
    await processes.stop();
  }, 600_000);
});
