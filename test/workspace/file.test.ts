import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Worker } from "node:worker_threads";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createFiles, decodePath, encodePath, FileRefused, type Files } from "../../src/workspace/file/files.ts";

let base: string;
let root: string;
let files: Files;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "sortie-files-")));
  root = join(base, "project");
  mkdirSync(join(root, "src"), { recursive: true });
  writeFileSync(join(root, "src/a.txt"), "a\n");
  writeFileSync(join(base, "outside.txt"), "secret\n");
  files = createFiles(root);
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

const refusal = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  return error instanceof FileRefused ? error.kind : error;
};

describe("names", () => {
  test("any bytes come back as they were, each name as one string", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        expect(encodePath(decodePath(Buffer.from(bytes)))).toEqual(Buffer.from(bytes));
      }),
      { numRuns: 3000 },
    );
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => decodePath(encodePath(text)) === text));
  });

  test("bytes that are not UTF-8 stand as lone surrogates", () => {
    const bytes = Buffer.from([0x61, 0xff, 0xc3, 0xa4, 0xed, 0xb2, 0x80, 0xc3]);
    expect(decodePath(bytes)).toBe("a\udcffä\udced\udcb2\udc80\udcc3");
    expect(() => encodePath("\ud800")).toThrow("got U+D800");
  });

  test.each([
    "with space",
    "with 'quotes' \"both\"",
    "new\nline",
    "tab\t\\back",
    "é😀",
    "-rf",
    "\udcff\udc80.txt",
    " ",
  ])("%j is written, listed, read and removed", async (name) => {
    expect(await files.write(`d/${name}`, "text")).toEqual({ created: true });
    const there = readdirSync(join(root, "d"), { encoding: "buffer" }).map((entry) => entry.toString("hex"));
    expect(there).toEqual([encodePath(name).toString("hex")]);
    expect(await files.list("d")).toMatchObject({
      entries: [{ path: `d/${name}`, kind: "file", bytes: 4 }],
      truncated: false,
    });
    expect((await files.read(`d/${name}`, 10)).bytes.toString()).toBe("text");
    await files.remove(`d/${name}`);
    expect(readdirSync(join(root, "d"))).toEqual([]);
  });
});

describe("read", () => {
  test("gives the bytes and the executable bit", async () => {
    expect(await files.read("src/a.txt", 100)).toEqual({ bytes: Buffer.from("a\n"), executable: false });
    chmodSync(join(root, "src/a.txt"), 0o755);
    expect(await files.read("./src//a.txt", 2)).toEqual({ bytes: Buffer.from("a\n"), executable: true });
    expect((await files.read(join(root, "src/a.txt"), 2)).bytes.toString()).toBe("a\n");
  });

  test("follows links inside the project, none that lead out", async () => {
    symlinkSync("a.txt", join(root, "src/inside"));
    symlinkSync("src", join(root, "folder"));
    symlinkSync("../outside.txt", join(root, "out"));
    symlinkSync("..", join(root, "up"));
    symlinkSync("nowhere", join(root, "dangling"));
    symlinkSync("loop", join(root, "loop"));
    expect((await files.read("src/inside", 10)).bytes.toString()).toBe("a\n");
    expect((await files.read("folder/a.txt", 10)).bytes.toString()).toBe("a\n");
    // Control: the plain call reads it.
    expect(readFileSync(join(root, "up/outside.txt"), "utf8")).toBe("secret\n");
    for (const path of ["out", "up/outside.txt", "dangling", "loop"])
      expect(await refusal(files.read(path, 10)), path).toBe("outside");
  });

  test("refuses what is no regular file, without waiting for it", async () => {
    execFileSync("mkfifo", [join(root, "fifo")]);
    const server = createServer().listen(join(root, "socket"));
    await new Promise((listening) => server.once("listening", listening));
    symlinkSync("/dev/zero", join(root, "zero"));
    expect(await refusal(files.read("fifo", 10))).toBe("not-a-file");
    expect(await refusal(files.read("socket", 10))).toBe("not-a-file");
    expect(await refusal(files.read("zero", 10))).toBe("outside");
    expect(await refusal(files.read("src", 10))).toBe("not-a-file");
    expect(await refusal(files.read("", 10))).toBe("not-a-file");
    expect(await refusal(files.read("src/a.txt/b", 10))).toBe("missing");
    expect(await refusal(files.read("src/b.txt", 10))).toBe("missing");
    expect(await refusal(files.read("src/a.txt", 1))).toBe("too-big");
    await new Promise((closed) => server.close(closed));
  });
});

