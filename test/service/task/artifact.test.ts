import { createHash } from "node:crypto";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { entriesOf } from "../../harness/entries.ts";
import { artifacts as showArtifacts } from "../../../src/cli/task/action.ts";
import { createServiceClient } from "../../../src/client/client.ts";
import { attachmentNamed, servedType } from "../../../src/http/response/file.ts";
import type { Manifest } from "../../../src/domain/view/archive.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { subjectsOf } from "../../../src/agent/permission/subject.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider, textOf } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Files that an agent hands over: kept with the Task, listed, downloaded without harm, and in the archive. */

const secret = "sk-artifact-0123456789abcdef";
const png = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
let root: ReturnType<typeof temporary>;
let provider: MockProvider;
let service: TestService;
let script: MockTurn[] = [];
let told: string[] = [];
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-artifact-");
  provider = await startMockProvider(({ turn, body }) => {
    told = body.messages.filter(({ role }) => role === "tool").map(({ content }) => textOf(content));
    return script[turn] ?? { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: secret } };
  writeFileSync(
    config,
    JSON.stringify({ providers, limits: { artifacts: 4, artifactBytes: 1000, artifactsBytes: 2500 } }),
  );
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const hand = (path: string, title = "what it shows") => ({ tool: "artifact", input: { path, title } });

/** A Task whose agent does these turns in a project with these files. */
const carriedOut = async (files: Record<string, string | Buffer>, turns: MockTurn[]) => {
  const directory = makeProject(join(root.path, `project-${(count += 1)}`), { ".gitignore": "out/\n" });
  for (const [path, content] of Object.entries(files)) writeFileSync(join(directory, path), content);
  git(directory, "add", "-A");
  git(directory, "commit", "-q", "--allow-empty", "-m", "files");
  script = turns;
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data, error } = await client.task.create({
    body: { productPillar: "work", request: "report", model: "mock/large" },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  const path = { taskID: data.taskID };
  const { data: status } = await client.task.wait({ path, timeoutMs: 20_000 });
  expect(status?.error).toBeUndefined();
  const { data: board } = await client.task.board({ path });
  if (board === undefined) throw new Error("no board");
  return { directory, client, taskID: data.taskID, path, board, artifacts: board.artifacts };
};

const archived = async ({ client, path }: Awaited<ReturnType<typeof carriedOut>>) => {
  const { data } = await client.task.projectArchive({ path });
  if (data === undefined) throw new Error("no archive");
  const files = new Map(entriesOf(Buffer.from(await data.arrayBuffer())).map((entry) => [entry.path, entry.read()]));
  const manifest = JSON.parse(String(files.get("execution-flow/manifest.json"))) as Manifest;
  return { files, manifest };
};

const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

describe("an artifact", () => {
  test("is on the board and in the events, downloads as it was handed over, and is in the archive", async () => {
    const report = "# Report\n\n42 files.\n";
    const task = await carriedOut({ "plot.png": png }, [
      { calls: [{ tool: "write", input: { path: "out/report.md", content: report } }] },
      { calls: [hand("out/report.md", "The report"), hand("plot.png")] },
      // Later edits do not change what was handed over.
      { calls: [{ tool: "write", input: { path: "out/report.md", content: "other" } }] },
    ]);
    const kept = (filename: string, title: string, mime: string, bytes: Buffer) => ({
      artifactID: expect.stringMatching(/^art_[0-9a-z]{26}$/),
      filename,
      title,
      mime,
      bytes: bytes.length,
      sha256: sha256(bytes),
      by: { kind: "call", sessionID: expect.stringMatching(/^ses_/), callID: expect.stringMatching(/^call_/) },
      sliceID: task.board.task.goals[0]?.sliceID,
      at: expect.stringMatching(/Z$/),
    });
    const both = [
      kept("report.md", "The report", "text/markdown", Buffer.from(report)),
      kept("plot.png", "what it shows", "image/png", png),
    ];
    expect(task.artifacts.toSorted((a, b) => (a.filename < b.filename ? 1 : -1))).toEqual(both);
    // Evidence of the one slice that there is.
    const evidence = task.board.task.goals[0]?.evidence.filter(({ kind }) => kind === "artifact") ?? [];
    expect(evidence.map(({ id, summary }) => ({ id, summary }))).toEqual(
      task.artifacts.map(({ artifactID, title, filename, bytes }) => ({
        id: artifactID,
        summary: `${title} (${filename}, ${bytes} bytes)`,
      })),
    );
    expect(told[1]).toMatch(/^Kept report\.md as art_\w{26}: text\/markdown, 20 bytes\.$/);
    expect(git(task.directory, "ls-files")).toBe(".gitignore\nplot.png");

    const page = await fetch(`${service.url}/task/${task.taskID}/events?format=json&after=0&limit=1000`);
    const { events } = (await page.json()) as { events: Frame[] };
    const recorded = events.filter(({ type }) => type === "artifact.recorded");
    expect(recorded.map(({ sessionID }) => sessionID)).toEqual(
      task.artifacts.map(({ by }) => by.kind === "call" && by.sessionID),
    );

    for (const artifact of task.artifacts) {
      const { data } = await task.client.task.artifact({ path: { ...task.path, artifactID: artifact.artifactID } });
      if (data === undefined) throw new Error("no artifact");
      expect(sha256(Buffer.from(await data.arrayBuffer()))).toBe(artifact.sha256);
    }

    const { files, manifest } = await archived(task);
    expect(String(files.get("execution-flow/artifacts/report.md"))).toBe(report);
    const listed = manifest.files.filter(({ artifactID }) => artifactID !== undefined);
    expect(listed.map(({ name, artifactID, sha256: hash }) => ({ name, artifactID, hash }))).toEqual(
      ["plot.png", "report.md"].map((name) => {
        const found = task.artifacts.find(({ filename }) => filename === name);
        return { name: `execution-flow/artifacts/${name}`, artifactID: found?.artifactID, hash: found?.sha256 };
      }),
    );
  });

  test("names and types of all kinds harm nobody: neither a header, nor a browser, nor an archive, nor a shell", async () => {
    const names = ['a"\u202e; x=y\u0001.html', "evil.svg", "ä é.txt", "..%2f.sh"];
    const task = await carriedOut(
      Object.fromEntries(names.map((name) => [name, name.endsWith("svg") ? "<svg><script>1</script></svg>" : "x"])),
      [{ calls: names.map((name) => hand(name)) }],
    );
    expect(task.artifacts.map(({ filename }) => filename).toSorted()).toEqual(names.toSorted());
    for (const { artifactID, filename } of task.artifacts) {
      const { headers } = await fetch(`${service.url}/task/${task.taskID}/artifacts/${artifactID}`);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("content-security-policy")).toBe("default-src 'none'; sandbox");
      expect(headers.get("content-disposition")).toMatch(
        /^attachment; filename="[A-Za-z0-9._-]+"(; filename\*=UTF-8''[A-Za-z0-9._~!$&+%-]+)?$/,
      );
      const type = headers.get("content-type");
      expect(type).toBe(/html|svg/.test(filename) ? "application/octet-stream" : "text/plain; charset=utf-8");
    }
    const { files } = await archived(task);
    const inside = [...files.keys()].filter((name) => name.startsWith("execution-flow/artifacts/"));
    expect(inside).toHaveLength(4);
    for (const name of inside) expect(name).toMatch(/^execution-flow\/artifacts\/[^/\\\p{Cc}]+$/u);

    // The command line writes it beside the caller, under a plain name, and over nothing.
    const target = { url: service.url, directory: task.directory, username: "service", password: undefined };
    const said: string[] = [];
    const screen = { say: (text: string) => void said.push(text), status: () => undefined } as never;
    const folder = process.cwd();
    const here = temporary();
    process.chdir(here.path);
    try {
      await showArtifacts(task.taskID, undefined, {}, { target, screen, emit: undefined });
      for (const { artifactID } of task.artifacts)
        await showArtifacts(task.taskID, artifactID, {}, { target, screen, emit: undefined });
      const again = showArtifacts(task.taskID, "evil.svg", {}, { target, screen, emit: undefined });
      await expect(again).rejects.toThrow(/^Cannot write evil\.svg: EEXIST/);
      await expect(showArtifacts(task.taskID, "art_", {}, { target, screen, emit: undefined })).rejects.toThrow(
        "Expected one artifact",
      );
      expect(readdirSync(here.path).toSorted()).toEqual(
        ["_._2f.sh", "a____x_y_.html", "evil.svg", "___.txt"].toSorted(),
      );
    } finally {
      process.chdir(folder);
      here[Symbol.dispose]();
    }
    expect(said[0]).toContain("art_");
    expect(said.join("\n")).not.toMatch(/\p{Cc}(?<!\n)|\u202e/u);
  });

  test("several with one name are all in the archive", async () => {
    const task = await carriedOut({ "a.txt": "first" }, [
      { calls: [hand("a.txt")] },
      { calls: [{ tool: "write", input: { path: "a.txt", content: "second" } }] },
      { calls: [hand("a.txt")] },
    ]);
    const { files } = await archived(task);
    expect(String(files.get("execution-flow/artifacts/a.txt"))).toBe("first");
    expect(String(files.get("execution-flow/artifacts/a~2.txt"))).toBe("second");
  });

  test("holds no secret of the service's", async () => {
    const task = await carriedOut({}, [
      {
        calls: [
          {
            tool: "shell",
            input: { command: `mkdir -p out; echo ${secret.slice(0, 12)}$((0))${secret.slice(13)} > out/env.txt` },
          },
        ],
      },
      { calls: [hand("out/env.txt")] },
    ]);
    const [artifact] = task.artifacts;
    if (artifact === undefined) throw new Error(told.join("\n"));
    const { data } = await task.client.task.artifact({ path: { ...task.path, artifactID: artifact.artifactID } });
    const bytes = Buffer.from((await data?.arrayBuffer()) ?? new ArrayBuffer(0));
    expect(bytes.toString()).toMatch(/^\[redacted:[^\]]+\]\n$/);
    expect([artifact.bytes, artifact.sha256]).toEqual([bytes.length, sha256(bytes)]);
  });

  test("is bounded in size and number, also side by side, and refused where a file may not be read", async () => {
    const large = "x".repeat(900);
    const files = { "a.txt": large, "b.txt": large, "c.txt": large, "big.txt": "x".repeat(1001), ".env": "KEY=1" };
    const sized = await carriedOut(files, [
      { calls: [hand("big.txt")] },
      { calls: [hand(".env")] },
      { calls: [hand("missing.txt")] },
      { calls: [hand("../../etc/passwd")] },
      { calls: [hand("a.txt")] },
      { calls: [hand("b.txt")] },
      { calls: [hand("c.txt")] },
    ]);
    expect(sized.artifacts.map(({ filename }) => filename)).toEqual(["a.txt", "b.txt"]);
    expect(told[0]).toContain("Expected at most 1000 bytes");
    expect(told[1]).toMatch(/\.env/);
    expect(told.at(-1)).toContain("Expected at most 2500 bytes of artifacts in a Task, got 900 beside the 1800");

    const many = await carriedOut({ "a.txt": "x" }, [{ calls: Array.from({ length: 7 }, () => hand("a.txt")) }]);
    expect(many.artifacts).toHaveLength(4);
    expect(told.filter((text) => text.includes("Expected at most 4 artifacts"))).toHaveLength(3);
  });

  test("another id, also one of another Task, is not found", async () => {
    const one = await carriedOut({ "a.txt": "x" }, [{ calls: [hand("a.txt")] }]);
    const other = await carriedOut({}, []);
    const artifactID = one.artifacts[0]?.artifactID ?? "";
    for (const [taskID, id] of [
      [other.taskID, artifactID],
      [one.taskID, "art_x"],
      [one.taskID, "..%2f..%2fx"],
    ]) {
      const response = await fetch(`${service.url}/task/${taskID}/artifacts/${id}`);
      expect([400, 404]).toContain(response.status);
    }
    expect((await fetch(`${service.url}/task/${one.taskID}/artifacts/${artifactID}`)).status).toBe(200);
  });
});

test("what a browser could run is served as bytes, other types as they are", () => {
  const as = [
    "text/html",
    "image/svg+xml",
    "application/xhtml+xml",
    "text/xml",
    "text/javascript",
    "x\r\ny",
    "text/a\r\nb",
  ];
  for (const mime of as) expect(servedType(mime)).toBe("application/octet-stream");
  expect(["image/png", "text/csv"].map(servedType)).toEqual(["image/png", "text/csv; charset=utf-8"]);
  expect(attachmentNamed("a.txt")).toBe('attachment; filename="a.txt"');
  expect(attachmentNamed("\ud800'\n.txt")).toBe(
    "attachment; filename=\"___.txt\"; filename*=UTF-8''%EF%BF%BD%27%0A.txt",
  );
});

test("rules see a file that is read, for it changes nothing", () => {
  const about = (effect: "log" | "workspace") =>
    subjectsOf({ name: "artifact", effect }, { path: "a.txt" }, (path) => path);
  expect(about("log")).toEqual([{ kind: "read", path: "a.txt" }]);
  expect(about("workspace")).toEqual([{ kind: "write", path: "a.txt" }]);
});
