import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { packageLimits } from "../../../src/squad/package/manifest.ts";
import { digestOf } from "../../../src/squad/package/package.ts";
import { git, makeProject, readText, temporary, until } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { agentOf, filesOf, type Texts, textsOf, writePackage, zipOf } from "../../harness/double/squads.ts";

/** Squads over HTTP on a real port: the catalog, packages in and out, and Tasks that keep what they began with. */

let root: ReturnType<typeof temporary>;
let service: TestService;
let provider: MockProvider;
let scripts: Record<string, MockTurn[]> = {};
let count = 0;

const start = () => startService(join(root.path, "data"), { SERVICE_LOG_LEVEL: "silent" });

beforeAll(async () => {
  root = temporary("sortie-squads-");
  provider = await startMockProvider(({ first, turn }) => {
    const script = Object.entries(scripts).find(([marker]) => first.includes(marker))?.[1] ?? [];
    return script[turn] ?? { text: "Done." };
  });
  mkdirSync(join(root.path, "data"));
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "mock-key-0123456789" };
  writeFileSync(join(root.path, "data/config.jsonc"), JSON.stringify({ model: "mock/large", providers: { mock } }));
  service = await start();
});
afterAll(async () => {
  await service.close();
  await provider.close();
  root[Symbol.dispose]();
});

const folder = () => join(root.path, `f-${(count += 1)}`);
const project = () => makeProject(folder(), { "a.txt": "one\n" });
const of = (directory?: string) =>
  createServiceClient({ baseUrl: service.url, ...(directory === undefined ? {} : { directory }) }).squad;
const pack = (id: string, changes: Record<string, string | undefined> = {}, fields: object = {}) =>
  writePackage(folder(), textsOf(changes, { id, ...fields }));
const digest = (texts: Texts) => digestOf(filesOf(texts));
const installed = () => readdirSync(join(root.path, "data/squads"));

