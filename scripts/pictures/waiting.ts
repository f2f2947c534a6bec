import { cpSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { MockRequest, MockTurn } from "../../test/harness/double/mock-provider.ts";
import { makeProject, until } from "../../test/harness/project.ts";
import { fix } from "./requests.ts";
import { says } from "./says.ts";
import { at, model, need, prepare, type World } from "./world.ts";

/**
 * Everything that waits for a person: a question, approvals of a plan and of a landing, a budget, what a project
 * requests.
 */

const question: MockTurn = {
  text: "Both readings fit the tests, and undoing the wrong one later would change every invoice.",
  calls: [
    {
      tool: "ask",
      input: {
        question: "Should a total be rounded **once at the end**, or **each amount** before it is added?",
        options: ["Once at the end", "Each amount"],
        default: "Once at the end",
      },
    },
  ],
};

const script = (request: MockRequest): MockTurn =>
  request.first.includes("Round totals") && request.turn === 0 ? question : says(request);

const environment = `// What our tests need.
{
  "setup": "npm ci",
  "network": ["registry.npmjs.org"],
  "variables": { "TZ_OF_INVOICES": "Europe/Berlin" },
  "secrets": ["BILLING_DB_PASSWORD"],
  "limits": { "setupSeconds": 300 },
}
`;

const servers = {
  mcpServers: {
    tickets: { url: "https://tickets.example.com/mcp", headers: { Authorization: "env:TICKETS_AUTH" } },
    docs: { command: "docs-mcp", args: ["--folder", "docs"] },
    spy: { command: "spy", env: { LD_PRELOAD: "/tmp/x.so" } },
  },
};

export const waiting = async (): Promise<World> => {
  const ground = await prepare({ settings: { model }, says: script });
  const project = join(ground.folder, "billing");
  cpSync(join(dirname(fileURLToPath(import.meta.url)), "../../examples/sum"), project, { recursive: true });
  makeProject(project, { ".mcp.json": JSON.stringify(servers), ".sortie/environment.jsonc": environment });
  const client = ground.client(project);
  const asking = async (request: string, title: string, more: object): Promise<string> => {
    const { taskID } = need(
      await client.task.create({ body: { request, title, productPillar: "code", source: "web", model, ...more } }),
    );
    await until(
      async () => need(await client.task.status({ path: { taskID } })),
      ({ pending }) => pending.length > 0,
      60_000,
    );
    return taskID;
  };
  const first = { request: fix, title: "Add amounts in whole cents", productPillar: "code" as const };
  const { taskID: fixed } = need(await client.task.create({ body: { ...first, model: "builtin/rules-1" } }));
  await client.task.wait({ path: { taskID: fixed } });
  const asked = await asking("Round totals to whole cents.", "Round totals to whole cents", {});
  const landing = await asking("Make sum reject anything that is not a number.", "Reject values that are not numbers", {
    approve: ["landing"],
    checks: ["npm test"],
  });
  const wake = async (title: string, more: object): Promise<string> =>
    need(
      await client.mission.wake({
        body: { text: "Support amounts in more than one currency, and document it.", title, model, ...more },
      }),
    ).missionID;
  const planned = await wake("More than one currency", { approve: ["plan"] });
  const stopped = await wake("Currencies, on a small budget", { budget: { maxSteps: 2 } });
  const isIn = (missionID: string, wanted: string) =>
    until(
      async () => need(await client.mission.status({ path: { missionID } })),
      ({ state }) => state === wanted,
      60_000,
    );
  await isIn(planned, "asking");
  await isIn(stopped, "paused");
  const here = at(project);
  return {
    url: ground.url,
    shots: [
      { name: "tasks", path: `/${here}` },
      { name: "question", path: `/ui/task/${asked}${here}` },
      { name: "approval", path: `/ui/task/${landing}${here}` },
      { name: "mission-approval", path: `/ui/mission/${planned}${here}` },
      { name: "mission-budget", path: `/ui/mission/${stopped}${here}` },
      {
        name: "budget",
        path: `/ui/mission/${stopped}${here}`,
        before: async (page) => page.getByRole("button", { name: "Raise budget" }).click(),
      },
      { name: "new-mission", path: `/ui/missions${here}` },
      { name: "environment", path: `/ui/environment${here}` },
      { name: "manual", path: `/ui/manual/rules${here}` },
    ],
    [Symbol.asyncDispose]: () => ground[Symbol.asyncDispose](),
  };
};
