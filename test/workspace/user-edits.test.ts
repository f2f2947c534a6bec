import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Prepared, Workspace } from "../../src/workspace/workspace.ts";
import type { Commit } from "../../src/workspace/object/commit.ts";
import { seededRandom } from "../harness/random.ts";
import { createScene, fsck } from "./fixture.ts";
import { night } from "../harness/night.ts";

/**
 * Several Tasks and a user at one project, their steps in a random order. Every line anybody writes is a word of its
 * own (u1, t2-3), so that what became of it can be told: a user's word stands in the files until the user takes it out;
 * a Task's word lands as a whole Task or not at all. Few histories by day, 50 at night; the seed is printed and can be
 * given again.
 */

const lines = 12;

/** The project's side of each conflict, and of the Task's what it added. */
const solve = (text: string): string =>
  text.replace(
    /^<{7}[^\n]*\n([^]*?)^\|{7}[^\n]*\n([^]*?)^={7}\n([^]*?)^>{7}[^\n]*\n?/gm,
    (_, ours: string, base: string, theirs: string) => {
      const before = new Set(base.split("\n"));
      return (
        ours +
        theirs
          .split("\n")
          .filter((line) => line !== "" && !before.has(line))
          .map((line) => `${line}\n`)
          .join("")
      );
    },
  );

type Outcome = { landed: number; told: Record<string, number>; merged: number; kept: number };

