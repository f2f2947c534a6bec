import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { packageLimits } from "../../src/squad/package/manifest.ts";
import type { ScopedIssue } from "../../src/squad/catalog/scope.ts";
import type { Squad } from "../../src/squad/squad.ts";
import { snapshotOf } from "../../src/squad/package/snapshot.ts";
import { createSquads } from "../../src/squad/revision.ts";
import { createBlobs } from "../../src/store/blob/folder.ts";
import { tools } from "../../src/tool/registry.ts";
import { temporary } from "../harness/project.ts";
import { agentOf, manifestOf, textsOf, writePackage } from "../harness/double/squads.ts";

let root: ReturnType<typeof temporary>;
beforeEach(() => {
  root = temporary("sortie-catalog-");
  mkdirSync(join(root.path, "data/squads"), { recursive: true });
  mkdirSync(join(root.path, "project"));
});
afterEach(() => root[Symbol.dispose]());

const data = () => join(root.path, "data");
const project = () => join(root.path, "project");
const user = (id: string, fields: object = {}) =>
  writePackage(join(data(), "squads", id), textsOf({}, { id, ...fields }));
const own = (id: string, fields: object = {}) =>
  writePackage(join(project(), ".sortie/squads", id), textsOf({}, { id, ...fields }));
const catalog = (external: string[] = []) => createCatalog({ dataDir: data(), external });
const shown = (issues: readonly ScopedIssue[]) => issues.map(({ scope, squad, code }) => `${scope} ${squad} ${code}`);

/** Built in beside `base`; a test of its own looks at them. */
const shipped = ["advanced", "docs", "research"];

const scan = async () => {
  const { squads, issues, warnings, ...rest } = await catalog().scan(project());
  return {
    ...rest,
    squads: squads.flatMap(({ squad, scope }) =>
      shipped.includes(squad.id) ? [] : [`${scope} ${squad.id} ${squad.version}`],
    ),
    issues: shown(issues),
    warnings: shown(warnings),
  };
};

test("what is built in is healthy, says what it is not for, and can do what its handbooks say", async () => {
  const { squads, issues } = await catalog().scan();
  expect(issues).toEqual([]);
  expect(squads.map(({ squad }) => squad.id)).toEqual([...shipped, "base"].toSorted());
  for (const { squad } of squads) {
    const { orchestrator, agents, notFor } = squad;
    expect(notFor.length).toBeGreaterThan(40);
    const names = agents.map(({ name }) => name);
    // Whoever may be delegated to is there, and whoever is there is delegated to, or reviews.
    expect([...orchestrator.delegates, ...names.filter((name) => name === "reviewer")].toSorted()).toEqual(
      names.toSorted(),
    );
    for (const agent of [orchestrator, ...agents]) {
      expect(agent.tools.includes("delegate"), agent.name).toBe(agent.delegates.length > 0);
      expect(agent.tools.includes("verdict"), agent.name).toBe(agent.name === "reviewer");
      // A tool that the handbook speaks of is one that the agent has.
      for (const [, tool = ""] of agent.instructions.matchAll(/`([a-z_]+)`/g))
        if (Object.hasOwn(tools, tool)) expect(agent.tools, `${squad.id} ${agent.name}: ${tool}`).toContain(tool);
    }
  }
});

