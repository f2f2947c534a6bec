import { createHash } from "node:crypto";
import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, readText, temporary } from "../../harness/project.ts";
import { type MockProvider, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Files that came with a message: shown, written out, or offered to the tools; never in a commit. */

let provider: MockProvider;
let root: ReturnType<typeof temporary>;
let service: TestService;
const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";
const blob = Buffer.from([0, 1, 2, 255]).toString("base64");
const attachments = [
  { filename: "dot.png", mime: "image/png", data: png },
  { filename: "blob.bin", mime: "application/octet-stream", data: blob },
  { filename: "notes.md", mime: "text/markdown", data: Buffer.from("# Milk").toString("base64") },
  { filename: ".env", mime: "text/plain", data: Buffer.from("A=1").toString("base64") },
];

beforeAll(async () => {
  root = temporary("sortie-attached-");
  provider = await startMockProvider(({ turn, body }) => {
    const text = JSON.stringify(body.messages);
    const folder = /\.sortie\/attachments\/[0-9a-z]{8}/.exec(text)?.[0] ?? "nowhere";
    if (turn === 0)
      return {
        calls: [{ tool: "shell", input: { command: `cp ${folder}/blob.bin copy.bin; ls -A ${folder} > list.txt` } }],
      };
    return { text: "Copied." };
  });
  const config = join(root.path, "config.jsonc");
  const models = [{ id: "seeing", images: true }];
  const providers = { acme: { kind: "openai-compatible", baseURL: provider.baseURL, models } };
  writeFileSync(config, JSON.stringify({ providers }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const run = async (directory: string, more: { isolation?: "directory"; model: "acme/seeing" | "acme/blind" }) => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const body = { request: "Copy the blob.", productPillar: "code" as const, attachments, ...more };
  const taskID = (await client.task.create({ body })).data?.taskID ?? "";
  const { data: status } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  expect(status?.lifecycleStatus, status?.error).toBe("completed");
  return JSON.stringify(provider.requests.at(-1)?.body.messages);
};

test("in a worktree: the tools find them, the commit does not", async () => {
  const directory = makeProject(join(root.path, "one"), { "a.txt": "one\n" });
  const said = await run(directory, { model: "acme/seeing" });
  expect(git(directory, "ls-files")).toBe("a.txt\ncopy.bin\nlist.txt");
  expect(readText(directory, "list.txt")).toBe("_.env\nblob.bin\ndot.png\nnotes.md\n");
  expect(git(directory, "status", "--porcelain", "--ignored")).toBe("");
  expect(said).toContain(png);
  expect(said).toContain("# Milk");
  expect(said).toMatch(
    /blob\.bin \(application\/octet-stream, 4 bytes\) cannot be shown to you; use the file \.sortie/,
  );
});

test("a project that keeps files of its own there keeps them", async () => {
  const own = { ".sortie/attachments/.gitignore": "*.log\n", ".sortie/attachments/mine.txt": "mine\n" };
  const directory = makeProject(join(root.path, "own"), { "a.txt": "one\n", ...own });
  await run(directory, { model: "acme/blind" });
  expect(git(directory, "ls-files")).not.toContain("blob.bin");
  expect(readText(directory, ".sortie/attachments/.gitignore")).toBe("*.log\n");
  expect(git(directory, "log", "-1", "--name-only", "--format=")).toBe("list.txt");
});

test("in place: they are gone with the run, and nothing of the user's is touched", async () => {
  const directory = makeProject(join(root.path, "two"), { "a.txt": "one\n", ".sortie/squads/x.md": "mine\n" });
  const said = await run(directory, { model: "acme/blind", isolation: "directory" });
  expect(said).not.toContain(png);
  expect(said).toMatch(/dot\.png \(image\/png, 68 bytes\) cannot be shown/);
  expect(git(directory, "status", "--porcelain", "--ignored")).toBe("?? copy.bin\n?? list.txt");
  expect(readdirSync(join(directory, ".sortie"))).toEqual(["squads"]);
});

test("what only a deleted Task had goes from the data folder; what another has, too, stays", async () => {
  const directory = makeProject(join(root.path, "deleted"), { "a.txt": "a\n" });
  const client = createServiceClient({ baseUrl: service.url, directory, throwOnError: true });
  const made = async (texts: string[]): Promise<string> => {
    const files = texts.map((text, at) => ({
      filename: `${at}.txt`,
      mime: "text/plain",
      data: Buffer.from(text).toString("base64"),
    }));
    const body = { request: "Copy the blob.", productPillar: "code" as const, attachments: files, model: "acme/blind" };
    const taskID = (await client.task.create({ body })).data?.taskID ?? "";
    await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
    return taskID;
  };
  const blobs = join(root.path, "data/blobs");
  const stands = (text: string): boolean => {
    const sha256 = createHash("sha256").update(text).digest("hex");
    return existsSync(join(blobs, sha256.slice(0, 2), sha256));
  };
  const first = await made(["only the first", "both"]);
  const second = await made(["both"]);
  await client.task.delete({ path: { taskID: first } });
  // Everything is an hour old when the service starts again.
  const before = new Date(Date.now() - 3_600_000);
  for (const name of readdirSync(blobs, { recursive: true, encoding: "utf8" }))
    utimesSync(join(blobs, name), before, before);
  expect([stands("only the first"), stands("both")]).toEqual([true, true]);
  await service[Symbol.asyncDispose]();
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: join(root.path, "config.jsonc") });
  await expect.poll(() => stands("only the first"), { timeout: 10_000 }).toBe(false);
  expect(stands("both")).toBe(true);
  // The other one goes on with all it had, and can be downloaded.
  const again = createServiceClient({ baseUrl: service.url, directory, throwOnError: true });
  await again.task.message({ path: { taskID: second }, body: { source: "test", text: "Once more." } });
  const { data: ended } = await again.task.wait({ path: { taskID: second }, timeoutMs: 15_000 });
  expect(ended?.lifecycleStatus, ended?.error).toBe("completed");
  expect((await again.task.projectArchive({ path: { taskID: second } })).data?.size).toBeGreaterThan(0);
});