/** One random history; throws where something does not hold. `steps` is what happened, for the message. */
const interleave = async (seed: number, tasks: number): Promise<Outcome> => {
  await using scene = createScene();
  const random = seededRandom(seed);
  const { root, sh } = scene;
  const files = ["a", "b", "dir/c"];
  sh(
    `git init -q; mkdir dir; for f in ${files.join(" ")}; do for i in $(seq ${lines}); do echo "$f line $i"; done > $f; done; git add .; git commit -qm first`,
  );
  const log: string[] = [];
  const words = new Map<string, string>();
  let count = 0;
  const outcome: Outcome = { landed: 0, told: {}, merged: 0, kept: 0 };
  /**
   * Saved by the user during a landing, so kept as they were and told: a later `git add` of them is the user's own
   * word.
   */
  const kept = new Set<string>();

  const textOf = (path: string) => readFileSync(join(root, path), "utf8");
  const insert = (text: string, word: string): string => {
    const all = text.split("\n");
    all.splice(random.below(all.length), 0, word);
    return all.join("\n");
  };

  /** What a user does, in no more than one command. */
  const userDoes = (onlyFiles = false): void => {
    const act = onlyFiles ? 0 : random.below(9);
    const path = random.pick(files);
    const say = (what: string) => void log.push(`user ${what}`);
    const known = existsSync(join(root, path));
    if (act <= 2 && known) {
      const word = `u${(count += 1)}`;
      writeFileSync(join(root, path), insert(textOf(path), word));
      words.set(word, path);
      return say(`${word} into ${path}`);
    }
    if (act === 3 && known) {
      sh(`git add ${path}`);
      return say(`add ${path}`);
    }
    if (act === 4) {
      sh("git commit -q --allow-empty -am user");
      return say("commit -a");
    }
    if (act === 5) {
      sh("git commit -q --allow-empty -m staged");
      return say("commit");
    }
    if (act === 6 && sh("git log -1 --format=%an").trim() === "User") {
      sh("git commit -q --amend --allow-empty --no-edit -a");
      return say("amend -a");
    }
    if (act === 7) {
      const own = `own${(count += 1)}`;
      writeFileSync(join(root, own), `${own}\n`);
      words.set(own, own);
      return say(`new ${own}`);
    }
    const mine = [...words].filter(([, at]) => at === path);
    if (act === 8 && mine.length > 0) {
      const [word] = random.pick(mine);
      writeFileSync(
        join(root, path),
        textOf(path)
          .split("\n")
          .filter((line) => line !== word)
          .join("\n"),
      );
      words.delete(word);
      return say(`takes ${word} out of ${path}`);
    }
  };

  /** A user who saves a file in the middle of a landing. */
  let busy = false;
  const workspaces = scene.service({
    onStep: () => {
      if (!busy && random.below(12) === 0) {
        busy = true;
        userDoes(true);
        busy = false;
      }
    },
  });

  /** Words of a Task in a file that the user saved while it landed: it stays the user's, and `kept` names it. */
  const excused = new Set<string>();
  const holds = (): void => {
    const story = () => `seed ${seed}:\n${log.join("\n")}`;
    for (const [word, path] of words)
      expect(
        existsSync(join(root, path)) && textOf(path).split("\n").includes(word),
        `${word} in ${path}; ${story()}`,
      ).toBe(true);
    const [merges = "", bodies = "", patches = "", cached = "", left = ""] = sh(`git rev-list --merges main; echo ==
      git log --author=Sortie --format=%B%x00 main; echo ==
      git log --author=Sortie --format= -p main | grep -E '^[+](u[0-9]|own)' || true; echo ==
      git diff --cached -- . ${[...kept].map((path) => `':(exclude)${path}'`).join(" ")} | grep -E '^-t[0-9]' || true; echo ==
      find .git -maxdepth 1 \\( -name '*sortie*' -o -name '*.lock' \\)`).split("==\n");
    const unstaged = cached.split("\n").filter((line) => line !== "" && !excused.has(line.slice(1)));
    expect({ merges, patches, cached: unstaged.join("\n"), left }, story()).toEqual({
      merges: "",
      patches: "",
      cached: "",
      left: "",
    });
    for (const body of bodies.split("\0").slice(0, -1)) expect(body, story()).toMatch(/\nTask: t\d+\n/);
  };

  /** A Task, step by step, as task/step/landing/land.ts takes them; between two steps anything may happen. */
  let turn: number | undefined;
  const mayLand = (number: number) => turn === undefined || turn === number;
  const taskOf = async function* (number: number): AsyncGenerator<string> {
    const taskID = `t${number}`;
    const message = `work of ${taskID}\n\nTask: ${taskID}\nSquad: base@1\n`;
    let place: Prepared;
    let workspace: Workspace = await workspaces.prepare({
      taskID,
      directory: root,
      isolation: "worktree",
      landing: "commit",
    });
    place = workspace.prepared;
    const told = (why: string) => {
      outcome.told[why] = (outcome.told[why] ?? 0) + 1;
      return `${taskID} told ${why}`;
    };
    const made = new Map<string, string>();
    const write = (path: string) => {
      const at = join(workspace.root, path);
      if (!existsSync(at)) return;
      const word = `${taskID}-${(count += 1)}`;
      made.set(word, path);
      writeFileSync(at, insert(readFileSync(at, "utf8"), word));
    };
    yield `${taskID} prepared`;
    for (let at = 0; at <= random.below(2); at += 1) write(random.pick(files));
    if (random.below(2) === 0) writeFileSync(join(workspace.root, `new-${taskID}`), `${taskID}-0\n`);
    let commit: Commit | undefined = await workspace.commit(message);
    yield `${taskID} worked`;
    for (let tries = 0; ; tries += 1) {
      if (commit === undefined) return yield told("nothing to do");
      if (tries > 12) return yield told("too many tries");
      while (!mayLand(number)) yield `${taskID} waits`;
      turn = number;
      const snapped = place.snapshot !== undefined && place.snapshot.head !== place.baseCommit;
      const plan = snapped ? undefined : await workspaces.plan(workspace, commit, place.baseCommit ?? "");
      let dirty: string[] | undefined;
      if (plan !== undefined && !("reason" in plan)) {
        // The landed tree is the one the last check would have seen.
        expect(sh(`git rev-parse ${plan.commit}^{tree}`).trim()).toBe(commit.tree);
        const landed = await workspaces.land(workspace, plan);
        if (landed.ok) {
          outcome.landed += 1;
          outcome.merged += plan.paths.filter((path) => path.merged).length;
          outcome.kept += landed.kept.length;
          for (const path of landed.kept) kept.add(path);
          turn = undefined;
          for (const [word, path] of made) if (landed.kept.includes(path)) excused.add(word);
          for (const word of made.keys())
            expect(sh(`git grep -lw ${word} main || true`), `${word} of seed ${seed}`).not.toBe("");
          return yield `${taskID} landed${landed.kept.length === 0 ? "" : `, kept ${landed.kept.join(" ")}`}`;
        }
        yield `${taskID} withdrawn: ${landed.reason}`;
        continue;
      }
      if (plan === undefined || plan.reason === "moved") {
        const rebased = await workspaces.rebase(workspace, commit, message);
        if (rebased.ok) {
          const { baseCommit, baseTree, commit: id, tree } = rebased;
          const { snapshot } = place;
          place = { ...place, baseCommit, baseTree, ...(snapshot && { snapshot: { ...snapshot, head: baseCommit } }) };
          commit = tree === baseTree ? undefined : { ...commit, commit: id, tree, parent: baseCommit };
          workspace = await workspaces.open(taskID, place, id);
          yield `${taskID} rebased`;
          continue;
        }
        if (rebased.reason === "entangled") {
          turn = undefined;
          return yield told("entangled");
        }
      } else if (plan.reason === "dirty") dirty = plan.paths;
      else {
        turn = undefined;
        return yield told(plan.reason);
      }
      // A round: both sides in the file, an agent takes both.
      const renewed = await workspaces.rebaseWithMarkers(workspace, commit, message, dirty ?? []);
      turn = undefined;
      if (!renewed.ok) return yield told("dirty");
      const { snapshot: _, ...bare } = place;
      place = {
        ...bare,
        baseCommit: renewed.baseCommit,
        baseTree: renewed.baseTree,
        ...(renewed.snapshot && { snapshot: renewed.snapshot }),
      };
      workspace = await workspaces.open(taskID, place, renewed.commit);
      yield `${taskID} given back ${renewed.paths.join(" ")}`;
      for (const path of renewed.paths) {
        const at = join(workspace.root, path);
        if (!existsSync(at)) continue;
        writeFileSync(at, solve(readFileSync(at, "utf8")));
      }
      commit = await workspace.commit(message);
      yield `${taskID} solved`;
    }
  };

  const open = new Map(Array.from({ length: tasks }, (_, at) => [at + 1, taskOf(at + 1)]));
  while (open.size > 0) {
    if (random.below(5) < 2) {
      userDoes();
      continue;
    }
    const number = random.pick([...open.keys()]);
    const { done, value } = (await open.get(number)?.next()) ?? { done: true, value: undefined };
    if (done !== true && value.endsWith("waits")) continue;
    if (done === true) open.delete(number);
    else log.push(value);
    holds();
  }
  expect(fsck(scene)).toBe("");
  sh("git status --porcelain");
  return outcome;
};

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
const runs = Number(process.env["TEST_RUNS"] ?? (night ? 50 : 3));
const tasks = 3;

test("several Tasks and a user at one project: no byte of the user's lost, history linear, the repository sound", async () => {
  console.log(`interleave: TEST_SEED=${seed} TEST_RUNS=${runs}`);
  const sum = { landed: 0, merged: 0, kept: 0 };
  const told: Record<string, number> = {};
  for (let run = 0; run < runs; run += 1) {
    const outcome = await interleave(seed + run * 7919, tasks);
    for (const key of ["landed", "merged", "kept"] as const) sum[key] += outcome[key];
    for (const [why, count] of Object.entries(outcome.told)) told[why] = (told[why] ?? 0) + count;
  }
  console.log(`interleave: ${JSON.stringify({ ...sum, told })}`);
  // Each Task landed or was told why, and landing is what usually happens.
  const refused = Object.values(told).reduce((all, count) => all + count, 0);
  expect(sum.landed + refused).toBe(runs * tasks);
  expect(sum.landed).toBeGreaterThan(refused / 2);
  expect(told["too many tries"]).toBeUndefined();
}, 1_200_000);
