import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Dispatched } from "../../src/domain/state/mission.ts";
import type { MissionRun } from "../../src/mission/run.ts";
import { verifyProducedSquad } from "../../src/mission/worker/produced-squad.ts";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { temporary } from "../harness/project.ts";
import { agentOf, textsOf, writePackage } from "../harness/double/squads.ts";

/**
 * A squad that stands in the catalog exactly as it was installed is still not used when it is not what a production may
 * be: the limits of the writer hold again where it is found, also for one that came by another way.
 */

const names = (count: number, what: string) => Array.from({ length: count }, (_, at) => `${what}-${at}`);

/** A package of so many agents and skills, which owns the phase; `judge`: the last agent judges the work. */
const packed = (
  {
    agents = 3,
    judge = true,
    skills = 0,
    fields = {},
    head = "",
  }: { agents?: number; judge?: boolean; skills?: number; fields?: object; head?: string },
  more: Record<string, string> = {},
) => {
  const crew = judge ? [...names(agents - 1, "agent"), "reviewer"] : names(agents, "agent");
  const known = names(skills, "skill");
  return textsOf(
    {
      "agents/qa.md": undefined,
      "skills/routes/SKILL.md": undefined,
      "agents/orchestrator.md": agentOf("orchestrator", `delegates: [${crew.join(", ")}]\n`),
      ...Object.fromEntries(crew.map((name) => [`agents/${name}.md`, agentOf(name, head)])),
      ...Object.fromEntries(
        known.map((name) => [`skills/${name}/SKILL.md`, `---\nname: ${name}\ndescription: How.\n---\n\nSo.\n`]),
      ),
      ...more,
    },
    { agents: crew, skills: known, ...fields },
  );
};

type Place = { directory: string; dataDir: string };

/** What the Mission records of the squad `api`, installed in the project as it stands in the catalog. */
const judged = async ({ directory, dataDir }: Place, { id = "api", phase = "payments/checkout" } = {}) => {
  const catalog = createCatalog({ dataDir, external: [], servers: ["docs"] });
  const found = (await catalog.scan(directory)).squads.find(({ squad }) => squad.id === "api");
  const squad = {
    id: "api",
    version: found?.squad.version ?? "1.0.0",
    digest: found?.digest ?? "0".repeat(64),
    scope: "project" as const,
  };
  const run = {
    stream: "ses_m",
    store: { state: () => Promise.resolve({ installed: { squad } }) },
    catalog,
    state: () => ({ directory, repository: null, tasks: [], plan: [{ id: "p", phase }] }),
  } as unknown as MissionRun;
  const task = { taskID: "task_1", phase: "p", production: { identity: "squad-sdk", squad: id } } as Dispatched;
  const { type, data } = await verifyProducedSquad(run, task);
  return type === "squad.refused" ? data.reason : type;
};

const at = async (write: (place: Place) => void, wanted?: Parameters<typeof judged>[1]) => {
  using root = temporary("sortie-reconcile-");
  const place = { directory: join(root.path, "project"), dataDir: join(root.path, "data") };
  for (const folder of Object.values(place)) mkdirSync(folder);
  write(place);
  return await judged(place, wanted);
};
const project = ({ directory }: Place, texts: ReturnType<typeof packed>, id = "api") =>
  writePackage(join(directory, ".sortie/squads", id), texts);

test.each([
  ["3 agents", { agents: 3 }],
  ["9 agents and 3 skills", { agents: 9, skills: 3 }],
])("%s are taken", async (_what, form) => {
  expect(await at((place) => project(place, packed(form)))).toBe("squad.reconciled");
});

test.each([
  ["2 agents", { agents: 2 }, /Expected 3 to 9 agents .* got 2/],
  ["10 agents", { agents: 10 }, /Expected 3 to 9 agents .* got 10/],
  ["3 agents of whom none reviews", { judge: false }, /Expected an agent named reviewer/],
  ["4 skills", { skills: 4 }, /Expected at most 3 skills, got 4/],
  ["another phase", { fields: { owns: { phases: ["web/shop"] } } }, /Expected `owns` to have the phase/],
])("%s are not", async (_what, form, why) => {
  expect(await at((place) => project(place, packed(form)))).toMatch(why);
});

test("a tool, a program or a file beside the words makes it no package at all", async () => {
  for (const more of [
    { "tools/run.sh": "rm -rf .\n" },
    { "mcp.json": "{}" },
    { "agents/agent-0.md": agentOf("agent-0").replace("tools: [read, shell]", "tools: [deploy]") },
  ])
    expect(await at((place) => project(place, packed({}, more)))).toMatch(/its package is broken/);
});

test("one that names a server of the operator's is a package, and is not taken", async () => {
  const naming = agentOf("agent-0").replace("tools: [read, shell]", "tools: [read, mcp__docs]");
  expect(await at((place) => project(place, packed({}, { "agents/agent-0.md": naming })))).toMatch(
    /Expected tools of the service alone for the agent agent-0, got mcp__docs/,
  );
});

test("one of the user's scope, another id, a phase that went, a broken neighbour, nothing at all", async () => {
  expect(await at(({ dataDir }) => writePackage(join(dataDir, "squads", "api"), packed({})))).toMatch(
    /found it in the scope user/,
  );
  expect(await at((place) => project(place, packed({})), { id: "other" })).toMatch(/Expected the id other, got api/);
  expect(
    await at((place) => {
      project(place, packed({}));
      writePackage(join(place.directory, ".sortie/squads/broken"), { "squad.json": "{" });
    }),
  ).toMatch(/expected a healthy and complete catalog/);
  expect(await at(() => {})).toMatch(/found nothing of that id/);
});
