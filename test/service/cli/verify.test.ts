import { createHash } from "node:crypto";
import { appendFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Entry, hashOf, startOf } from "../../../src/domain/evidence/ledger.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { git, makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { createTask, settledTask } from "../../harness/double/hostile-text.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { type Files, manifestOf, pack, unpack, verified } from "../../harness/zip-reader.ts";

/** What a real Task's archive proves by itself, and that each way to tamper with it is found and named. */

const agent = (name: string, tools: string) =>
  `---\nname: ${name}\ndescription: The ${name}.\ntools: [${tools}]\n---\n\nYou are the ${name}.\n`;
const squad = { id: "team", version: "1.0.0", name: "Team", summary: "Small.", notFor: "Large.", pillars: ["code"] };
const team = {
  "team/squad.json": JSON.stringify({ ...squad, owns: {}, agents: ["reviewer"], skills: [] }),
  "team/README.md": "# Team\n",
  "team/agents/orchestrator.md": agent("orchestrator", "read, write, shell, artifact"),
  "team/agents/reviewer.md": agent("reviewer", "verdict"),
};

const again: MockTurn[] = [{ calls: [{ tool: "write", input: { path: "src/c.txt", content: "three\n" } }] }];
const work: MockTurn[] = [
  { calls: [{ tool: "write", input: { path: "src/b.txt", content: "two\n" } }] },
  { calls: [{ tool: "shell", input: { command: "seq 1 20000; exit 3" } }] },
  { calls: [{ tool: "write", input: { path: "report.md", content: "# It\n" } }] },
  { calls: [{ tool: "artifact", input: { path: "report.md", title: "The report" } }] },
];

const root = temporary("sortie-verify-");
const sha256 = (text: string | Buffer) => createHash("sha256").update(text).digest("hex");
const ledgerName = "execution-flow/ledger.jsonl";
const eventsName = "execution-flow/events.jsonl";
const manifestName = "execution-flow/manifest.json";
let provider: MockProvider;
let service: TestService;
let directory: string;
let taskID: string;
let archive: Buffer;

const download = async (id = taskID) => {
  const query = `directory=${encodeURIComponent(directory)}`;
  const response = await fetch(`${service.url}/task/${id}/project-archive?${query}`);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
};

beforeAll(async () => {
  provider = await startMockProvider(({ turn, first }) => {
    return (first.includes("Make it") ? work : again)[turn] ?? { text: "Done." };
  });
  const data = join(root.path, "data");
  writeFiles(join(data, "squads"), team);
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ model: "mock/large", squad: "team", providers }));
  service = await startService(data, { SERVICE_CONFIG: config });
  directory = makeProject(join(root.path, "project"), { "a.txt": "one\n", "a/x.txt": "x\n", "run.sh": "exit 0\n" });
  const checks = [{ id: "there", kind: "command", run: "echo looking; cat src/b.txt", baseline: true }];
  taskID = await createTask(service.url, directory, { request: "Make it", checks });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  archive = await download();
}, 60_000);
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const lines = <T>(files: Files, name: string): T[] =>
  String(files.get(name))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as T);
const put = (files: Files, name: string, values: readonly unknown[]) =>
  files.set(name, Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join("")));
const edit = <T>(files: Files, name: string, change: (values: T[]) => T[]) =>
  put(files, name, change(lines<T>(files, name)));

/** As who tampers would: the hashes of the manifest are those of the files again. */
const rename = (files: Files, change: (manifest: ReturnType<typeof manifestOf>) => void = () => undefined) => {
  const manifest = manifestOf(files);
  manifest.files = manifest.files.flatMap((file) => {
    const bytes = files.get(file.name);
    return bytes === undefined ? [] : [{ ...file, bytes: bytes.length, sha256: sha256(bytes) }];
  });
  change(manifest);
  files.set(manifestName, Buffer.from(JSON.stringify(manifest)));
};
/** And the chain is one again. */
const rechain = (files: Files) => {
  let { entries, head } = startOf(taskID, sha256);
  edit<Entry>(files, ledgerName, (all) =>
    all.map((entry) => {
      const linked = { ...entry, seq: (entries += 1), prev: head };
      head = hashOf(linked, sha256);
      return { ...linked, hash: head };
    }),
  );
  rename(files, (manifest) => (manifest.ledger = { entries, head }));
};

