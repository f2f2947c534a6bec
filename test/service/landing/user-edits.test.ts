import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { git, makeProject } from "../../harness/project.ts";
import { createTask, type Lab, logOf, makeLab, send, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { seededRandom } from "../../harness/random.ts";
import { startService } from "../../harness/service.ts";
import { night } from "../../harness/night.ts";

/**
 * Two Tasks sent over HTTP to one project while its user edits, stages and commits: `task/step/landing/land.ts` itself
 * decides what follows what. Every line that anybody writes is a word of its own, so that what became of it can be
 * told. Few histories by day, 30 at night; the seed is printed and can be given again.
 */

const files = ["a", "b", "dir/c"];

/** What the agent does with conflict markers: the project's side, and its own lines that were not there before. */
const solve = `for f in ${files.join(" ")}; do awk '
  index($0, "<<<<<<< ") == 1 { side = 1; for (line in base) delete base[line]; next }
  side == 1 && index($0, "||||||| ") == 1 { side = 2; next }
  side == 2 && $0 == "=======" { side = 3; next }
  side == 3 && index($0, ">>>>>>> ") == 1 { side = 0; next }
  side == 2 { base[$0] = 1; next }
  side == 3 && ($0 in base) { next }
  { print }' $f > .solved && cat .solved > $f; rm -f .solved; done`;

type Place = { url: string; lab: Lab };

/** git grep says "no" by its exit code. */
const grep = (root: string, ...args: string[]): boolean =>
  spawnSync("git", ["grep", "-qw", ...args], { cwd: root }).status === 0;

const history = async ({ url, lab }: Place, seed: number): Promise<string[]> => {
  const random = seededRandom(seed);
  const lines = (name: string) => Array.from({ length: 12 }, (_, at) => `${name} line ${at}\n`).join("");
  const root = makeProject(lab.folder(), Object.fromEntries(files.map((name) => [name, lines(name)])));
  const log: string[] = [];
  const words = new Map<string, string>();
  let count = 0;
  const textOf = (path: string) => readFileSync(join(root, path), "utf8");

  const userDoes = (): void => {
    const path = random.pick(files);
    const act = random.below(7);
    try {
      if (act <= 2) {
        const word = `u${(count += 1)}`;
        const all = textOf(path).split("\n");
        all.splice(random.below(all.length), 0, word);
        writeFileSync(join(root, path), all.join("\n"));
        words.set(word, path);
        log.push(`${word} into ${path}`);
      } else if (act === 3) git(root, "add", path);
      else if (act === 4) git(root, "-c", "user.name=User", "commit", "-q", "--allow-empty", "-am", "user");
      else if (act === 5) git(root, "-c", "user.name=User", "commit", "-q", "--allow-empty", "-m", "staged");
      else {
        const own = `own${(count += 1)}`;
        writeFileSync(join(root, own), `${own}\n`);
        words.set(own, own);
      }
      if (act > 2) log.push(`user ${act} ${path}`);
    } catch (error) {
      // The landing holds the index for a moment; a user would type it again.
      if (!/index\.lock|cannot lock ref/.test(String((error as { stderr?: unknown }).stderr))) throw error;
      log.push("the user's git found a lock");
    }
  };

  const begun = await Promise.all(
    [1, 2].map(async (number) => {
      const own = [`t${number}-1`, `t${number}-2`];
      const work = own.map((word) => `sed -i '${1 + random.below(12)}i ${word}' ${random.pick(files)}`).join("; ");
      const rounds = Array.from({ length: 4 }, () => [shell(solve), { text: "Solved." }]).flat();
      const turns = [shell(`sleep 0.${random.below(5)}; ${work}; echo t${number} > new-t${number}`), { text: "Done." }];
      const checks = [`sleep 0.${random.below(3)}; ! grep -qE '^(<<<<<<<|>>>>>>>)' ${files.join(" ")}`];
      const taskID = await createTask(url, root, { ...lab.request([...turns, ...rounds]), checks });
      return { taskID, own, name: `new-t${number}` };
    }),
  );
  const over = new AbortController();
  const ends = Promise.all(begun.map(({ taskID }) => settledTask(url, taskID, 60_000))).finally(() => over.abort());
  // It rests in the end, so that following it is not what is tried here.
  for (let acts = 0; !over.signal.aborted && acts < 25; acts += 1) {
    userDoes();
    await wait(20 + random.below(180));
  }

  const outcomes: string[] = [];
  for (const [at, status] of (await ends).entries()) {
    const { taskID, own, name } = begun[at] ?? { taskID: "", own: [], name: "" };
    const facts = (await logOf(url, taskID)).map((frame) => frame.type);
    const story = `seed ${seed}, ${taskID}: ${status.error ?? "completed"}\n${log.join("\n")}\n${facts.join(" ")}`;
    const landed = status.lifecycleStatus === "completed";
    if (!landed) expect(status.errorInfo?.code, story).toMatch(/^landing_(conflict|entangled|dirty)$/);
    // In the commit, not on disk: a file that the user saves while it lands stays the user's.
    for (const word of [...own, name.slice(4)]) {
      const found = landed ? grep(root, word, String(status.git.landedCommit)) : grep(root, "--untracked", word);
      expect(found, `${word}; ${story}`).toBe(landed);
    }
    outcomes.push(landed ? "landed" : (status.errorInfo?.code ?? ""));
    for (const [word, path] of words)
      expect(existsSync(join(root, path)) && textOf(path).split("\n").includes(word), `${word}; ${story}`).toBe(true);
    const patches = git(root, "log", "--author=Sortie", "--format=", "-p", "main");
    expect(patches.match(/^\+(u\d+|own\d+)$/gm), story).toBeNull();
    expect(git(root, "rev-list", "--merges", "main"), story).toBe("");
  }
  git(root, "fsck", "--strict", "--no-dangling");
  return outcomes;
};

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
const runs = Number(process.env["TEST_RUNS"] ?? (night ? 30 : 2));

test("two Tasks and a user at work: no word lost, none of the user's in a Task's commit, each Task lands or says why", {
  timeout: night ? 900_000 : 90_000,
}, async () => {
  await using lab = await makeLab();
  await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  console.log(`landings over HTTP: TEST_SEED=${seed} TEST_RUNS=${runs}`);
  const told: Record<string, number> = {};
  for (let run = 0; run < runs; run += 1)
    for (const outcome of await history({ url: service.url, lab }, seed + run * 7919))
      told[outcome] = (told[outcome] ?? 0) + 1;
  console.log(`landings over HTTP: ${JSON.stringify(told)}`);
  expect((await send(service.url, "/health")).status).toBe(200);
  // Landing is what usually happens.
  expect(told["landed"] ?? 0).toBeGreaterThanOrEqual(runs);
});
