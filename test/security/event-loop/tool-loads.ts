import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { writeFiles } from "../../harness/project.ts";
import { teamOf } from "../../harness/double/squads.ts";
import { linesOf, type Load, mib, nested, projectOf, put, putMany } from "./load.ts";

/** Each tool of an agent with the worst that it takes. */

/** Bytes of the largest file that `edit` and `read` open. */
const largest = 16 * mib;
/** Characters of the longest arguments, less what JSON needs around them. */
const longest = mib - 4096;

const inPlace = { isolation: "directory" };

const hunk = (lines: readonly string[]): string =>
  `--- a/b.txt\n+++ b/b.txt\n@@ -1,${lines.length} +1,${lines.length} @@\n${lines.map((line) => ` ${line}\n`).join("")}`;

const patches = (path: string, count: number, text: (n: number) => string): string =>
  `*** Begin Patch\n*** Update File: ${path}\n${Array.from({ length: count }, (_, n) => `@@\n${text(n)}`).join("")}*** End Patch\n`;

export const toolLoads: readonly Load[] = [
  {
    name: "read: the largest file of one line, of short lines, beyond the bound, and names that are nearly right",
    drives: ["read"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }, (folder) => {
          put(folder, "line.txt", "a".repeat(largest));
          put(folder, "lines.txt", "\n".repeat(largest));
          put(folder, "words.txt", linesOf(largest));
          put(folder, "more.txt", "a".repeat(largest + 1));
          put(folder, "binary", Buffer.alloc(largest));
          putMany(folder, 20_000);
        }),
        [
          { tool: "read", input: { path: "line.txt" } },
          { tool: "read", input: { path: "line.txt", column: 16_000_000 } },
          { tool: "read", input: { path: "lines.txt", offset: 16_000_000, limit: 5000 } },
          { tool: "read", input: { path: "words.txt", offset: 1_000_000, limit: 5000 } },
          { tool: "read", input: { path: "more.txt" } },
          { tool: "read", input: { path: "binary" } },
          { tool: "read", input: { path: "d7/file-70000.txt" } },
          Array.from({ length: 20 }, (_, n) => ({ tool: "read", input: { path: `d${n}/fil-${n}.txt` } })),
        ],
        inPlace,
      ),
  },
  {
    name: "list: 20,000 files, at every depth",
    drives: ["list"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }, (folder) => {
          putMany(folder, 20_000);
        }),
        [
          { tool: "list", input: { depth: 10 } },
          { tool: "list", input: { depth: 10, offset: 20_000 } },
        ],
        inPlace,
      ),
  },
  {
    name: "search: a match in every line of 20,000 files, with its neighbours; by name; in a kept output",
    drives: ["search"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }, (folder) => {
          putMany(folder, 20_000, (n) => `needle ${n}\n`.repeat(20));
          put(folder, "long.txt", `${"needle ".repeat(2 * mib)}\n`);
        }),
        [
          { tool: "search", input: { pattern: "needle", context: 20, limit: 1000, offset: 1_000_000 } },
          { tool: "search", input: { pattern: "n[eo]+dle|d.?l", limit: 1000 } },
          { tool: "search", input: { pattern: "needle", mode: "files", glob: "**/*.txt", offset: 10_000 } },
          { tool: "search", input: { pattern: "needle", mode: "count" } },
          { tool: "search", input: { pattern: "a?".repeat(4096), path: "long.txt" } },
          { tool: "search", input: { pattern: "x".repeat(8192), literal: true } },
        ],
        inPlace,
      ),
  },
  {
    name: "write: as much text as a call can carry, plain and with an escape in place of each character",
    short: true,
    drives: ["write"],
    run: (stage) =>
      stage.task(projectOf(stage, { "a.txt": "a" }), [
        { tool: "write", input: { path: "plain.txt", content: linesOf(longest * 0.9) } },
        { tool: "write", input: `{"path":"escaped.txt","content":"${"\\u0041".repeat(longest / 6)}"}` },
        { tool: "write", input: `{"path":"quotes.txt","content":"${'\\"'.repeat(longest / 2)}"}` },
      ]),
  },
  {
    name: "arguments: the deepest, the longest, the most, and more than is taken",
    short: true,
    drives: ["note"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }),
        [
          { tool: "note", input: { text: "n".repeat(8 * 1024) } },
          { tool: "note", input: nested(5000) },
          { tool: "note", input: nested(150_000) },
          { tool: "note", input: "[".repeat(longest) },
          { tool: "note", input: `{"text":[${"1,".repeat(longest / 2)}1]}` },
          { tool: "note", input: `{${Array.from({ length: 60_000 }, (_, n) => `"key${n}":${n}`).join()}}` },
          { tool: "note", input: "n".repeat(2 * mib) },
          { tool: "x".repeat(60), input: {} },
        ],
        inPlace,
      ),
  },
  {
    name: "edit: every character, blocks that nearly fit, and a text as long as a call",
    drives: ["edit"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }, (folder) => {
          put(folder, "line.txt", "a".repeat(largest));
          put(folder, "near.txt", "  if (a) {\n    b();\n  }\n".repeat(largest / 24));
          put(folder, "words.txt", linesOf(largest));
        }),
        [
          { tool: "edit", input: { path: "line.txt", edits: [{ old: "a", new: "b", all: true }] } },
          { tool: "edit", input: { path: "line.txt", edits: [{ old: "a".repeat(longest / 2), new: "c" }] } },
          {
            tool: "edit",
            input: {
              path: "near.txt",
              edits: Array.from({ length: 100 }, (_, n) => ({ old: `if (a) {\n b( );\n}\n${n}`, new: "x" })),
            },
          },
          {
            tool: "edit",
            input: { path: "near.txt", edits: [{ old: `if (a) {\nb();\n}\n`.repeat(300), new: "x" }] },
          },
          { tool: "edit", input: { path: "words.txt", edits: [{ old: linesOf(longest * 0.9, "lime"), new: "x" }] } },
          { tool: "edit", input: { path: "words.txt", edits: [{ old: linesOf(longest * 0.9), new: "x" }] } },
        ],
        inPlace,
      ),
  },
  {
    name: "apply_patch: hunks that fit nowhere in a million lines, and one of the length of a call",
    drives: ["apply_patch"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }, (folder) => {
          put(folder, "b.txt", linesOf(largest));
          put(folder, "same.txt", "a\n".repeat(largest / 2));
        }),
        [
          { tool: "apply_patch", input: { patch: hunk(Array.from({ length: 300 }, () => "nowhere")) } },
          {
            tool: "apply_patch",
            input: { patch: patches("b.txt", 500, (n) => ` line ${n * 1000}\n-no such line\n+x\n`) },
          },
          {
            tool: "apply_patch",
            input: { patch: patches("same.txt", 500, () => `${" a\n".repeat(30)}-b\n+x\n`) },
          },
          {
            tool: "apply_patch",
            input: { patch: patches("b.txt", 1, () => `-${linesOf(longest * 0.9, "-line").slice(1)}\n+x\n`) },
          },
          {
            tool: "apply_patch",
            input: { patch: `*** Begin Patch\n*** Add File: c.txt\n${"+a\n".repeat(longest / 5)}*** End Patch\n` },
          },
        ],
        inPlace,
      ),
  },
  {
    name: "shell and process: output without end, and the longest command",
    drives: ["shell", "process", "commandOutputBytes"],
    run: async (stage) => {
      const directory = projectOf(stage, { "a.txt": "a" });
      await stage.task(
        directory,
        [
          { tool: "shell", input: { command: "yes needle | head -c 300000000" } },
          { tool: "shell", input: { command: "head -c 100000000 /dev/zero" } },
          { tool: "shell", input: { command: "head -c 50000000 /dev/urandom" } },
          { tool: "shell", input: { command: `: ${"$(true) ; a && ".repeat(65_000 / 15)} true` } },
          { tool: "shell", input: { command: `: ${"((((".repeat(16_000)}` } },
          { tool: "shell", input: { command: `: ${"'\"`".repeat(20_000)}` } },
          { tool: "shell", input: { command: "yes needle | head -c 300000000; sleep 1", background: true } },
          { tool: "process", input: { action: "wait", id: "bg_1", seconds: 20 } },
          { tool: "process", input: { action: "read", id: "bg_1" } },
          { tool: "process", input: { action: "list" } },
        ],
        inPlace,
      );
    },
  },
  {
    name: "git: status, diff, log, show, grep, restore, mv and rm of 20,000 files",
    drives: ["git"],
    run: async (stage) => {
      const files = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`d${n % 20}/f${n}.txt`, `${n}\n`]));
      const directory = projectOf(stage, files);
      await stage.task(directory, [
        {
          tool: "shell",
          input: {
            command: "for f in d*/*; do echo needle >>$f; done; yes 12345678 | head -c 40M >big.txt; git add -N .",
          },
        },
        { tool: "git", input: { action: "status" } },
        { tool: "git", input: { action: "diff" } },
        { tool: "git", input: { action: "grep", pattern: "needle", untracked: true } },
        { tool: "git", input: { action: "log", limit: 500 } },
        { tool: "git", input: { action: "show" } },
        { tool: "git", input: { action: "mv", from: "d1", to: "e1" } },
        { tool: "git", input: { action: "rm", paths: ["d2", "d3"] } },
        { tool: "git", input: { action: "restore", paths: ["."] } },
      ]);
    },
  },
  {
    name: "artifact: the largest files, up to what a Task may hand over",
    drives: ["artifact", "artifacts", "artifactBytes", "artifactsBytes"],
    run: (stage) =>
      stage.task(
        projectOf(stage, { "a.txt": "a" }, (folder) => {
          for (let n = 0; n < 11; n += 1) put(folder, `${n}.txt`, linesOf(10 * mib, `artifact ${n}`));
          for (let n = 0; n < 51; n += 1) put(folder, `small-${n}.txt`, `${n}`);
        }),
        [
          ...Array.from({ length: 11 }, (_, n) => ({
            tool: "artifact",
            input: { path: `${n}.txt`, title: "t".repeat(200) },
          })),
          Array.from({ length: 51 }, (_, n) => ({ tool: "artifact", input: { path: `small-${n}.txt`, title: "t" } })),
        ],
        inPlace,
      ),
  },
  {
    name: "web_fetch: pages of markup without end",
    drives: ["web_fetch"],
    run: async (stage) => {
      const pages = ["<p>needle <b>x</b>", "<", "<a href='", "&amp;", "<table><tr><td>", "<!--", "needle ", "<div>"];
      const server = createServer(({ url = "" }, response) => {
        response.writeHead(200, { "content-type": "text/html" });
        response.end((pages[Number(url.slice(1))] ?? "").repeat(mib));
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as AddressInfo;
      for (const at of pages.keys()) await stage.tell({ what: "fetch", url: `http://127.0.0.1:${port}/${at}` });
      server.close();
    },
  },
  {
    name: "skill: as many as are listed, each with the longest front matter and text",
    short: true,
    drives: ["skill"],
    run: (stage) => {
      const head = `name: NAME\ndescription: needle\n${Array.from({ length: 5000 }, (_, n) => `k${n}: {a: [1, 2, 3, {b: c}]}\n`).join("")}`;
      const skill = (n: number) =>
        `---\n${head.replace("NAME", `s${n}`)}---\n${"text\n".repeat(10_000)}`.slice(0, 256 * 1024);
      return stage.task(
        projectOf(
          stage,
          Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`.agents/skills/s${n}/SKILL.md`, skill(n)])),
        ),
        [
          { tool: "skill", input: { name: "s1" } },
          { tool: "skill", input: { name: "none" } },
        ],
      );
    },
  },
  {
    name: "slice, delegate, verdict: the longest texts, in as many parts as there may be",
    short: true,
    drives: ["slice", "delegate", "verdict"],
    run: async (stage) => {
      const directory = projectOf(stage, { "a.txt": "a" }, (folder) =>
        writeFiles(
          `${folder}/.sortie/squads`,
          teamOf("team", {
            orchestrator: ["read, write, slice, delegate, ask", "delegates: [builder]"],
            builder: ["read, write, shell"],
            reviewer: ["verdict"],
          }),
        ),
      );
      const plan = Array.from({ length: 20 }, (_, n) => ({
        title: `${n}`.padEnd(120, "t"),
        objective: "o".repeat(1000),
        acceptance: Array.from({ length: 12 }, () => "a".repeat(300)),
      }));
      await stage.task(
        directory,
        [
          { tool: "slice", input: { plan } },
          { tool: "slice", input: { plan } },
          { tool: "slice", input: { order: Array.from({ length: 100_000 }, (_, n) => `slice_${n}`) } },
          { tool: "delegate", input: { agent: "builder", brief: "b".repeat(16_000) } },
          { tool: "write", input: { path: "b.txt", content: "b" } },
        ],
        { promptProfile: "team" },
      );
    },
  },
];