const at = (name = "tampered") => join(root.path, `${name}.zip`);
const faults = async (path: string, head?: string) => {
  const { code, findings } = await verified(path, head);
  expect(code).toBe(findings.some(({ state }) => state === "bad") ? 1 : 0);
  return findings.filter(({ state }) => state === "bad").map(({ name, text }) => `${name}: ${text}`);
};
const failedCheck = (all: Entry[]) => all.find((entry) => entry.kind === "check" && entry.on === "base");

describe("an untouched archive", () => {
  test("proves its files, the ledger, the logs and the tree that landed", async () => {
    writeFileSync(at("own"), archive);
    const { code, findings } = await verified(at("own"));
    const { head, entries } = manifestOf(unpack(archive)).ledger;
    const tree = git(directory, "rev-parse", "HEAD^{tree}");
    const commit = git(directory, "rev-parse", "HEAD");
    expect(findings).toEqual([
      { name: "files", state: "ok", text: expect.stringMatching(/^\d+ files, \d+ bytes, each with the SHA-256/) },
      { name: "chain", state: "ok", text: `${entries} ledger entries, unbroken, head ${head}` },
      {
        name: "events",
        state: "ok",
        text: expect.stringMatching(/none is missing: 1 check|.*5 call.*1 artifact.*1 review.*1 landing.*1 end/),
      },
      { name: "logs", state: "ok", text: "4 logs, outputs and artifacts have the hashes in the ledger" },
      {
        name: "tree",
        state: "ok",
        text: `project/ is Git tree ${tree} of commit ${commit}; passed on it: there; landed on refs/heads/main`,
      },
    ]);
    expect(code).toBe(0);
  });

  test("is the same when it is made again, and when it is packed again", async () => {
    expect((await download()).equals(archive)).toBe(true);
    expect(await faults(await pack(at(), unpack(archive)))).toEqual([]);
  });

  test("proves the tree of a Task that landed beside the user's own edits, as of one that works in place", async () => {
    writeFiles(directory, { "a.txt": "one, and more\n" });
    const beside = await createTask(service.url, directory, { request: "Again" });
    expect(await settledTask(service.url, beside)).toMatchObject({ lifecycleStatus: "completed" });
    // Not before: what it writes would be in the other's snapshot.
    const inPlace = await createTask(service.url, directory, { request: "Here", isolation: "directory" });
    expect(await settledTask(service.url, inPlace)).toMatchObject({ lifecycleStatus: "completed" });
    const trees = [];
    for (const id of [beside, inPlace]) {
      writeFileSync(at(), await download(id));
      expect(await faults(at())).toEqual([]);
      trees.push((await verified(at())).findings.at(-1));
    }
    expect(trees).toEqual([
      {
        name: "tree",
        state: "ok",
        text: expect.stringMatching(/^project\/ is Git tree \w+ of commit \w+; landed on refs\/heads\/main$/),
      },
      { name: "tree", state: "note", text: expect.stringContaining("the user's own directory") },
    ]);
    git(directory, "checkout", "-q", "a.txt");
  });

  test("leaves out a log that holds what has the form of a secret, and says so", async () => {
    const id = await createTask(service.url, directory, {
      request: "Told",
      checks: [{ id: "telling", kind: "command", run: "echo SOME_TOKEN=0123456789abcdef" }],
    });
    expect(await settledTask(service.url, id)).toMatchObject({ lifecycleStatus: "completed" });
    const files = unpack(await download(id));
    expect([...files.values()].join("\n")).not.toContain("TOKEN=0123");
    expect(manifestOf(files).omitted).toEqual([
      {
        path: expect.stringMatching(/^execution-flow\/logs\/\d+\.txt$/),
        reason: "it contains something that looks like a secret",
      },
    ]);
    const { code, findings } = await verified(await pack(at(), files));
    expect([code, findings.find(({ name }) => name === "logs")?.text]).toEqual([
      0,
      "0 logs, outputs and artifacts have the hashes in the ledger; 1 left out, see omitted in the manifest",
    ]);
  });

  test("says what matters of calls, checks, reviews and settlements", () => {
    const all = lines<Entry>(unpack(archive), ledgerName);
    const events = lines<Frame>(unpack(archive), eventsName);
    const shell = all.find((entry) => entry.kind === "call" && entry.tool === "shell");
    const output = unpack(archive).get(`execution-flow/logs/${shell?.eventID}.txt`);
    expect(shell).toMatchObject({ exitCode: 3, output: sha256(output ?? "") });
    expect(String(output)).toContain("\n10000\n");
    const settled = events.find(({ type }) => type === "slice.settled");
    expect(all.find(({ kind }) => kind === "settlement")).toMatchObject({ eventID: settled?.id, state: "accepted" });
    expect(all.find(({ kind }) => kind === "review")).toMatchObject({ verdict: "accepted", reviewer: "reviewer" });
    expect(failedCheck(all)).toMatchObject({ checkID: "there", state: "failed", exitCode: 1 });
    expect(all.at(-1)).toMatchObject({ kind: "end", lifecycleStatus: "completed" });
  });

  test("a head that was noted is found in it, another one is not", async () => {
    const all = lines<Entry>(unpack(archive), ledgerName);
    for (const { hash } of [all[0], all.at(-1)].filter((entry) => entry !== undefined))
      expect(await faults(at("own"), hash)).toEqual([]);
    const other = "0".repeat(64);
    expect(await faults(at("own"), other)).toEqual([
      `head: no entry has the hash ${other}: this is not the ledger that it was recorded from`,
    ]);
  });
});

