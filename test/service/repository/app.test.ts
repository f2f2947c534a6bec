import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { generateKeyPairSync } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { createApp, type AppDouble } from "../../harness/double/forge/app.ts";
import { addForge, type ForgeDouble } from "../../harness/double/forge/double.ts";
import { canServe, type GitHost, startGitHost } from "../../harness/double/git-host.ts";
import { type Lab, logOf, makeLab, send, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A repository that a GitHub App opens: its signature, the tokens that it is given, their end and their loss. */

type Place = {
  lab: Lab;
  host: GitHost;
  forge: ForgeDouble;
  app: AppDouble;
  service: TestService;
};

describe.runIf(canServe)("a repository of a GitHub App", { timeout: 60_000 }, () => {
  let scope = new AsyncDisposableStack();
  afterEach(async () => {
    await scope.disposeAsync();
    scope = new AsyncDisposableStack();
  });

  const open = async (settings: { id?: string; key?: (own: string) => string } = {}): Promise<Place> => {
    const lab = scope.use(await makeLab());
    const host = scope.use(await startGitHost(lab.root));
    const forge = addForge(host, "github");
    const app = createApp(host);
    forge.app = app;
    const keyFile = join(lab.root, "app.pem");
    writeFileSync(keyFile, settings.key?.(app.key) ?? app.key, { mode: 0o600 });
    const match = `http://127.0.0.1:${host.port}/*`;
    const api = `http://127.0.0.1:${host.port}/api/v3`;
    const repositories = {
      allow: [match],
      credentials: [{ match, app: { id: settings.id ?? app.id, key: `file:${keyFile}` }, api }],
      fetchSeconds: 4,
    };
    const config = JSON.parse(readFileSync(lab.config, "utf8")) as object;
    writeFileSync(lab.config, JSON.stringify({ ...config, repositories }));
    const service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
    scope.defer(() => service.close());
    for (const name of ["acme/app", "acme/other", "elsewhere/app"]) host.make(name, { "a.txt": "one\n" });
    return { lab, host, forge, app, service };
  };
  const twice = [
    shell("echo two > b.txt"),
    { text: "Done.\n\nCommit: Add a file" },
    shell("echo three >> b.txt"),
    { text: "More.\n\nCommit: Add more" },
  ];
  const create = async ({ service, lab, host }: Place, name = "acme/app"): Promise<string> => {
    const body = { productPillar: "code", ...lab.request(twice), repository: { url: host.url(name) } };
    const answer = await send(service.url, "/task", { method: "POST", body });
    expect(answer.status, JSON.stringify(answer.body)).toBe(202);
    return String(answer.body["taskID"]);
  };
  const run = async (place: Place, name?: string) => {
    const taskID = await create(place, name);
    return { taskID, settled: await settledTask(place.service.url, taskID) };
  };
  const say = async ({ service }: Place, taskID: string) => {
    await send(service.url, `/task/${taskID}/message`, { method: "POST", body: { source: "t", text: "more" } });
    return settledTask(service.url, taskID);
  };

  test("fetches, pushes and proposes with one token, which reaches that repository alone and is written nowhere", async () => {
    const place = await open();
    const { app, forge, host, service, lab } = place;
    const { taskID, settled } = await run(place);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      landing: "pull-request",
      pullRequest: { number: 1, state: "open" },
    });
    expect(forge.violations).toEqual([]);
    expect(app.tokens).toMatchObject([{ repositories: ["acme/app"] }]);
    expect(forge.calls.filter((name) => name === "token")).toHaveLength(1);

    // Another repository of the same installation has a token of its own; Tasks that begin at once ask for one.
    const ids = [await create(place, "acme/other"), await create(place, "acme/other")];
    for (const id of ids) expect(await settledTask(service.url, id)).toMatchObject({ lifecycleStatus: "completed" });
    expect(app.tokens.map(({ repositories }) => repositories)).toEqual([["acme/app"], ["acme/other"]]);

    const needles = [...app.tokens.map(({ token }) => token), app.key.split("\n")[3] ?? "-"];
    const found: string[] = [];
    const walk = (folder: string): void => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) walk(path);
        else if (entry.isFile() && statSync(path).size < 50_000_000) {
          const text = readFileSync(path, "latin1");
          if (needles.some((needle) => text.includes(needle))) found.push(path);
        }
      }
    };
    walk(join(lab.root, "data"));
    expect(found).toEqual([]);
    const frames = JSON.stringify(await logOf(service.url, taskID));
    for (const needle of needles) expect(frames).not.toContain(needle);
    // Control: git's host was shown it.
    const basic = Buffer.from(`x-access-token:${needles[0]}`).toString("base64");
    expect(host.requests.some(({ authorization }) => authorization === `Basic ${basic}`)).toBe(true);
  });

  test("asks for another one before the end of the one that it has", async () => {
    const place = await open();
    // Within the time before its end in which another is asked for.
    place.app.lifetimeMs = 4 * 60_000;
    const { settled } = await run(place);
    expect(settled).toMatchObject({ lifecycleStatus: "completed" });
    expect(place.app.tokens.length).toBeGreaterThan(2);
  });

  test("a token that is revoked is asked for again, by git and by the forge's client", async () => {
    const place = await open();
    const { app, forge } = place;
    const { taskID } = await run(place);
    for (const given of app.tokens) given.revoked = true;
    const settled = await say(place, taskID);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({
      lifecycleStatus: "completed",
      pullRequest: { number: 1, state: "open" },
    });
    expect(forge.pulls).toMatchObject([{ title: "Add more" }]);
    expect(app.tokens).toHaveLength(2);
    // Revoked between the push and the pull request.
    const before = app.tokens.length;
    forge.troubles.push({ on: "find", status: 401, body: { message: "Bad credentials" } });
    const other = await run(place, "acme/other");
    expect(other.settled, other.settled.error).toMatchObject({ lifecycleStatus: "completed" });
    expect(app.tokens.length).toBe(before + 2);
    expect(forge.violations).toEqual([]);
  });

  test("a limit of requests is waited for", async () => {
    const place = await open();
    place.forge.troubles.push({ on: "token", status: 403, headers: { "retry-after": "1" } }, { on: "installation" });
    const { settled } = await run(place);
    expect(settled, JSON.stringify(settled.errorInfo)).toMatchObject({ lifecycleStatus: "completed" });
    expect(place.forge.troubles).toEqual([]);
  });

  test.each([
    ["where it is not installed", {}, "elsewhere/app", "is not installed there"],
    ["with another id", { id: "4712" }, "acme/app", "not known by this id and key"],
    ["with another key", { key: () => anotherKey() }, "acme/app", "not known by this id and key"],
  ] as const)("%s the Task fails at once, in words for the operator", async (_where, settings, name, words) => {
    const place = await open(settings);
    const { settled } = await run(place, name);
    expect(settled).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "repository_unavailable" } });
    expect(settled.error).toContain(words);
    expect(place.app.tokens).toEqual([]);
    // Control: where it is installed, or with its own id and key, there would be one.
    expect(place.forge.calls).toContain("installation");
  });

  test("a key that is none ends the start", async () => {
    await expect(open({ key: (own) => own.slice(0, 200) })).rejects.toThrow(
      /credentials\.0\.app\.key: expected the private key of a GitHub App in PEM, got none/,
    );
  });
});

const anotherKey = (): string =>
  generateKeyPairSync("rsa", {
    modulusLength: 2048,
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  }).privateKey;
