import { afterAll, expect, test } from "vitest";
import { makeToolLab } from "./fixture.ts";

/** What is long comes in pages that fit together: every line once, in order, and the way on in words. */

const lab = makeToolLab();
afterAll(() => lab[Symbol.asyncDispose]());

const lines = (count: number, text: (n: number) => string) =>
  Array.from({ length: count }, (_, at) => `${text(at + 1)}\n`).join("");

test("search: the pages of all matches together are all matches", async () => {
  const { call } = await lab.open({
    "a.txt": lines(250, (n) => `needle ${n}`),
    "b/c.txt": lines(300, (n) => (n % 2 === 0 ? `needle ${n}` : "hay")),
    "d.txt": "no match\n",
  });
  const found: string[] = [];
  let offset = 1;
  for (let page = 0; page < 20; page += 1) {
    const { output } = await call("search", { pattern: "needle", offset, limit: 90 });
    let file = "";
    for (const line of output.split("\n")) {
      const [, number] = /^ {2}(\d+):/.exec(line) ?? [];
      if (number !== undefined) found.push(`${file}:${number}`);
      else if (!line.startsWith("…")) file = line;
    }
    const next = /more: offset (\d+)/.exec(output)?.[1];
    if (next === undefined) break;
    offset = Number(next);
  }
  const all = [
    ...Array.from({ length: 250 }, (_, at) => `a.txt:${at + 1}`),
    ...Array.from({ length: 150 }, (_, at) => `b/c.txt:${2 * at + 2}`),
  ];
  expect(found).toEqual(all);
  expect((await call("search", { pattern: "needle" })).output).toMatch(
    /\n… matches 1 to 200 of 400; more: offset 201, or narrow it with path, glob or type …$/,
  );
  expect((await call("search", { pattern: "needle", offset: 401 })).output).toBe(
    "Expected offset of at most 400, the number of matches, got 401.",
  );
  expect((await call("search", { pattern: "needle", mode: "count" })).output).toBe("250\ta.txt\n150\tb/c.txt");
  expect((await call("search", { pattern: "needle", mode: "files", offset: 2 })).output).toBe(
    "b/c.txt\n… files 2 to 2 of 2 …",
  );
});

test("search: context stands once, belongs to the matches of the page, and globs, types and wide lines are bounded", async () => {
  const { call } = await lab.open({
    "a.py": "1\nx2\n3\n4\n5\nx6\n7\n",
    "a.ts": "x\n",
    ".git/x.ts": "x\n",
    "wide.ts": `${"y".repeat(5000)}zzz\n`,
  });
  expect((await call("search", { pattern: "x", type: "py", context: 1 })).output).toBe(
    "a.py\n  1- 1\n  2: x2\n  3- 3\n  5- 5\n  6: x6\n  7- 7",
  );
  expect((await call("search", { pattern: "x", type: "py", context: 1, offset: 2 })).output).toBe(
    "a.py\n  5- 5\n  6: x6\n  7- 7\n… matches 2 to 2 of 2 …",
  );
  expect((await call("search", { pattern: "x", glob: "!*.py", mode: "files" })).output).toBe("a.ts");
  expect((await call("search", { pattern: "x", glob: "**/.git/**", mode: "files" })).output).toContain(
    "No file fits the glob",
  );
  expect((await call("search", { pattern: "x", type: "nosuch" })).output).toContain("unrecognized file type");
  expect((await call("search", { pattern: "zzz" })).output.length).toBeLessThan(600);
});

