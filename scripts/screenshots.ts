/**
 * Pictures of every screen, of a real service with real Tasks that the built-in rules carry out.
 *   node scripts/screenshots.ts             docs/images/*.png
 *   node scripts/screenshots.ts --all DIR   every screen at four widths, light and dark, to be looked at
 * Needs `npm run build` before, and Chromium on PATH.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { createServiceClient } from "../src/client/client.ts";
import { loadConfig } from "../src/config.ts";
import { silent } from "../src/log.ts";
import { findBrowser } from "../src/process/browser.ts";
import { createService } from "../src/service.ts";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const path = process.env["PATH"] ?? "";

/** Fonts that Debian has, so that pictures differ only where the page does. */
const fonts = (folder: string): string => {
  const same = ["ui-sans-serif", "system-ui", "sans-serif"].map((name) => [name, "Liberation Sans"]);
  const rules = [...same, ["ui-monospace", "DejaVu Sans Mono"]].map(
    ([name, font]) =>
      `<match target="pattern"><test name="family"><string>${name}</string></test><edit name="family" mode="assign" binding="strong"><string>${font}</string></edit></match>`,
  );
  const file = join(folder, "fonts.conf");
  writeFileSync(
    file,
    `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>/usr/share/fonts</dir><cachedir>${folder}/fonts</cachedir>${rules.join("")}</fontconfig>`,
  );
  return file;
};

const fix = `The fix for cents that drift (0.1 + 0.2 is 0.30000000000000004):

\`\`\`diff
--- a/sum.js
+++ b/sum.js
@@ -5,4 +5,5 @@
 };
 
 /** Adds up amounts of money. */
-export const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);
+export const sum = (amounts) =>
+  amounts.reduce((cents, amount) => cents + Math.round(amount * 100), 0) / 100;
\`\`\`
`;

const block = (file: string, text: string) => `\`\`\`js file=${file}\n${text}\n\`\`\``;

/** A request of several parts, which the rules divide among the agents of a squad. */
const parts = `How amounts are shown:

${block("format.js", '/** As people write them: 12,50. */\nexport const format = (amount) => amount.toFixed(2).replace(".", ",");')}

How they are read from a file, one a line:

${block("lines.js", 'import { readFileSync } from "node:fs";\n\nexport const readLines = (path) => readFileSync(path, "utf8").trim().split("\\n");')}

How all of it is used:

${block("docs/usage.md", "# Use\n\nAmounts as arguments: `node cli.js 12.50 0.99`.")}
`;

type Wish = Omit<NonNullable<Parameters<Client["task"]["create"]>[0]>["body"], "productPillar">;
type Client = ReturnType<typeof createServiceClient>;

/** One Task in each state. */
const begin = async (client: Client): Promise<Record<"fixed" | "failed" | "parted" | "asks", string>> => {
  const create = async (body: Wish): Promise<string> => {
    const { data, error } = await client.task.create({ body: { productPillar: "code", source: "web", ...body } });
    if (data === undefined) throw new Error(JSON.stringify(error));
    return data.taskID;
  };
  const wait = async (taskID: string) => {
    await client.task.wait({ path: { taskID } });
    return taskID;
  };
  const tests = { id: "tests", name: "npm test", kind: "test" as const, run: "npm test", baseline: true };
  const fixed = await wait(await create({ request: fix, title: "Add amounts in whole cents", checks: [tests] }));
  await wait(await create({ request: "list TODOs into docs/todos.md", title: "List what is left to do" }));
  const failed = await wait(
    await create({
      request: 'replace "Expected an amount such as" with "Expected an amount like" in sum.js',
      title: "Say “like” instead of “such as”",
      checks: [
        tests,
        { id: "words", name: "No “such as” is left", kind: "command", run: "! grep -rn 'such as' --include=*.js ." },
      ],
    }),
  );
  const parted = await wait(
    await create({
      request: parts,
      title: "Format amounts, read them from files, explain it",
      promptProfile: "advanced",
      priority: "high",
    }),
  );
  const gone = await create({
    request: "run the checks",
    title: "Compare with last year's export",
    checks: ["sleep 300"],
  });
  await client.task.cancel({ path: { taskID: gone }, body: { reason: "The export is not there yet", surface: "web" } });
  const asks = await create({
    request: block("RELEASE.js", "export const version = 2;"),
    title: "Release version 2",
    priority: "critical",
  });
  await create({
    request: "run the checks",
    title: "Measure how long a million amounts take",
    checks: ["npm test && sleep 600"],
  });
  await create({
    request: "run the checks",
    title: "Check the imports of the accounting system",
    checks: ["sleep 600"],
  });
  await create({ request: "dead links", title: "Look for dead links" });
  await new Promise((resolve) => setTimeout(resolve, 2500));
  return { fixed, failed, parted, asks };
};

type Shot = { name: string; path: string; before?: (page: Page) => Promise<void> };