describe("confinement", () => {
  test.each([
    ["../outside.txt", "outside"],
    ["src/../../outside.txt", "outside"],
    ["/etc/passwd", "outside"],
    ["a\0b", "outside"],
    [".git/config", "protected"],
    [".GIT/config", "protected"],
    ["sub/.git/hooks/post-checkout", "protected"],
    ["git~1/config", "protected"],
    [".git./config", "protected"],
    [".git", "protected"],
    [".env", "protected"],
    ["config/.env.local", "protected"],
    ["server.pem", "protected"],
    ["id_ed25519", "protected"],
    ["tls.key", "protected"],
  ])("%j is refused to every operation", async (path, kind) => {
    expect(await refusal(files.read(path, 10))).toBe(kind);
    expect(await refusal(files.write(path, "x"))).toBe(kind);
    expect(await refusal(files.remove(path))).toBe(kind);
    expect(readdirSync(root)).toEqual(["src"]);
  });

  test("a link does not lead to a protected name either", async () => {
    mkdirSync(join(root, ".git"));
    writeFileSync(join(root, ".git/config"), "[core]");
    writeFileSync(join(root, ".env"), "KEY=1");
    symlinkSync(".git", join(root, "g"));
    symlinkSync(".env", join(root, "e"));
    expect(await refusal(files.read("g/config", 10))).toBe("protected");
    expect(await refusal(files.read("e", 10))).toBe("protected");
    expect(await refusal(files.write("g/config", "x"))).toBe("linked");
    expect((await files.list("", { depth: 3 })).entries.map((entry) => entry.path)).not.toContain(".git/config");
  });

  test("an operator may allow secrets; .git stays closed; .env.example is open", async () => {
    const open = createFiles(root, () => false);
    await open.write(".env", "A=1");
    expect((await open.read(".env", 10)).bytes.toString()).toBe("A=1");
    expect(await refusal(open.write(".git/config", "x"))).toBe("protected");
    expect(await files.write(".env.example", "A=")).toEqual({ created: true });
  });
});

describe("write", () => {
  test("makes folders, replaces in one step, keeps the mode", async () => {
    expect(await files.write("x/y/z.sh", "1", { executable: true })).toEqual({ created: true });
    expect(statSync(join(root, "x/y/z.sh")).mode & 0o111).not.toBe(0);
    chmodSync(join(root, "x/y/z.sh"), 0o750);
    const before = statSync(join(root, "x/y/z.sh")).ino;
    expect(await files.write("x/y/z.sh", Buffer.from("22"))).toEqual({ created: false });
    const after = statSync(join(root, "x/y/z.sh"));
    expect({ mode: after.mode & 0o777, same: after.ino === before }).toEqual({ mode: 0o750, same: false });
    await files.write("x/y/z.sh", "3", { executable: false });
    expect(statSync(join(root, "x/y/z.sh")).mode & 0o777).toBe(0o640);
    expect(readdirSync(join(root, "x/y"))).toEqual(["z.sh"]);
  });

  test("goes through no link, hard link, FIFO or folder, and leaves nothing", async () => {
    symlinkSync("../outside.txt", join(root, "out"));
    symlinkSync("..", join(root, "up"));
    symlinkSync("src", join(root, "folder"));
    linkSync(join(base, "outside.txt"), join(root, "hard"));
    execFileSync("mkfifo", [join(root, "fifo")]);
    const before = readdirSync(root);
    expect(await refusal(files.write("out", "x"))).toBe("linked");
    expect(await refusal(files.write("up/new.txt", "x"))).toBe("linked");
    expect(await refusal(files.write("folder/a.txt", "x"))).toBe("linked");
    expect(await refusal(files.write("hard", "x"))).toBe("linked");
    expect(await refusal(files.write("fifo", "x"))).toBe("not-a-file");
    expect(await refusal(files.write("src", "x"))).toBe("not-a-file");
    expect(await refusal(files.write("src/a.txt/b", "x"))).toBe("not-a-file");
    expect(await refusal(files.write("", "x"))).toBe("not-a-file");
    expect(readdirSync(root)).toEqual(before);
    expect(readFileSync(join(base, "outside.txt"), "utf8")).toBe("secret\n");
    expect(readdirSync(base).sort()).toEqual(["outside.txt", "project"]);
  });
});

