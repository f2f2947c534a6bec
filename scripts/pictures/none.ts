import { join } from "node:path";
import { makeProject } from "../../test/harness/project.ts";
import { at, prepare, type World } from "./world.ts";

/** Somebody's first minute: no model, no project, no Task. */
export const none = async (): Promise<World> => {
  const ground = await prepare({});
  const project = makeProject(join(ground.folder, "garden"), { "README.md": "# Garden\n" });
  const here = at(project);
  return {
    url: ground.url,
    shots: [
      { name: "first", path: "/" },
      { name: "first-whole", path: "/", whole: true },
      { name: "project", path: `/${here}`, whole: true },
      { name: "board", path: `/${here}&view=board&state=failed` },
      {
        name: "composer",
        path: `/${here}`,
        before: async (page) => {
          await page.getByLabel("What should be done").fill("Find out why a sum of cents drifts, and mend it.");
          await page.getByRole("button", { name: "Options" }).click();
          await page.getByLabel("Priority").waitFor();
          await page.getByRole("button", { name: "Start Task" }).focus();
        },
      },
      { name: "no-folder", path: `/${at("/nowhere/at/all")}` },
      { name: "missions", path: `/ui/missions${here}` },
      { name: "usage", path: `/ui/usage${here}` },
      { name: "usage-no-project", path: "/ui/usage" },
      { name: "models", path: `/ui/models${here}`, whole: true },
      { name: "squads", path: `/ui/squads${here}` },
      { name: "doctor", path: `/ui/doctor${here}`, whole: true },
      { name: "missing", path: "/ui/nowhere" },
      { name: "no-task", path: "/ui/task/task_01jzzzzzzzzzzzzzzzzzzzzzzz" },
    ],
    [Symbol.asyncDispose]: () => ground[Symbol.asyncDispose](),
  };
};