type Tampering = [name: string, tamper: (files: Files) => void, found: (RegExp | string)[]];

const exitCode = (files: Files) =>
  edit<Frame>(files, eventsName, (all) =>
    all.map((event) =>
      event.type === "check.finished" && event.data.on === "base"
        ? { ...event, data: { ...event.data, exitCode: 0 } }
        : event,
    ),
  );
const state = (files: Files) =>
  edit<Entry>(files, ledgerName, (all) =>
    all.map((entry) => (entry === failedCheck(all) ? ({ ...entry, state: "passed" } as Entry) : entry)),
  );
const drop = (files: Files) =>
  edit<Entry>(files, ledgerName, (all) => all.filter((entry) => entry !== failedCheck(all)));
const logIn = (files: Files) => `execution-flow/logs/${failedCheck(lines<Entry>(files, ledgerName))?.eventID}.txt`;
const project = (files: Files) => files.set("project/src/b.txt", Buffer.from("six\n"));

const entry = String.raw`ledger entry \d+ \(check there\)`;
const tamperings: Tampering[] = [
  [
    "an exit code in the events",
    exitCode,
    [
      /^files: .*events\.jsonl: expected SHA-256/,
      new RegExp(`^events: ${entry}: its exitCode is 1, event \\d+ says 0$`),
    ],
  ],
  [
    "an exit code in the events, hidden from the manifest",
    (files) => (exitCode(files), rename(files)),
    [new RegExp(`^events: ${entry}: its exitCode is 1, event \\d+ says 0$`)],
  ],
  [
    "a check's state in the ledger",
    (files) => (state(files), rename(files)),
    [
      new RegExp(`^chain: ${entry}: its hash does not match its content$`),
      new RegExp(`^events: ${entry}: its state is "passed", event \\d+ says "failed"$`),
    ],
  ],
  [
    "a check's state in a ledger that was chained again",
    (files) => (state(files), rechain(files)),
    [new RegExp(`^events: ${entry}: its state is "passed", event \\d+ says "failed"$`)],
  ],
  [
    "a dropped entry",
    (files) => (drop(files), rename(files)),
    [
      /^chain: ledger entry \d+ \(.*\): it does not follow entry \d+$/,
      /^events: event \d+ \(check there\): it has no entry in the ledger$/,
    ],
  ],
  [
    "a dropped entry, the ledger chained again",
    (files) => (drop(files), rechain(files)),
    [/^events: event \d+ \(check there\): it has no entry in the ledger$/],
  ],
  [
    "a ledger chained again whose event is gone",
    (files) => {
      const gone = failedCheck(lines<Entry>(files, ledgerName))?.eventID;
      edit<Frame>(files, eventsName, (all) => all.filter(({ id }) => id !== gone));
      rechain(files);
    },
    [new RegExp(`^events: ${entry}: there is no such event$`), /^logs: .*\/\d+\.txt: no event refers to it$/],
  ],
  [
    "an entry too many at the end",
    (files) => (edit<Entry>(files, ledgerName, (all) => all.slice(0, -1)), rename(files)),
    [/^chain: expected \d+ entries up to [0-9a-f]{64}, as in the manifest, got \d+/, /^events: event \d+ \(end\)/],
  ],
  ["a changed project file", project, [/^files: project\/src\/b\.txt: expected SHA-256/, /^tree: expected project\//]],
  [
    "a changed project file, hidden from the manifest",
    (files) => (project(files), rename(files)),
    [/^tree: expected project\/ to be Git tree [0-9a-f]{40} of commit [0-9a-f]{40}, got [0-9a-f]{40}$/],
  ],
  [
    "a changed mode",
    (files) =>
      rename(files, ({ files: all }) => {
        const file = all.find(({ name }) => name === "project/run.sh");
        if (file !== undefined) file.mode = "100755";
      }),
    [/^tree: expected project\//],
  ],
  [
    "a changed log",
    (files) => files.set(logIn(files), Buffer.from("fine\n")),
    [/^files: execution-flow\/logs\/\d+\.txt: /],
  ],
  [
    "a changed log, hidden from the manifest",
    (files) => (files.set(logIn(files), Buffer.from("fine\n")), rename(files)),
    [/^logs: execution-flow\/logs\/\d+\.txt: expected SHA-256 [0-9a-f]{64}, as in the ledger, got [0-9a-f]{64}$/],
  ],
  [
    "a log that is gone",
    (files) => (files.delete(logIn(files)), rename(files)),
    [/^logs: execution-flow\/logs\/\d+\.txt: .*got no such file$/],
  ],
  [
    "a changed artifact",
    (files) => (files.set("execution-flow/artifacts/report.md", Buffer.from("# No\n")), rename(files)),
    [/^logs: art_[0-9a-z]{26}: expected SHA-256/],
  ],
  [
    "a file added",
    (files) => files.set("project/evil.sh", Buffer.from("x")),
    ["files: project/evil.sh: it is not in the manifest"],
  ],
  [
    "a file taken out",
    (files) => files.delete("execution-flow/task.json"),
    ["files: execution-flow/task.json: it is missing"],
  ],
  [
    "no ledger in the manifest",
    (files) => rename(files, (manifest) => Reflect.deleteProperty(manifest, "ledger")),
    [/^manifest: execution-flow\/manifest\.json: ledger: /],
  ],
  [
    "events that are none",
    (files) => files.set(eventsName, Buffer.from("{}\n")),
    [/^files: /, /^events: after event 0: /],
  ],
];

describe("tampering is found and named", () => {
  test.each(tamperings)("%s", async (_name, tamper, found) => {
    const files = unpack(archive);
    tamper(files);
    const expected = found.map((what) => (typeof what === "string" ? what : expect.stringMatching(what)));
    expect(await faults(await pack(at(), files))).toEqual(expected);
  });

  test("a cut ZIP, and bytes behind it", async () => {
    writeFileSync(at(), archive);
    truncateSync(at(), Math.floor(archive.length / 2));
    expect(await faults(at())).toEqual([
      expect.stringMatching(/^zip: it cannot be read, because it is truncated or damaged: /),
    ]);
    writeFileSync(at(), archive);
    appendFileSync(at(), "more");
    expect(await faults(at())).not.toEqual([]);
  });

  test("a byte changed within the ZIP, wherever", async () => {
    for (let place = 40; place < archive.length; place += Math.ceil(archive.length / 40)) {
      const bytes = Buffer.from(archive);
      bytes[place] = (bytes[place] ?? 0) ^ 0x10;
      writeFileSync(at(), bytes);
      const found = await faults(at());
      // Times and versions of an entry are nobody's claim.
      if (found.length === 0) expect(unpack(bytes)).toEqual(unpack(archive));
    }
  });

  test("control: who rewrites all of it together is found by a head that was noted, and by nothing else", async () => {
    const files = unpack(archive);
    const noted = manifestOf(files).ledger.head;
    exitCode(files);
    edit<Entry>(files, ledgerName, (all) =>
      all.map((entry) => (entry === failedCheck(all) ? ({ ...entry, exitCode: 0 } as Entry) : entry)),
    );
    rechain(files);
    const path = await pack(at(), files);
    expect(await faults(path)).toEqual([]);
    expect(await faults(path, noted)).toEqual([expect.stringMatching(/^head: /)]);
  });
});

test("what is no file is the caller's mistake", async () => {
  await expect(verified(join(root.path, "none.zip"))).rejects.toMatchObject({ exitCode: 2 });
  expect(readFileSync(at("own")).equals(archive)).toBe(true);
});