describe("remove and list", () => {
  test("remove takes a file, a link itself, an empty folder", async () => {
    symlinkSync("../../outside.txt", join(root, "src/out"));
    await files.remove("src/out");
    expect(readFileSync(join(base, "outside.txt"), "utf8")).toBe("secret\n");
    expect(await refusal(files.remove("src"))).toBe("not-a-file");
    await files.remove("src/a.txt");
    await files.remove("src");
    expect(await refusal(files.remove("src"))).toBe("missing");
    expect(await refusal(files.remove("."))).toBe("not-a-file");
  });

  test("list names kinds and sizes, in order, to a depth and a limit, through no link", async () => {
    symlinkSync("..", join(root, "up"));
    await files.write("src/deep/b.txt", "bb");
    const names = async (depth: number, limit = 100) =>
      (await files.list("", { depth, limit })).entries.map((entry) => `${entry.kind} ${entry.path} ${entry.bytes}`);
    expect(await names(1)).toEqual(["directory src 0", "link up 0"]);
    expect(await names(3)).toEqual([
      "directory src 0",
      "file src/a.txt 2",
      "directory src/deep 0",
      "file src/deep/b.txt 2",
      "link up 0",
    ]);
    expect(await files.list("src", { limit: 1 })).toMatchObject({
      entries: [{ path: "src/a.txt", kind: "file", bytes: 2 }],
      truncated: true,
    });
    expect(await refusal(files.list("up"))).toBe("linked");
    expect(await refusal(files.list("nowhere"))).toBe("missing");
    expect(await refusal(files.list("src/a.txt"))).toBe("not-a-file");
  });
});

describe.runIf(process.platform === "linux")(
  "T8 against a racer that swaps a folder for a link out of the project",
  () => {
    // A write may make the folder anew while it is away, so any of these may fail; the next round clears it up.
    const racer = `
    const { workerData } = require("node:worker_threads");
    const fs = require("node:fs");
    const { root, base, until } = workerData;
    const quietly = (work) => { try { work(); } catch {} };
    while (Date.now() < until) {
      quietly(() => fs.rmSync(root + "/real", { recursive: true, force: true }));
      quietly(() => fs.renameSync(root + "/race", root + "/real"));
      quietly(() => fs.symlinkSync(base + "/target", root + "/race"));
      quietly(() => fs.unlinkSync(root + "/race"));
      quietly(() => fs.renameSync(root + "/real", root + "/race"));
    }`;

    /** Until the control has leaked: on a busy machine the racer may get no chance in one round. Six rounds at most. */
    const race = async (leaked: () => boolean, attempt: () => Promise<void>) => {
      for (let round = 0; round < 6 && !leaked(); round += 1) {
        const worker = new Worker(racer, { eval: true, workerData: { root, base, until: Date.now() + 2000 } });
        const failed = new Promise((_, reject) => worker.once("error", reject));
        await Promise.race([new Promise((online) => worker.once("online", online)), failed]);
        const end = Date.now() + 600;
        while (Date.now() < end) await Promise.race([attempt(), failed]);
        await worker.terminate();
      }
    };

    beforeEach(() => {
      mkdirSync(join(root, "race"));
      mkdirSync(join(base, "target"));
      writeFileSync(join(root, "race/file"), "inside");
      writeFileSync(join(base, "target/file"), "leaked");
    });

    test("reads leak nothing; a lexical check does", async () => {
      let [ours, lexical, tries] = [0, 0, 0];
      await race(
        () => lexical > 0,
        async () => {
          tries += 1;
          const got = await files.read("race/file", 100).catch(() => undefined);
          if (got?.bytes.toString() === "leaked") ours += 1;
          try {
            if (
              resolve(root, "race/file").startsWith(root) &&
              readFileSync(join(root, "race/file"), "utf8") === "leaked"
            )
              lexical += 1;
          } catch {}
        },
      );
      expect(tries).toBeGreaterThan(100);
      expect(lexical).toBeGreaterThan(0);
      expect(ours).toBe(0);
    });

    test("writes land inside only; a lexical check lets them out", async () => {
      let [ours, lexical] = [0, 0];
      await race(
        () => lexical > 0,
        async () => {
          await files.write("race/file", "mine").catch(() => undefined);
          if (readFileSync(join(base, "target/file"), "utf8") === "mine") ours += 1;
          try {
            const temp = join(root, "race/file.tmp");
            writeFileSync(temp, "plain");
            renameSync(temp, join(root, "race/file"));
            if (lstatSync(join(base, "target/file")).size === 5) lexical += 1;
          } catch {}
          writeFileSync(join(base, "target/file"), "leaked");
        },
      );
      expect(ours).toBe(0);
      expect(lexical).toBeGreaterThan(0);
    });
  },
);
