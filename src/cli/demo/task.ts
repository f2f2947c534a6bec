import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Caller } from "../../config/caller.ts";
import { dataOf } from "../connection.ts";
import { assertKept, runDemo, patch, type Stage } from "./stage.ts";
import { show } from "../task/follow.ts";
import type { Screen } from "../terminal/screen.ts";
import { bytes, clean } from "../terminal/format.ts";
import { openZip } from "../verify/unzip.ts";

/**
 * `sortie demo`: one whole Task on a small real project in a temporary folder: request, check before the work, work,
 * check after it, landing, ZIP. Every statement it prints is verified; a false one ends the demo with exit code 1.
 */

const request = `The fix for cents that drift (0.1 + 0.2 is 0.30000000000000004):

\`\`\`diff
${patch}\`\`\`
`;

export const demo = (caller: Pick<Caller, "bare" | "self">, screen: Screen): Promise<number> =>
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

  chapter("The Task: POST /task, with the check `npm test`, also run before the work");
  screen.say(dim(request.trim().replaceAll(/^(?=.)/gm, "  ")));
  const created = await client.task.create({
    body: {
      request,
      productPillar: "code",
      title: "Add amounts in whole cents",
      checks: [{ id: "tests", name: "npm test", kind: "test", run: "npm test", baseline: true, timeoutSeconds: 60 }],
      source: "demo",
    },
  });
  const { taskID } = dataOf(created, target.url);

  chapter("What happens, live from GET /task/{taskID}/events");
  await show({ service: client, target, taskID, screen }, "settled", signal);
  signal.throwIfAborted();

  chapter("The result: GET /task/{taskID}/status, and what Git says");
  const task = dataOf(await client.task.status({ path: { taskID } }), target.url);
  assertKept(
    task.lifecycleStatus === "completed",
    "the Task to be completed",
    `${task.lifecycleStatus}: ${task.error}`,
  );
  const check = task.checks.find(({ id }) => id === "tests");
  assertKept(check?.baseline?.state === "failed", "the check to fail before the work", check?.baseline?.state);
  assertKept(check?.state === "passed" && !check.stale, "the check to pass after the work", check?.state);
  const commit = git("rev-parse", "HEAD");
  assertKept(commit !== before && commit === task.git.landedCommit, `HEAD to be ${task.git.landedCommit}`, commit);
  assertKept(check.tree === git("rev-parse", "HEAD^{tree}"), "the checked tree to be the landed one", check.tree);
  const dirt = git("status", "--porcelain");
  assertKept(dirt === "", "a clean working tree", dirt);
  screen.say(`Check npm test: failed before the work (exit ${check.baseline.exitCode}), ${green("passes now")}`);
  screen.say(`Landed commit ${commit}`);
  const log = clean(git("log", "-1", "--stat", "--format=%an <%ae>%n%n%B"));
  screen.say(log.replaceAll(/\n{3,}/g, "\n\n").replaceAll(/^(?=.)/gm, "  "));

  chapter("The ZIP: GET /task/{taskID}/project-archive");
  const blob = dataOf(await client.task.projectArchive({ path: { taskID } }), target.url);
  const file = join(folder, `${taskID}.zip`);
  writeFileSync(file, Buffer.from(await blob.arrayBuffer()));
  using zip = await openZip(file);
  const landed = readFileSync(join(directory, "sum.js"), "utf8");
  const fixed = await zip.text("project/sum.js", 2 * landed.length);
  assertKept(fixed === landed, "project/sum.js in the ZIP to be the landed one", fixed);
  const names = zip.entries.map(({ name }) => name);
  assertKept(
    names.includes("execution-flow/manifest.json"),
    "execution-flow/manifest.json in the ZIP",
    names.join(", "),
  );
  screen.say(`${names.length} files, ${bytes(blob.size)}`);
  for (const entry of zip.entries) screen.say(`  ${bytes(entry.bytes).padStart(9)}  ${clean(entry.name)}`);
};
