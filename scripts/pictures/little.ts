import { cpSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { startReceiver } from "../../test/harness/receiver.ts";
import { openLine } from "../../test/web/browser.ts";
import { git, makeProject, until } from "../../test/harness/project.ts";
import type { Shot } from "./camera.ts";
import { block, fix, page, parts, server } from "./requests.ts";
import { says } from "./says.ts";
import { at, type Client, model, need, prepare, type World } from "./world.ts";

/** A project somebody works in: a Task in each state, two Missions. */

type Wish = Omit<NonNullable<Parameters<Client["task"]["create"]>[0]>["body"], "productPillar">;

const tests = { id: "tests", name: "npm test", kind: "test" as const, run: "npm test", baseline: true };

/** A port that a service of its own in a sandbox may take. */
const port = 18_300 + (process.pid % 90);

const begin = async (client: Client, project: string) => {
  const create = async (body: Wish): Promise<string> =>
    need(
      await client.task.create({ body: { productPillar: "code", source: "web", model: "builtin/rules-1", ...body } }),
    ).taskID;
  const done = async (body: Wish): Promise<string> => {
    const taskID = await create(body);
    await client.task.wait({ path: { taskID } });
    return taskID;
  };
  const fixed = await done({ request: fix, title: "Add amounts in whole cents", checks: [tests] });
  await done({ request: "list TODOs into docs/todos.md", title: "List open TODOs" });
  const guarded = await done({
    request: "Make sum reject anything that is not a number, and say which amount it was.",
    title: "Reject values that are not numbers",
    model,
    checks: [tests],
  });
  const look = {
    id: "look",
    name: "The page looks the same",
    kind: "visual" as const,
    start: `node server.mjs ${port}`,
    url: `http://127.0.0.1:${port}/`,
    viewport: { width: 640, height: 420 },
  };
  const before = await done({ request: "run the checks", title: "Take a screenshot of the page", checks: [look] });
  const [picture] = need(await client.task.board({ path: { taskID: before } })).artifacts;
  const path = { taskID: before, artifactID: picture?.artifactID ?? "" };
  writeFileSync(join(project, "page.png"), Buffer.from(await need(await client.task.artifact({ path })).arrayBuffer()));
  git(project, "add", "page.png");
  git(project, "commit", "--quiet", "--message=How the page looks");
  const seen = await done({
    request: "Show the currency on the page with the total.",
    title: "Show the currency next to the total",
    model,
    checks: [
      { id: "load", name: "node --check sum.js", kind: "command", run: "node --check sum.js" },
      { ...look, baseline: "page.png" },
    ],
  });
  const failed = await done({
    request: 'replace "Expected an amount such as" with "Expected an amount like" in sum.js',
    title: "Reword the message for invalid amounts",
    checks: [
      tests,
      { id: "words", name: "No “such as” left", kind: "command", run: "! grep -rn 'such as' --include=*.js ." },
    ],
  });
  const parted = await done({
    request: parts,
    title: "Format amounts, read them from files, explain it",
    promptProfile: "advanced",
    priority: "high",
  });
  const gone = await create({
    request: "run the checks",
    title: "Compare with last year's export",
    checks: ["sleep 300"],
  });
  await client.task.cancel({ path: { taskID: gone }, body: { reason: "The export is not there yet", surface: "web" } });
  return { fixed, guarded, seen, failed, parted, create };
};

const beginMissions = async (client: Client): Promise<string> => {
  const wake = async (text: string, title: string): Promise<string> =>
    need(await client.mission.wake({ body: { text, title, model } })).missionID;
  const status = async (missionID: string) => need(await client.mission.status({ path: { missionID } }));
  const small = await wake("Is anything left on last week's list?", "Finish last week's list");
  await until(
    () => status(small),
    ({ finished }) => finished !== null,
  );
  const large = await wake(
    "Support amounts in more than one currency: rates from a file, the total in the first currency, on the command line too. Document it in the manual.",
    "More than one currency",
  );
  await until(
    () => status(large),
    ({ plan, agentStatus }) =>
      agentStatus === "inactive" && plan.some(({ id, taskID }) => id === "convert" && taskID !== null),
    60_000,
  );
  return large;
};

const openOptions = async (page: Page): Promise<void> => {
  await page.getByLabel("What should be done").fill("Round each total to whole cents, and say so in the README.");
  await page.getByRole("button", { name: "Options" }).click();
  await page.getByLabel("Effort").waitFor();
};

const openCall = async (page: Page) => {
  const log = page.getByRole("log");
  await log.evaluate("(element) => element.scrollTo(0, 0)");
  await log
    .getByRole("button", { name: /^(edit|apply_patch)/ })
    .first()
    .click({ timeout: 2000 })
    .catch(() => {});
};

export const little = async (): Promise<World> => {
  const ground = await prepare({
    settings: {
      model,
      webhooks: { allow: ["127.0.0.1"] },
      permissions: { ask: ["write(RELEASE.js)"] },
      limits: { checkRounds: 0 },
    },
    env: { SERVICE_MAX_RUNNING: "4" },
    says,
  });
  const project = join(ground.folder, "sum");
  cpSync(join(dirname(fileURLToPath(import.meta.url)), "../../examples/sum"), project, { recursive: true });
  writeFileSync(join(project, "report.js"), "// TODO: sums by month\nexport const report = () => [];\n");
  makeProject(project, { "page.html": page("0.30"), "server.mjs": server });
  const client = ground.client(project);
  const told = await startReceiver();
  need(await client.webhook.create({ body: { url: `${told.url}/sortie`, description: "The team's chat" } }));
  need(
    await client.webhook.create({
      body: {
        url: "https://hooks.example.com/deploy",
        events: ["task.completed"],
        description: "Deploys landed commits",
      },
    }),
  );
  const { fixed, guarded, seen, failed, parted, create } = await begin(client, project);
  const mission = await beginMissions(client);
  const asks = await create({
    request: block("RELEASE.js", "export const version = 2;"),
    title: "Release version 2",
    priority: "critical",
  });
  const [running] = await Promise.all(
    ["Measure the time for a million amounts", "Check the imports of the accounting system"].map((title) =>
      create({ request: "run the checks", title, checks: ["sleep 600"] }),
    ),
  );
  const queued = await create({ request: "dead links", title: "Find dead links" });
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const here = at(project);
  const line = await openLine(ground.url);
  const shots: Shot[] = [
    { name: "tasks", path: `/${here}` },
    { name: "tasks-whole", path: `/${here}`, whole: true },
    { name: "composer", path: `/${here}`, before: openOptions },
    { name: "board", path: `/${here}&view=board` },
    { name: "board-whole", path: `/${here}&view=board`, whole: true },
    { name: "result", path: `/ui/task/${guarded}${here}` },
    { name: "task", path: `/ui/task/${guarded}${here}&tab=conversation`, before: openCall },
    { name: "task-rules", path: `/ui/task/${fixed}${here}&tab=conversation`, before: openCall },
    { name: "task-failed", path: `/ui/task/${failed}${here}` },
    { name: "running", path: `/ui/task/${running}${here}` },
    { name: "task-queued", path: `/ui/task/${queued}${here}` },
    { name: "changes", path: `/ui/task/${guarded}${here}&tab=changes` },
    { name: "checks", path: `/ui/task/${failed}${here}&tab=checks` },
    { name: "visual", path: `/ui/task/${seen}${here}&tab=checks` },
    { name: "topology", path: `/ui/task/${parted}${here}&tab=topology` },
    { name: "slices", path: `/ui/task/${parted}${here}` },
    { name: "events", path: `/ui/task/${fixed}${here}&tab=events` },
    { name: "asks", path: `/ui/task/${asks}${here}` },
    {
      name: "cancel",
      path: `/ui/task/${asks}${here}`,
      before: async (page) => page.getByRole("button", { name: "Cancel", exact: true }).click(),
    },
    {
      name: "more",
      path: `/ui/task/${fixed}${here}`,
      before: async (page) => page.getByRole("button", { name: "More actions" }).click(),
    },
    { name: "missions", path: `/ui/missions${here}` },
    { name: "mission", path: `/ui/mission/${mission}${here}` },
    {
      name: "mission-plan",
      path: `/ui/mission/${mission}${here}`,
      before: async (page) => {
        const plan = page.getByRole("button", { name: /^Plan/ });
        if (await plan.isVisible()) await plan.click();
      },
    },
    {
      name: "abort",
      path: `/ui/mission/${mission}${here}`,
      before: async (page) => page.getByRole("button", { name: "Abort", exact: true }).click(),
    },
    { name: "squads", path: `/ui/squads${here}` },
    { name: "squad", path: `/ui/squad/advanced${here}` },
    { name: "models", path: `/ui/models${here}` },
    { name: "usage", path: `/ui/usage${here}`, whole: true },
    { name: "webhooks", path: `/ui/webhooks${here}` },
    { name: "doctor", path: `/ui/doctor${here}` },
    { name: "doc", path: "/doc" },
    {
      name: "palette",
      path: `/${here}`,
      before: async (page) => {
        await page.keyboard.press("Control+k");
        await page.getByRole("combobox", { name: "Go to a screen" }).fill("amount");
        await page.getByRole("listbox", { name: "Results" }).getByText("amounts").first().waitFor();
      },
    },
    {
      name: "help",
      path: `/${here}`,
      before: async (page) => {
        await page.keyboard.press("?");
        await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
      },
    },
    {
      name: "menu",
      path: `/ui/usage${here}`,
      before: async (page) => {
        const menu = page.getByRole("button", { name: "Open the menu" });
        if (await menu.isVisible()) await menu.click();
      },
    },
    {
      name: "offline",
      path: `/${here}`,
      before: async (page) => {
        await page.goto(line.url + `/${here}`);
        await page.getByRole("heading", { level: 1, name: /^Tasks/ }).waitFor();
        await page.waitForTimeout(500);
        line.cut();
        await page.getByTestId("lost").waitFor();
        line.mend();
      },
    },
  ];
  return {
    url: ground.url,
    shots,
    async [Symbol.asyncDispose]() {
      await line[Symbol.asyncDispose]();
      await told[Symbol.asyncDispose]();
      await ground[Symbol.asyncDispose]();
    },
  };
};