describe("packages", () => {
  test("are installed from a folder, seen by every project, read, upgraded by digest and removed", async () => {
    const texts = textsOf({}, { id: "one" });
    const first = await of().install({ body: { path: writePackage(folder(), texts), scope: "user" } });
    const squad = { id: "one", version: "1.0.0", digest: digest(texts), scope: "user" };
    expect(first.data).toEqual({ squad, replaced: null });

    const { data: catalog } = await of(project()).list();
    expect(catalog).toMatchObject({ healthy: true, complete: true, issues: [], warnings: [] });
    expect(catalog?.squads.find(({ id }) => id === "one")).toMatchObject({ ...squad, name: "API" });
    const { data: detail } = await of().get({ path: { id: "one" } });
    expect(detail?.agents.map(({ name, instructions }) => [name, instructions])).toEqual([
      ["orchestrator", "You are orchestrator."],
      ["qa", "You are qa."],
    ]);
    expect(detail).toMatchObject({ readme: "# API\n", skills: [{ name: "routes", text: "One file each." }] });

    const next = textsOf({ "agents/qa.md": agentOf("qa", "", "You are another.") }, { id: "one", version: "1.1.0" });
    const path = writePackage(folder(), next);
    const blind = await of().install({ body: { path, scope: "user" } });
    expect(blind.error).toMatchObject({ status: 409, code: "squad_changed", details: { digest: squad.digest } });
    const wrong = await of().install({ body: { path, scope: "user", expectedDigest: "0".repeat(64) } });
    expect(wrong.error).toMatchObject({ status: 409, code: "squad_changed" });
    const upgraded = await of().install({ body: { path, scope: "user", expectedDigest: squad.digest } });
    expect(upgraded.data).toEqual({
      squad: { ...squad, version: "1.1.0", digest: digest(next) },
      replaced: squad.digest,
    });
    expect(readText(root.path, "data/squads/one/agents/qa.md")).toContain("You are another.");

    const stale = await of().remove({ path: { id: "one" }, query: { expectedDigest: squad.digest } });
    expect(stale.error).toMatchObject({ status: 409, code: "squad_changed" });
    const removed = await of().remove({ path: { id: "one" } });
    expect(removed.data).toEqual({ id: "one", scope: "user", removed: true });
    expect((await of().remove({ path: { id: "one" } })).error).toMatchObject({ status: 404, code: "squad_not_found" });
    expect((await of().get({ path: { id: "one" } })).error).toMatchObject({ status: 404, code: "squad_not_found" });
    expect(installed()).toEqual([]);
  });

  test("come out of a ZIP, of the folder or of what is in it", async () => {
    const texts = textsOf({}, { id: "zipped" });
    const nested = Object.fromEntries(Object.entries(texts).map(([path, text]) => [`top/${path}`, text]));
    for (const form of [texts, nested]) {
      const zip = (await zipOf(form)).toString("base64");
      const { data } = await of().install({ body: { zip, scope: "user" } });
      expect(data?.squad).toMatchObject({ id: "zipped", digest: digest(texts) });
    }
    await of().remove({ path: { id: "zipped" } });
  });

  test("come out of a commit, not out of the files that stand there", async () => {
    const texts = textsOf({}, { id: "tree" });
    const below = Object.fromEntries(Object.entries(texts).map(([path, text]) => [`squads/tree/${path}`, text]));
    const repository = makeProject(folder(), { ...below, "other.txt": "x" });
    git(repository, "tag", "v1");
    writeFileSync(join(repository, "squads/tree/README.md"), "# Changed\n");
    git(repository, "commit", "-qam", "second");
    const at = (ref: string) => of().validate({ body: { git: { path: join(repository, "squads/tree"), ref } } });
    expect((await at("v1")).data?.squad?.digest).toBe(digest(texts));
    expect((await at("main")).data?.squad?.digest).toBe(digest({ ...texts, "README.md": "# Changed\n" }));
    expect((await at("v2")).data).toMatchObject({ valid: false, issues: [{ code: "not_readable" }] });
    symlinkSync("README.md", join(repository, "squads/tree/LICENSE"));
    git(repository, "add", "-A");
    git(repository, "commit", "-qm", "third");
    expect((await at("HEAD")).data).toMatchObject({ valid: false, issues: [{ file: "LICENSE", code: "link" }] });
    const plain = await of().validate({ body: { git: { path: pack("plain"), ref: "main" } } });
    expect(plain.error).toMatchObject({ status: 422, code: "not_a_git_worktree" });
  });

  test("of a project are seen there alone, and take the place of the user's with a warning", async () => {
    const [here, elsewhere] = [project(), project()];
    await of().install({ body: { path: pack("both"), scope: "user" } });
    const nowhere = await of().install({ body: { path: pack("both"), scope: "project" } });
    expect(nowhere.error).toMatchObject({ status: 400, code: "directory_required" });
    await of(here).install({ body: { path: pack("both", {}, { version: "2.0.0" }), scope: "project" } });
    expect(existsSync(join(here, ".sortie/squads/both/squad.json"))).toBe(true);
    const versions = async (directory: string) =>
      (await of(directory).list()).data?.squads.filter(({ id }) => id === "both").map(({ version }) => version);
    expect(await versions(here)).toEqual(["2.0.0"]);
    expect(await versions(elsewhere)).toEqual(["1.0.0"]);
    expect((await of(here).list()).data).toMatchObject({
      healthy: true,
      warnings: [{ code: "shadowed", squad: "both" }],
    });
    // The project's before the user's.
    expect((await of(here).remove({ path: { id: "both" } })).data?.scope).toBe("project");
    expect((await of(here).remove({ path: { id: "both" } })).data?.scope).toBe("user");
    expect(git(here, "status", "--porcelain")).toBe("");
  });

  test("that are broken are refused with every place, and leave nothing", async () => {
    const path = pack("broken", { "agents/qa.md": agentOf("qa", "runtime: acp:x\n").replace("shell", "sudo") });
    const { error } = await of().install({ body: { path, scope: "user" } });
    expect(error).toMatchObject({
      status: 422,
      code: "squad_invalid",
      issues: [
        { path: "agents/qa.md:4:15", code: "unknown_tool" },
        { path: "agents/qa.md:5:1", code: "runtime_not_allowed" },
      ],
    });
    expect((await of().validate({ body: { path } })).data).toMatchObject({
      valid: false,
      squad: null,
      issues: [{ file: "agents/qa.md", line: 4 }, { line: 5 }],
    });
    const deep = pack("deep", { "skills/routes/a/b/c/run.sh": "x" });
    expect((await of().validate({ body: { path: deep } })).data?.issues).toMatchObject([
      { file: "skills/routes/a", code: "not_a_file" },
    ]);
    const own = await of().install({ body: { path: pack("base"), scope: "user" } });
    expect(own.error).toMatchObject({ code: "squad_invalid", issues: [{ code: "builtin_id" }] });
    expect((await of().remove({ path: { id: "base" } })).error).toMatchObject({ status: 400, code: "invalid_request" });
    expect((await of().remove({ path: { id: "..%2f.." } })).error).toMatchObject({ status: 404 });
    expect(installed()).toEqual([]);
  });

  test("in hostile ZIPs do no harm", async () => {
    const texts = textsOf({}, { id: "hostile" });
    const renamed = (from: string, to: string, zip: Buffer) =>
      Buffer.from(zip.toString("latin1").replaceAll(from, to), "latin1");
    const cases: [zip: Buffer, code: string][] = [
      [await zipOf({ ...texts, "README.md": "x".repeat(packageLimits.fileBytes + 1) }), "too_large"],
      [renamed("xx/squad.json", "../squad.json", await zipOf({ ...texts, "xx/squad.json": "{}" })), "invalid_zip"],
      [renamed("agents/qb.md", "agents/qa.md", await zipOf({ ...texts, "agents/qb.md": agentOf("qa") })), "duplicate"],
      [await zipOf({ ...texts, "bin/x": "x" }), "unexpected_file"],
      [await zipOf({ ...texts, LICENSE: "/etc/passwd" }, 0o120777), "link"],
      [await zipOf(Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`a/${at}`, ""]))), "too_many_files"],
      [
        await zipOf({
          ...texts,
          ...Object.fromEntries(["a", "b", "c"].map((name) => [`agents/${name}.md`, " ".repeat(60_000)])),
        }),
        "ratio",
      ],
      [Buffer.from("PK"), "invalid_zip"],
    ];
    for (const [zip, code] of cases) {
      const { data } = await of().validate({ body: { zip: zip.toString("base64") } });
      expect([code, data?.valid, data?.issues[0]?.code]).toEqual([code, false, code]);
    }
    // Control: the same package in order.
    const { data } = await of().validate({ body: { zip: (await zipOf(texts)).toString("base64") } });
    expect(data?.valid).toBe(true);
  });

  test("come from folders that may be read, and from one source", async () => {
    const refusal = async (body: object) => (await of().install({ body: { scope: "user", ...body } as never })).error;
    expect(await refusal({ path: "/etc" })).toMatchObject({ status: 403, code: "directory_not_allowed" });
    expect(await refusal({ path: join(root.path, "data/squads") })).toMatchObject({ code: "directory_not_allowed" });
    expect(await refusal({ path: join(root.path, "none") })).toMatchObject({ status: 400, code: "directory_invalid" });
    const linked = project();
    symlinkSync(root.path, join(linked, ".sortie"));
    const through = await of(linked).install({ body: { path: pack("linked"), scope: "project" } });
    expect(through.error).toMatchObject({ status: 400, code: "directory_invalid" });
    expect(existsSync(join(root.path, "squads"))).toBe(false);
    expect(await refusal({ path: "relative" })).toMatchObject({ status: 400, code: "directory_invalid" });
    expect(await refusal({})).toMatchObject({
      status: 400,
      message: "body: Expected one of path, zip and git, got none",
    });
    expect(await refusal({ path: "/x", zip: "" })).toMatchObject({ status: 400, code: "invalid_request" });
    expect(await refusal({ git: { path: "/x", ref: "--upload-pack=x" } })).toMatchObject({ status: 400 });
    expect(await refusal({ path: "/x", scope: "builtin" })).toMatchObject({ status: 400 });
  });

  test("are installed once for a key, also when the answer was lost", async () => {
    const path = pack("keyed");
    const send = (body: object) =>
      fetch(`${service.url}/squad/install`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "install-1" },
        body: JSON.stringify(body),
      });
    const first = await send({ path, scope: "user" });
    const answer = await first.text();
    await of().remove({ path: { id: "keyed" } });
    const again = await send({ path, scope: "user" });
    expect([again.status, again.headers.get("idempotent-replayed"), await again.text()]).toEqual([200, "true", answer]);
    expect(installed()).toEqual([]);
    expect((await send({ path, scope: "project" })).status).toBe(409);
  });
});

