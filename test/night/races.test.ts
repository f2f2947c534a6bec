import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { createFiles, type Files } from "../../src/workspace/file/files.ts";
import { temporary } from "../harness/project.ts";

/**
 * T8: four operations against a racer that swaps a folder for a link out of the project, thirty thousand times each.
 * What a lexical check lets through in the same time is the control.
 */

const seconds = 5;

const racer = `
const { workerData } = require("node:worker_threads");
const fs = require("node:fs");
const { root, target, until } = workerData;
const quietly = (work) => { try { work(); } catch {} };
while (Date.now() < until) {
  quietly(() => fs.rmSync(root + "/real", { recursive: true, force: true }));
  quietly(() => fs.renameSync(root + "/race", root + "/real"));
  quietly(() => fs.symlinkSync(target, root + "/race"));
  quietly(() => fs.unlinkSync(root + "/race"));
  quietly(() => fs.renameSync(root + "/real", root + "/race"));
}`;

type Place = { root: string; target: string; files: Files };

/** What got out, by us and by somebody who compares words; the outside is made whole again after each. */
const operations: Record<string, { ours(place: Place): Promise<boolean>; lexical(place: Place): boolean }> = {
  read: {
    async ours({ files }) {
      const got = await files.read("race/file", 100).catch(() => undefined);
      return got?.bytes.toString() === "outside";
    },
    lexical: ({ root }) => readFileSync(join(root, "race/file"), "utf8") === "outside",
  },
  write: {
    async ours({ files, target }) {
      await files.write("race/file", "mine").catch(() => undefined);
      const names = readdirSync(target);
      return (
        names.some((name) => name.startsWith(".sortie")) || readFileSync(join(target, "file"), "utf8") !== "outside"
      );
    },
    lexical({ root, target }) {
      writeFileSync(join(root, "race/file.tmp"), "plain");
      renameSync(join(root, "race/file.tmp"), join(root, "race/file"));
      return readFileSync(join(target, "file"), "utf8") !== "outside";
    },
  },
  list: {
    async ours({ files }) {
      const found = await files.list("race").catch(() => undefined);
      return found?.entries.some(({ path }) => path.endsWith("only-outside")) ?? false;
    },
    lexical: ({ root }) => readdirSync(join(root, "race")).includes("only-outside"),
  },
  remove: {
    async ours({ files, target }) {
      await files.remove("race/only-outside").catch(() => undefined);
      return !existsSync(join(target, "only-outside"));
    },
    lexical({ root, target }) {
      renameSync(join(root, "race/only-outside"), join(root, "gone"));
      return !existsSync(join(target, "only-outside"));
    },
  },
};

describe.runIf(process.platform === "linux")("T8 path races", () => {
  test.each(Object.keys(operations))(
    "%s",
    async (name) => {
      using folder = temporary("sortie-race-");
      const [root, target] = [join(folder.path, "root"), join(folder.path, "target")];
      mkdirSync(join(root, "race"), { recursive: true });
      mkdirSync(target);
      const mend = () => {
        writeFileSync(join(target, "file"), "outside");
        writeFileSync(join(target, "only-outside"), "outside");
      };
      mend();
      const place = { root, target, files: createFiles(root) };
      const operation = operations[name];
      if (operation === undefined) throw new Error(name);
      const worker = new Worker(racer, { eval: true, workerData: { root, target, until: Date.now() + 600_000 } });
      await new Promise((online) => worker.once("online", online));
      let [tries, leaks, lexical, looks] = [0, 0, 0, 0];
      const begun = Date.now();
      // Both halves: five seconds, thirty thousand tries, and a control that has leaked; five minutes at most.
      while (Date.now() - begun < 300_000 && (Date.now() - begun < seconds * 1000 || tries < 30_000 || lexical === 0)) {
        // Several at once: a write waits for the disk most of its time.
        const out = await Promise.all(Array.from({ length: 16 }, () => operation.ours(place)));
        tries += out.length;
        if (out.includes(true)) {
          leaks += 1;
          mend();
        }
        try {
          if (operation.lexical(place)) {
            lexical += 1;
            mend();
          }
        } catch {
          mend();
        }
        looks += 1;
      }
      await worker.terminate();
      console.log(`T8 ${name}: ${tries} tries, ${leaks} leaks; a lexical check leaked ${lexical} of ${looks}`);
      expect(leaks).toBe(0);
      expect(tries).toBeGreaterThanOrEqual(30_000);
      expect(lexical).toBeGreaterThan(0);
    },
    400_000,
  );
});