describe("the catalog", () => {
  test("control: three scopes in order", async () => {
    user("api");
    own("web");
    expect(await scan()).toEqual({
      healthy: true,
      complete: true,
      revision: expect.stringMatching(/^[0-9a-f]{16}$/) as string,
      squads: ["user api 1.0.0", "builtin base 0.3.0", "project web 1.0.0"],
      issues: [],
      warnings: [],
    });
  });

  test("the project's squad takes the place of the user's, with a warning", async () => {
    user("api");
    own("api", { version: "2.0.0" });
    const found = await scan();
    expect(found).toMatchObject({ healthy: true, warnings: ["user api shadowed"] });
    expect(found.squads).toContain("project api 2.0.0");
    user("api", { version: "1.0.1" });
    expect((await scan()).revision).not.toBe(found.revision);
    user("api");
    expect((await catalog().find("api", project()))?.squad.version).toBe("2.0.0");
    expect((await catalog().find("api"))?.squad.version).toBe("1.0.0");
  });

  test("what is broken is an issue and hides nothing", async () => {
    user("api");
    user("web", { version: "one" });
    user("base");
    writePackage(join(data(), "squads/copy"), textsOf());
    symlinkSync(join(data(), "squads/api"), join(data(), "squads/linked"));
    writeFileSync(join(data(), "squads/notes.txt"), "mine");
    own("api", { pillars: [] });
    expect(await scan()).toMatchObject({
      healthy: false,
      complete: true,
      squads: ["user api 1.0.0", "builtin base 0.3.0"],
      issues: [
        "user linked link",
        "user web invalid_format",
        "user copy duplicate_id",
        "project api too_small",
        "user base builtin_id",
      ],
      warnings: ["user notes.txt not_a_package"],
    });
    expect(await catalog().find("web", project())).toBeUndefined();
    expect((await catalog().find("base", project()))?.scope).toBe("builtin");
  });

  test("a folder of packages that cannot be read makes it incomplete", async () => {
    mkdirSync(join(project(), ".sortie"));
    symlinkSync(join(data(), "squads"), join(project(), ".sortie/squads"));
    expect(await scan()).toMatchObject({ healthy: false, complete: false, issues: ["project  not_readable"] });
  });

  test("more than may be makes it incomplete, and what was read can be used", async () => {
    user("aaa");
    // Empty ones, which are quickly made: issues, but of a scope that was read to its end.
    const folders = Array.from({ length: packageLimits.packages }, (_, at) => join(data(), "squads", `p-${at}`));
    for (const folder of folders) mkdirSync(folder);
    const found = await scan();
    expect(found.complete).toBe(false);
    expect(found.issues.at(-1)).toBe("user  too_many_packages");
    expect(found.squads).toContain("user aaa 1.0.0");
    rmSync(folders[0] ?? "", { recursive: true });
    expect((await scan()).complete).toBe(true);
  });

  test("its revision changes with a package and comes back with it", async () => {
    const before = (await scan()).revision;
    user("api");
    const after = (await scan()).revision;
    expect(after).not.toBe(before);
    rmSync(join(data(), "squads/api"), { recursive: true });
    expect((await scan()).revision).toBe(before);
  });

  test("between the two renames of an upgrade the package before is there", async () => {
    user("api");
    renameSync(join(data(), "squads/api"), join(data(), "squads/.previous~api"));
    expect(await scan()).toMatchObject({ healthy: true, squads: ["user api 1.0.0", "builtin base 0.3.0"] });
    expect((await catalog().find("api"))?.squad.id).toBe("api");
    user("api", { version: "2.0.0" });
    expect((await scan()).squads).toEqual(["user api 2.0.0", "builtin base 0.3.0"]);
  });

  test("external agents are squads of the configuration", async () => {
    const { squads } = await catalog(["small"]).scan();
    expect(squads.map(({ squad }) => squad.id)).toEqual(["acp-small", ...shipped, "base"].toSorted());
    expect(await catalog(["small"]).isBuiltin("acp-small")).toBe(true);
  });
});

describe("a revision", () => {
  const squads = () => createSquads(createBlobs(join(root.path, "blobs")), catalog());

  test("is loaded by its digest when the package is another one, or gone, also by another service", async () => {
    const folder = user("api");
    const first = await squads().pin("api", project());
    writeFileSync(join(folder, "agents/qa.md"), agentOf("qa", "", "You are somebody else."));
    const second = await squads().pin("api", project());
    rmSync(folder, { recursive: true });
    expect(second.digest).not.toBe(first.digest);
    expect((await squads().load(first)).agents[0]?.instructions).toBe("You are qa.");
    expect((await squads().load(second)).agents[0]?.instructions).toBe("You are somebody else.");
    await expect(squads().pin("api", project())).rejects.toMatchObject({ code: "squad_not_available" });
  });

  test("a broken package says why it is not available", async () => {
    writePackage(join(data(), "squads/api"), { ...textsOf(), "squad.json": manifestOf({ version: "one" }) });
    await expect(squads().pin("api", project())).rejects.toThrow(
      'Expected promptProfile to be an installed squad (advanced, base, docs, research), got "api", whose package is broken (squad.json:3:3: version: Expected a semantic version',
    );
  });

  test("one of a service before there were packages is loaded as it was", async () => {
    const base = await catalog().find("base");
    const old = { ...base?.squad, notFor: undefined, owns: undefined, skills: undefined } as unknown as Squad;
    const blobs = createBlobs(join(root.path, "blobs"));
    const { sha256: digest } = await blobs.put(snapshotOf(old), true);
    const loaded = await squads().load({ id: "base", version: "0.2.0", digest, scope: "builtin" });
    expect(loaded).toEqual({ ...base?.squad, notFor: "", owns: { domains: [], phases: [] }, skills: [] });
  });
});