const shotsOf = (project: string, ids: Awaited<ReturnType<typeof begin>>): Shot[] => {
  const at = `?project=${encodeURIComponent(project)}`;
  const openCall = async (page: Page) => {
    await page
      .getByRole("log")
      .getByRole("button", { expanded: false })
      .first()
      .click()
      .catch(() => {});
    await page.waitForTimeout(200);
  };
  return [
    { name: "tasks", path: `/${at}` },
    { name: "board", path: `/${at}&view=board` },
    { name: "task", path: `/ui/task/${ids.fixed}${at}`, before: openCall },
    { name: "changes", path: `/ui/task/${ids.fixed}${at}&tab=changes` },
    { name: "checks", path: `/ui/task/${ids.failed}${at}&tab=checks` },
    { name: "topology", path: `/ui/task/${ids.parted}${at}&tab=topology` },
    { name: "events", path: `/ui/task/${ids.fixed}${at}&tab=events` },
    { name: "asks", path: `/ui/task/${ids.asks}${at}` },
    { name: "squads", path: `/ui/squads${at}` },
    { name: "squad", path: `/ui/squad/advanced${at}` },
    { name: "models", path: `/ui/models${at}` },
    { name: "usage", path: `/ui/usage${at}` },
    { name: "doctor", path: `/ui/doctor${at}` },
    {
      name: "palette",
      path: `/${at}`,
      before: async (page) => {
        await page.keyboard.press("Control+k");
        await page.keyboard.type("task");
      },
    },
  ];
};

type Look = { width: number; height: number; scheme: "light" | "dark" };

const take = async (
  browser: Browser,
  url: string,
  shots: readonly Shot[],
  look: Look,
  fileOf: (shot: Shot) => string,
) => {
  const { width, height, scheme } = look;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: "reduce",
  });
  for (const shot of shots) {
    const page = await context.newPage();
    await page.goto(url + shot.path);
    await page.getByRole("heading", { level: 1 }).first().waitFor();
    await page.waitForTimeout(600);
    await shot.before?.(page);
    await page.waitForTimeout(200);
    await page.screenshot({ path: fileOf(shot) });
    await page.close();
  }
  await context.close();
};

const main = async (all: string | undefined): Promise<void> => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "sortie-pictures-")));
  const project = join(folder, "sum");
  cpSync(join(root, "examples/sum"), project, { recursive: true });
  writeFileSync(join(project, "report.js"), "// TODO: sums by month\nexport const report = () => [];\n");
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@localhost", ...args], { cwd: project });
  git("init", "--quiet", "--initial-branch=main");
  git("add", "--all");
  git("commit", "--quiet", "--message=A package that adds up amounts of money");
  const settings = join(folder, "config.jsonc");
  writeFileSync(settings, JSON.stringify({ permissions: { ask: ["write(RELEASE.js)"] } }));
  const env = { PATH: path, HOME: folder, SERVICE_CONFIG: settings, SERVICE_MAX_RUNNING: "2" };
  const service = await createService(loadConfig({ port: 0, dataDir: join(folder, "data") }, env), silent);
  const browser = await chromium.launch({
    executablePath: findBrowser(undefined, path) ?? "chromium",
    chromiumSandbox: process.getuid?.() !== 0,
    env: { ...process.env, FONTCONFIG_FILE: fonts(folder) },
  });
  try {
    const empty = { name: "first", path: "/" };
    const looks: Look[] = [360, 768, 1280, 1920].flatMap((width) =>
      (["light", "dark"] as const).map((scheme) => ({
        width,
        height: width < 500 ? 720 : Math.round(width * 0.625),
        scheme,
      })),
    );
    const images = join(root, "docs/images");
    const one: Look = { width: 1280, height: 800, scheme: "light" };
    const each = async (shots: readonly Shot[]) => {
      if (all === undefined) return take(browser, service.url, shots, one, ({ name }) => join(images, `${name}.png`));
      for (const look of looks)
        await take(browser, service.url, shots, look, ({ name }) =>
          join(all, `${name}-${look.width}-${look.scheme}.png`),
        );
    };
    mkdirSync(all ?? images, { recursive: true });
    await each([empty]);
    const shots = shotsOf(project, await begin(createServiceClient({ baseUrl: service.url, directory: project })));
    await each(shots);
    if (all !== undefined) return;
    const dark = shots.filter(({ name }) => name === "task");
    await take(browser, service.url, dark, { ...one, scheme: "dark" }, ({ name }) => join(images, `${name}-dark.png`));
    const narrow = shots.filter(({ name }) => name === "tasks" || name === "task");
    await take(browser, service.url, narrow, { width: 360, height: 720, scheme: "light" }, ({ name }) =>
      join(images, `${name}-narrow.png`),
    );
    const sizes = readdirSync(images).map((name) => statSync(join(images, name)).size);
    console.log(`${sizes.length} pictures, ${Math.round(sizes.reduce((sum, size) => sum + size, 0) / 1024)} KB`);
  } finally {
    await browser.close();
    await service.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
};

const flag = process.argv.indexOf("--all");
await main(flag < 0 ? undefined : (process.argv[flag + 1] ?? "pictures"));