test("read: very long lines by column; list: in pages", async () => {
  const line = Array.from({ length: 1500 }, (_, at) => String(at).padStart(4, "0")).join("");
  const files = Object.fromEntries(
    Array.from({ length: 1100 }, (_, at) => [`many/f${String(at).padStart(4, "0")}`, ""]),
  );
  const { call } = await lab.open({ "long.json": line, ...files }, { git: false });
  let read = "";
  let column = 1;
  for (let page = 0; page < 10; page += 1) {
    const { output } = await call("read", { path: "long.json", column });
    const [, text = "", next] = /^1\t(\d*)(?:… \d+ more characters, from column (\d+))?$/.exec(output) ?? [];
    read += text;
    if (next === undefined) break;
    column = Number(next);
  }
  expect(read).toBe(line);
  const listed: string[] = [];
  for (const offset of [1, 501, 1001]) {
    const { output } = await call("list", { path: "many", offset });
    listed.push(...output.split("\n").filter((entry) => !entry.startsWith("…")));
  }
  expect(listed).toEqual(Object.keys(files).map((path) => `${path}  0`));
  expect((await call("list", { path: "many", offset: 1101 })).output).toContain("at most 1100");
});

test("read: what cannot be shown is told by its kind", async () => {
  const png = Buffer.from("89504e470d0a1a0a0000000d4948445200000040000000200806000000", "hex");
  const { call } = await lab.open({
    "a.png": png,
    "a.pdf": "%PDF-1.4 \0",
    "a.zip": Buffer.from("PK\u0003\u0004\0\0"),
    "u.txt": Buffer.from("\uFEFFhello", "utf16le"),
  });
  const outputs = await Promise.all(
    ["a.png", "a.pdf", "a.zip", "u.txt"].map(async (path) => (await call("read", { path })).output),
  );
  expect(outputs).toEqual([
    "a.png is a PNG image of 29 bytes, 64×32 pixels, which cannot be shown to you.",
    "a.pdf is a PDF document of 10 bytes; see it with `shell`: pdftotext, where that is installed.",
    "a.zip is a ZIP archive (or a document or package in that form) of 6 bytes; list it with `shell`.",
    "u.txt is a text in UTF-16 of 12 bytes; see it with `shell`: iconv -f utf16 -t utf8.",
  ]);
  // Whoever runs no commands is told of none.
  const has = (tool: string) => tool !== "shell";
  const alone = ["a.png", "a.pdf", "a.zip", "u.txt"].map(
    async (path) => (await call("read", { path }, { has })).output,
  );
  expect(await Promise.all(alone)).toEqual([
    outputs[0],
    "a.pdf is a PDF document of 10 bytes.",
    "a.zip is a ZIP archive (or a document or package in that form) of 6 bytes.",
    "u.txt is a text in UTF-16 of 12 bytes.",
  ]);
});

test("what helps with a path is told by the tools that the agent has", async () => {
  const { call, context, put } = await lab.open({ "a/b.txt": "x\n" });
  put("big.txt", "x".repeat(17 * 1024 * 1024));
  const dependencies = [{ path: "node_modules", how: "layer" as const }];
  const { prepared } = context.workspace;
  const workspace = { ...context.workspace, dependencies, prepared: { ...prepared, worktree: context.workspace.root } };
  const told = async (...names: string[]) => {
    const more = { has: (tool: string) => names.includes(tool), workspace };
    const calls = [
      call("read", { path: "a" }, more),
      call("read", { path: "big.txt" }, more),
      call("read", { path: "node_modules/x/index.js" }, more),
      call("list", { path: "node_modules" }, more),
      call("search", { path: "node_modules/x", pattern: "y" }, more),
    ];
    return (await Promise.all(calls)).map(({ output }) =>
      [...output.matchAll(/`(list|search|shell)`/g)].map(([, name]) => name),
    );
  };
  const shell = [["shell"], ["shell"], ["shell"]];
  expect(await told("read", "list", "search", "shell")).toEqual([["list"], ["search", "shell"], ...shell]);
  expect(await told("read", "search")).toEqual([[], ["search"], [], [], []]);
  expect(await told("read", "shell")).toEqual([[], ["shell"], ...shell]);
  expect(await told("read")).toEqual([[], [], [], [], []]);
});
