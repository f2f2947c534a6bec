import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Git } from "../../../src/workspace/git/git.ts";
import { setRef } from "../../../src/workspace/object/ref.ts";
import { git } from "../../harness/project.ts";
import {
  blob,
  commitOf,
  deltaOf,
  type Entry,
  entryOf,
  idOf,
  insertion,
  type Made,
  packed,
  packOf,
  treeOf,
} from "./hand-made.ts";
import { brokenPacks, honestPack, honestTree, otherFiles } from "./hostile-pack.ts";
import { asFile, entries, harmless, kindsOfTree, settings, type Shape } from "./hostile-tree.ts";
import { beside, type Given, given, type Ids, type Lab, makeLab, plainly, topOf } from "./lab.ts";
import { night } from "../../harness/night.ts";

/**
 * Trees and packs that no honest git makes, as an agent may leave them for the service: what is refused leaves nothing
 * in the project, and what is taken is sound. The control of each: git without the check takes it, and shows what it
 * is.
 */

/** A thousand million files in ten trees of ten entries each. */
const bomb = (ids: Ids, [mode, , id]: Entry): Given => {
  const levels: Made[] = [];
  let below: [string, string] = [mode, id];
  for (let level = 0; level < 9; level += 1) {
    levels.push(treeOf(Array.from({ length: 10 }, (_, at): Entry => [below[0], `n${at}`, below[1]])));
    below = ["40000", idOf(levels.at(-1) ?? harmless)];
  }
  return given(topOf(ids, [["40000", "bomb", below[1]]]), ...levels);
};

describe("what is refused", () => {
  let lab: Lab;
  beforeAll(() => {
    lab = makeLab();
  });
  afterAll(() => {
    expect(lab.fsck()).toBe("");
    lab[Symbol.dispose]();
  });

  const refuse = async (tree: string, pack: Buffer | ((path: string) => unknown), says: RegExp) => {
    const file = lab.fresh("pack");
    if (typeof pack === "function") await pack(file);
    else writeFileSync(file, pack);
    const before = lab.stored();
    await expect(lab.take(tree, file)).rejects.toThrow(says);
    expect(lab.stored()).toEqual(before);
    return file;
  };
  // What git does without the check is looked at for each third by day.
  const looked = (shapes: readonly Shape[]) => shapes.map((shape, at) => ({ shape, control: night || at % 3 === 0 }));

  describe.each([
    { kind: "an entry", shapes: entries },
    { kind: "settings of the service", shapes: settings },
    { kind: "in the place of the tree", shapes: kindsOfTree },
  ])("$kind", ({ shapes }) => {
    test.each(looked(shapes))("$shape.0", async ({ shape: [, make, says, plain], control }) => {
      const { tree, pack } = make(lab.ids);
      await refuse(tree, pack, says);
      if (control) expect(plainly(lab, { tree, pack })).toMatch(plain);
    });
  });

  test.each(brokenPacks)("a pack with %s", async (_name, make, says) => {
    await refuse(honestTree(lab.ids), make(lab.ids), says);
  });

  test.each(otherFiles)("in the place of the pack: %s", async (_name, make, says, plain) => {
    const begun = performance.now();
    const path = await refuse(honestTree(lab.ids), (at) => make(at, honestPack(lab.ids)), says);
    expect(performance.now() - begun).toBeLessThan(5000);
    // Control: what a program gets that just opens the path.
    const script = `head -c 4 <"$0" | tr '\\0' 0; [ "\${PIPESTATUS[0]}" = 0 ] || echo refused`;
    // Ended with all that it has started, which would wait for ever.
    const bound = ["-s", "KILL", plain === "waits" ? "0.5" : "10"];
    const { stdout, status, signal } = spawnSync("timeout", [...bound, "bash", "-c", script, path], {
      encoding: "utf8",
    });
    expect(status === 137 || signal === "SIGKILL" ? "waits" : stdout.trim()).toBe(plain);
  });

  test("a thousand million files in ten trees: at once, and without a walk", async () => {
    const made = bomb(lab.ids, ["100644", "x", lab.ids.a]);
    await refuse(made.tree, made.pack, /at most 2000000 paths/);
    // Control: git begins to list them all, and has them in memory before it writes the first.
    const run = beside(lab, made, 32 * 1024);
    expect(run(["diff-tree", "-r", lab.base.tree, made.tree])).toMatch(/out of memory/i);
  });

  test.runIf(night)("more folders in each other than a path can name", async () => {
    const chain = [treeOf([["100644", "x", lab.ids.a]])];
    for (let depth = 0; depth < 3000; depth += 1) chain.push(treeOf([["40000", "n", idOf(chain.at(-1) ?? harmless)]]));
    const { tree, pack } = given(chain.at(-1) ?? harmless, ...chain.slice(0, -1));
    await refuse(tree, pack, /at most 2048 folders|tree depth/);
    expect(plainly(lab, { tree, pack })).toMatch(/(n\/){2500}|tree depth/);
  });

  test.runIf(night)("trees that git keeps in memory until it has all", async () => {
    // 1.2 GB of them in one MB.
    const trees = Array.from({ length: 12 }, (_, at): Made => ({ type: "tree", body: Buffer.alloc(100e6, at + 1) }));
    await refuse(honestTree(lab.ids), packOf(trees.map(entryOf)), /out of memory/i);
  });
});