describe("a recommendation", () => {
  test("is of those that say they own the phase, in a fixed order, with reasons", async () => {
    const directory = project();
    const owning = (id: string, owns: object, fields: object = {}) => pack(id, {}, { id, owns, ...fields });
    await of().install({ body: { path: owning("wide", { domains: ["billing", "tax"] }), scope: "user" } });
    await of().install({ body: { path: owning("exact", { phases: ["billing/refunds"] }), scope: "user" } });
    await of(directory).install({ body: { path: owning("near", { domains: ["billing"] }), scope: "project" } });
    await of().install({ body: { path: owning("similar", {}, { summary: "Billing and refunds." }), scope: "user" } });
    await of().install({
      body: { path: owning("office", { domains: ["billing"] }, { pillars: ["work"] }), scope: "user" },
    });
    const { data } = await of(directory).recommend({ query: { phase: "Billing/Refunds" } });
    expect(data?.owners.map(({ id, reasons }) => [id, ...reasons])).toEqual([
      ["exact", "It owns the phase billing/refunds."],
      ["near", "It owns the domain billing with every phase."],
      ["wide", "It owns the domain billing with every phase."],
    ]);
    expect(data?.related.map(({ id }) => id)).toEqual(["similar"]);
    expect(data?.revision).toBe((await of(directory).list()).data?.revision);
    const none = await of(directory).recommend({ query: { phase: "cooking" } });
    expect(none.data).toMatchObject({ owners: [], related: [] });

    writePackage(join(directory, ".sortie/squads/bad"), { "squad.json": "{" });
    const refused = await of(directory).recommend({ query: { phase: "billing" } });
    expect(refused.error).toMatchObject({ status: 422, code: "squad_invalid" });
    expect((await of(directory).list()).data).toMatchObject({ healthy: false, complete: true });
    for (const id of ["wide", "exact", "similar", "office"]) await of().remove({ path: { id } });
  });
});

