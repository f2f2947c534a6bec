import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Caller } from "../../config/caller.ts";
import { dataOf } from "../connection.ts";
import { assertKept, runDemo, patch, type Stage } from "./stage.ts";
import { show } from "../mission/action.ts";
import type { Screen } from "../terminal/screen.ts";
import { bytes, clean } from "../terminal/format.ts";
import { openZip } from "../verify/unzip.ts";

/**
 * `sortie demo --mission`: runs a list of three items to its end: one item needs a squad that is produced for it, one
 * depends on the others. Then it verifies the archive. Every statement it prints is verified; a false one ends the demo
 * with exit code 1.
 */

const squad = "amounts-docs";

const list = `1. Add amounts in whole cents

   \`\`\`diff
${patch.replaceAll(/^(?=.)/gm, "   ")}   \`\`\`

2. Say how amounts are added (squad: ${squad})

   \`\`\`md file=docs/amounts.md
   # Amounts

   Amounts are added in whole cents, so that 0.10 and 0.20 are 0.30.
   \`\`\`

3. Run the tests (after 1, 2)

Squad ${squad}:
- writer: Writes what a user of this package has to know about amounts.
- reader: Reads it as somebody who has not seen the code, and says what is missing.
- checker: Compares every statement with what the code does.
`;

export const demoMission = (caller: Pick<Caller, "bare" | "self">, screen: Screen): Promise<number> =>
  runDemo(caller, screen, walk);

const walk = async ({
  screen,
  folder,
  directory,
  before,
  git,
  target,
  client,
  signal,
  chapter,
}: Stage): Promise<void> => {
  const { dim, green } = screen.colors;

  chapter("The Mission: POST /mission/wake, which may create a squad");
  screen.say(dim(list.trim().replaceAll(/^(?=.)/gm, "  ")));
  const body = { missionID: "whole-cents", text: list, allowSquadProduction: true };
  const { missionID } = dataOf(await client.mission.wake({ body }), target.url);

  chapter("What happens, live from GET /mission/{missionID}/events");
  await show({ service: client, target, missionID, screen, emit: undefined }, "rest", signal);
  signal.throwIfAborted();

  chapter("The result: GET /mission/{missionID}/status, and what Git says");
  const mission = dataOf(await client.mission.status({ path: { missionID } }), target.url);
  assertKept(
    mission.finished?.outcome === "done",
    "the Mission to be done",
    mission.finished?.summary ?? mission.error,
  );
  const states = mission.plan.map(({ state }) => state).join(", ");
  assertKept(states === "done, done, done", "three completed phases", states);
  const made = mission.tasks.find(({ production }) => production !== undefined);
  assertKept(made?.lifecycleStatus === "completed", `a Task that made ${squad}`, made?.error ?? made?.lifecycleStatus);
  const work = mission.tasks.find((task) => task.squad.id === squad);
  assertKept(work?.squad.scope === "project", `a Task fixed to ${squad}`, work?.squad.id);
  const catalog = dataOf(await client.squad.list({}), target.url);
  const standing = catalog.squads.find(({ id }) => id === squad)?.digest;
  assertKept(standing === work.squad.digest, `${squad} in the catalog, exactly as the Task created it`, standing);
  assertKept(existsSync(join(directory, "docs/amounts.md")), "docs/amounts.md in the project", "nothing there");
  assertKept(git("status", "--porcelain", "--", "sum.js", "docs") === "", "no uncommitted changes", "changes");
  for (const phase of mission.plan)
    screen.say(
      `${green("done")}  ${phase.title}${phase.after.length === 0 ? "" : ` (after ${phase.after.join(", ")})`}: squad ${phase.squad?.id}`,
    );
  screen.say(clean(git("log", "--format=%h %s", `${before}..HEAD`)).replaceAll(/^(?=.)/gm, "  "));

  chapter("The ZIP: GET /mission/{missionID}/project-archive");
  const blob = dataOf(await client.mission.projectArchive({ path: { missionID } }), target.url);
  const file = join(folder, "mission.zip");
  writeFileSync(file, Buffer.from(await blob.arrayBuffer()));
  using zip = await openZip(file);
  const fixed = await zip.text("project/sum.js", 100_000);
  assertKept(fixed === readFileSync(join(directory, "sum.js"), "utf8"), "project/sum.js as it landed", fixed);
  const names = zip.entries.map(({ name }) => name);
  for (const name of ["mission.json", "plan.json", ...mission.tasks.map(({ taskID }) => `tasks/${taskID}/task.json`)])
    assertKept(names.includes(`execution-flow/${name}`), `execution-flow/${name} in the ZIP`, names.join(", "));
  screen.say(`${names.length} files, ${bytes(blob.size)}, with the flow of ${mission.tasks.length} Tasks`);
};