describe("what is taken", () => {
  const take = async (lab: Lab, { tree, pack }: Given, more: Parameters<Lab["take"]>[2] = {}) => {
    const file = lab.fresh("pack");
    writeFileSync(file, pack);
    const taken = await lab.take(tree, file, more);
    const refs = { commonDir: join(lab.project, ".git"), git: lab.objects };
    return { ...taken, setRef: () => setRef(refs, "refs/heads/taken", taken.commit) };
  };
  const land = async (lab: Lab, made: Given, more: Parameters<Lab["take"]>[2] = {}) => {
    const taken = await take(lab, made, more);
    await taken.setRef();
    await taken.confirm();
    return taken;
  };
  const work = ({ ids }: Lab) => given(topOf(ids, [["100644", "new.txt", asFile]]), harmless);
  const sound = (lab: Lab) => {
    expect(lab.fsck()).toBe("");
    expect(readdirSync(join(lab.project, ".git/objects")).filter((name) => name.startsWith("tmp_"))).toEqual([]);
  };
  const show = (lab: Lab) => git(lab.project, "show", "taken:new.txt");

  test("a tree, whatever stands behind its pack, was left before it, or is a history of its own", async () => {
    using lab = makeLab();
    const left = join(lab.project, ".git/objects/tmp_objdir-sortie-task_1/ab");
    mkdirSync(left, { recursive: true });
    writeFileSync(join(left, "c".repeat(38)), "half an object");
    const root = topOf(lab.ids, [["100644", "new.txt", asFile]]);
    const own = commitOf(idOf(root), [lab.base.commit, lab.ids.before], "a history of its own");
    const pack = Buffer.concat([packed(root, harmless, own), Buffer.from("and more")]);
    const taken = await land(lab, { tree: idOf(root), pack });
    expect(taken).toMatchObject({ files: 1, insertions: 1, deletions: 0, parent: lab.base.commit });
    expect(git(lab.project, "log", "--format=%P %an %s", "-1", "taken")).toBe(`${lab.base.commit} Sortie work`);
    // Control: its own commit has a second parent.
    expect(git(lab.project, "log", "--format=%P", "-1", idOf(own)).split(" ")).toHaveLength(2);
    sound(lab);
  });

  test("a difference to a file of the project's", async () => {
    using lab = makeLab();
    const root = topOf(lab.ids, [["100644", "new.txt", asFile]]);
    const text = harmless.body.toString();
    await land(lab, {
      tree: idOf(root),
      pack: packOf([entryOf(root), deltaOf(lab.ids.a, insertion(2, text.length, text))]),
    });
    expect(show(lab)).toBe("harmless");
    sound(lab);
  });

  test("an empty folder, for which git has no file", async () => {
    using lab = makeLab();
    const empty = treeOf([]);
    expect((await land(lab, given(topOf(lab.ids, [["40000", "e", idOf(empty)]]), empty))).files).toBe(0);
    sound(lab);
  });

  test.runIf(night)("a file of more bytes than git may have in memory, in a pack of one MB", async () => {
    using lab = makeLab();
    const large = blob(Buffer.alloc(1.2e9));
    const made = given(topOf(lab.ids, [["100644", "large", idOf(large)]]), large);
    expect(await land(lab, made)).toMatchObject({ files: 1, insertions: 0 });
    // Control: git that has a file in memory to look at it.
    const run = beside(lab, { pack: packed() });
    expect(run(["-c", "core.bigFileThreshold=4g", "unpack-objects", "-q"], made.pack)).toMatch(/out of memory/i);
  });

  /** Collects garbage as the user may at any moment, right behind a call of the service's. */
  const collecting = (lab: Lab, after: string, times: number): Git => {
    let left = times;
    return {
      ...lab.objects,
      async run(args, options) {
        const result = await lab.objects.run(args, options);
        if (args.includes(after) && (left -= 1) >= 0) git(lab.project, "prune", "--expire=now");
        return result;
      },
    };
  };

  test.each(["unpack-objects", "diff-tree"])("git prune behind %s takes the objects: begun again", async (after) => {
    using lab = makeLab();
    await land(lab, work(lab), { git: collecting(lab, after, 1) });
    expect(show(lab)).toBe("harmless");
    sound(lab);
    // Control: it took them. Who collects each time has the last word, and nothing half is left.
    using again = makeLab();
    await expect(take(again, work(again), { git: collecting(again, after, 9) })).rejects.toThrow();
    sound(again);
  });

  test("objects that are gone before the ref holds them are put there again", async () => {
    using lab = makeLab();
    const taken = await take(lab, work(lab));
    const paths = [taken.commit, taken.tree, asFile].map((id) =>
      join(lab.project, ".git/objects", id.slice(0, 2), id.slice(2)),
    );
    for (const path of paths) rmSync(path);
    await taken.setRef();
    // Control: the branch leads to nothing.
    expect(lab.fsck()).not.toBe("");
    await taken.confirm();
    expect(show(lab)).toBe("harmless");
    sound(lab);
  });

  const lost: [name: string, lose: (lab: Lab) => void, before?: (lab: Lab) => void][] = [
    ["git prune, with the folder that has them", (lab) => git(lab.project, "prune", "--expire=now")],
    [
      "a file's bytes that the project had before, held by nothing",
      (lab) => rmSync(join(lab.project, ".git/objects", asFile.slice(0, 2), asFile.slice(2))),
      (lab) => {
        writeFileSync(lab.at("harmless"), harmless.body);
        git(lab.project, "hash-object", "-w", lab.at("harmless"));
      },
    ],
  ];
  test.each(lost)(
    "taken before the ref holds them: %s. It is said, and the next time is whole",
    async (_name, lose, before) => {
      using lab = makeLab();
      before?.(lab);
      const taken = await take(lab, work(lab));
      lose(lab);
      await taken.setRef();
      // Control: the branch leads to nothing, or to a tree without a file.
      expect(lab.fsck()).not.toBe("");
      await expect(taken.confirm()).rejects.toMatchObject({ name: "GitError", exitCode: expect.any(Number) as number });
      await land(lab, work(lab));
      expect(show(lab)).toBe("harmless");
      sound(lab);
    },
  );
});