describe("a Task", () => {
  const told = (marker: string) =>
    provider.requests
      .filter(({ first }) => first.includes(marker))
      .map(({ body }) => /I am revision (\d)/.exec(JSON.stringify(body.messages))?.[1]);

  test("reads the skills of its squad before those of the project", async () => {
    const skill = (text: string) =>
      `---\nname: routes\ndescription: How ${text} does it.\n---\n\nThe way of the ${text}.\n`;
    const directory = makeProject(folder(), { ".agents/skills/routes/SKILL.md": skill("project") });
    const changes = {
      "agents/orchestrator.md": agentOf("orchestrator").replace("[read, shell]", "[read, skill]"),
      "skills/routes/SKILL.md": skill("squad"),
    };
    await of().install({ body: { path: pack("skilled", changes), scope: "user" } });
    scripts = { "[skilled]": [{ calls: [{ tool: "skill", input: { name: "routes" } }] }, { text: "Done." }] };
    const client = createServiceClient({ baseUrl: service.url, directory });
    const body = { request: "go [skilled]", productPillar: "code", promptProfile: "skilled" } as const;
    const taskID = (await client.task.create({ body })).data?.taskID ?? "";
    await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
    const [first, second] = provider.requests.filter((request) => request.first.includes("[skilled]"));
    const system = JSON.stringify(first?.body.messages[0]);
    expect(system).toContain("Skills of your squad");
    expect(system).toContain("- routes: How squad does it.");
    expect(system).not.toContain("How project does it.");
    expect(first?.body.tools?.map((tool) => tool.function.name)).toEqual(["read", "skill", "give_up"]);
    expect(second?.body.messages.at(-1)?.content).toBe("The way of the squad.");
    await of().remove({ path: { id: "skilled" } });
  });

  test("created on revision 1 ends on it, after 2 was installed, 1 is gone, and the service was another", async () => {
    const directory = project();
    const revision = (number: number) =>
      writePackage(
        folder(),
        textsOf(
          {
            "agents/orchestrator.md": agentOf("orchestrator", "", `I am revision ${number}.`),
            "agents/qa.md": undefined,
          },
          { id: "team", version: `${number}.0.0`, agents: [] },
        ),
      );
    const first = await of().install({ body: { path: revision(1), scope: "user" } });
    scripts = {
      "[pinned]": [
        { calls: [{ tool: "shell", input: { command: "sleep 0.3" } }], hold: true },
        { text: "Done.", hold: true },
      ],
    };
    const client = createServiceClient({ baseUrl: service.url, directory });
    const body = { request: "go [pinned]", productPillar: "code", promptProfile: "team" } as const;
    const created = await client.task.create({ body });
    const squad = { id: "team", version: "1.0.0", digest: first.data?.squad.digest };
    expect(created.data?.squad).toEqual(squad);
    await until(
      async () => provider.held(),
      (held) => held === 1,
    );

    const second = await of().install({
      body: { path: revision(2), scope: "user", expectedDigest: first.data?.squad.digest ?? "" },
    });
    expect(second.data?.replaced).toBe(squad.digest);
    await of().remove({ path: { id: "team" } });
    await service.close();
    service = await start();
    provider.release();

    const again = createServiceClient({ baseUrl: service.url, directory });
    const taskID = created.data?.taskID ?? "";
    const { data } = await again.task.wait({ path: { taskID }, timeoutMs: 15_000 });
    expect(data).toMatchObject({ lifecycleStatus: "completed", squad: { ...squad, scope: "user" } });
    expect([...new Set(told("[pinned]"))]).toEqual(["1"]);
    expect(told("[pinned]").length).toBeGreaterThanOrEqual(2);
    const refused = await again.task.create({ body });
    expect(refused.error).toMatchObject({ status: 422, code: "squad_not_available" });
  });
});
