import { join } from "node:path";
import { makeProject, until } from "../../test/harness/project.ts";
import { type MockTurn, textOf } from "../../test/harness/double/mock-provider.ts";
import { arabic, putMuch } from "../../test/web/large-task.ts";
import { at, model, need, prepare, type World } from "./world.ts";

/** Far too much of everything, as `test/web/large-task.ts` puts it, and a Mission of fifty Tasks. */

const title = (index: number): string =>
  index % 3 === 0
    ? `${index} ${arabic}`.slice(0, 120)
    : `Part ${index} ${"of a very long name ".repeat(6)}`.slice(0, 120);

const phases = Array.from({ length: 50 }, (_, index) => ({
  id: `part-${index}`,
  title: title(index),
  objective: `${arabic} ${"W".repeat(200)}`,
  acceptance: [arabic, "W".repeat(300)],
}));

const mission = (turn: number): MockTurn =>
  [
    { text: `**${arabic}**\n\n${"Unbreakable".repeat(40)}`, calls: [{ tool: "plan", input: { phases } }] },
    {
      calls: phases.map(({ id, title: name }) => ({
        tool: "dispatch",
        input: { phase: id, title: name, request: `Say that ${id} is done.` },
      })),
    },
  ][turn] ?? { text: "All of it is under way." };

export const much = async (): Promise<World> => {
  let project = "";
  let ids: string[] = [];
  const ground = await prepare({
    settings: { model },
    says: ({ body, turn }) =>
      textOf(body.messages[0]?.content).includes("You lead one Mission") ? mission(turn) : { text: "Done." },
    async seed(dataDir) {
      project = makeProject(join(dataDir, "../a-project-with-a-name-that-has-no-end"), { "a.txt": "one\n" });
      ids = await putMuch(dataDir, project);
    },
  });
  const client = ground.client(project);
  const { missionID } = need(
    await client.mission.wake({
      body: { text: `${arabic} `.repeat(80), title: `${arabic} `.repeat(9).slice(0, 200), model },
    }),
  );
  await until(
    async () => need(await client.mission.status({ path: { missionID } })),
    ({ tasks, status, agentStatus }) => tasks.length === 50 && status === "inactive" && agentStatus === "inactive",
    240_000,
  );
  const here = at(project);
  const wide = `/ui/task/${ids[1]}${here}`;
  return {
    url: ground.url,
    shots: [
      { name: "tasks", path: `/${here}` },
      { name: "board", path: `/${here}&view=board` },
      { name: "task", path: wide },
      {
        name: "slices",
        path: wide,
        before: async (page) => {
          const slices = page.getByRole("button", { name: /^Slices/ });
          if (await slices.isVisible()) await slices.click();
        },
      },
      { name: "checks", path: `${wide}&tab=checks` },
      { name: "events", path: `${wide}&tab=events` },
      { name: "topology", path: `${wide}&tab=topology` },
      { name: "changes", path: `${wide}&tab=changes` },
      { name: "long", path: `/ui/task/${ids[0]}${here}` },
      { name: "mission", path: `/ui/mission/${missionID}${here}` },
      {
        name: "plan",
        path: `/ui/mission/${missionID}${here}`,
        before: async (page) => {
          const plan = page.getByRole("button", { name: /^Plan/ });
          if (await plan.isVisible()) await plan.click();
        },
      },
      { name: "missions", path: `/ui/missions${here}` },
      { name: "usage", path: `/ui/usage${here}` },
      {
        name: "palette",
        path: `/${here}`,
        before: async (page) => page.keyboard.press("Control+k"),
      },
    ],
    [Symbol.asyncDispose]: () => ground[Symbol.asyncDispose](),
  };
};
