import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Caller } from "../../config/caller.ts";
import { dataOf } from "../connection.ts";
import { show } from "../task/follow.ts";
import { clean } from "../terminal/format.ts";
import type { Screen } from "../terminal/screen.ts";
import { assertKept, createGit, runDemo, patch, type Stage } from "./stage.ts";
import { type Heard, startTeamHost, type TeamHost } from "./team-host.ts";

/**
 * `sortie demo --team`: from an issue to a merged pull request, on a Git host that is part of the demo: a label, the
 * Task that it creates, checks, a pull request, a review, the follow-up, the merge. Nothing leaves this machine. Every
 * statement it prints is verified; a false one ends the demo with exit code 1.
 */

const issue = {
  number: 1,
  by: "ada",
  title: "Cents drift",
  text: `The fix for cents that drift (0.1 + 0.2 is 0.30000000000000004):\n\n\`\`\`diff\n${patch}\`\`\`\n`,
};
const review = 'Replace "Adds up amounts of money." with "Adds up amounts of money, in whole cents." in sum.js';

export const demoTeam = async (caller: Pick<Caller, "bare" | "self">, screen: Screen): Promise<number> => {
  const token = randomBytes(24).toString("hex");
  const secret = randomBytes(24).toString("hex");
  let port = 0;
  let host: TeamHost | undefined;
  try {
    return await runDemo(
      caller,
      screen,
      (stage) => {
        port = stage.forgePort ?? 0;
        assertKept(host !== undefined, "a Git host", "none");
        return walk(stage, host);
      },
      async ({ folder, git, chapter }) => {
        const bare = join(folder, "host/acme/sum.git");
        git("clone", "--quiet", "--bare", ".", bare);
        const inside = createGit(bare, caller.bare);
        inside("config", "http.receivepack", "true");
        const options = { folder: join(folder, "host"), path: caller.bare["PATH"], token, secret, git: inside };
        host = await startTeamHost({ ...options, listener: () => port });
        chapter("The team's Git host: git-http-backend behind a token, with issues, pull requests and events");
        screen.say(host.url);
        return settingOf(host.url, token, secret);
      },
    );
  } finally {
    await host?.[Symbol.asyncDispose]();
  }
};

/** The settings that an operator would write into config.jsonc, and the variables that they name. */
const settingOf = (url: string, token: string, secret: string) => {
  const match = url.replace(/sum\.git$/, "*");
  return {
    config: {
      repositories: {
        allow: [match],
        credentials: [{ match, token: "env:DEMO_TOKEN", forge: "gitea" }],
        events: [{ match, forge: "gitea", secret: "env:DEMO_EVENTS", authors: ["ada", "grace"] }],
      },
    },
    env: { SERVICE_FORGE_PORT: "0", DEMO_TOKEN: token, DEMO_EVENTS: secret },
  };
};

const walk = async ({ screen, target, client, signal, chapter, before }: Stage, host: TeamHost): Promise<void> => {
  const { dim, green } = screen.colors;
  let shown = 0;
  const emit = (frame: { id?: unknown }) => (shown = typeof frame.id === "number" ? frame.id : shown);
  const status = async (taskID: string) => dataOf(await client.task.status({ path: { taskID } }), target.url);
  const taken = ({ status: answered, body }: Heard): string => {
    assertKept(answered === 202 && body.taskID !== undefined, "the event to be accepted", JSON.stringify(body));
    return body.taskID;
  };

  chapter("Issue 1, opened and labelled by ada: the host sends a signed event to the service's listener");
  screen.say(dim(`${issue.title}\n\n${issue.text}`.trim().replaceAll(/^(?=.)/gm, "  ")));
  const forged = await host.forge(issue);
  assertKept(forged.status === 401, "an event with a wrong signature to be refused", forged.status);
  const stranger = await host.label({ ...issue, by: "mallory" }, "sortie", "mallory");
  assertKept(stranger.body.taskID === undefined, "a stranger's event to be ignored", stranger.body.taskID);
  screen.say(`Signed with another secret: 401. From mallory, who is not listed: ${stranger.body.ignored}.`);
  const taskID = taken(await host.label(issue, "sortie", "ada"));

  chapter("The Task that it creates, live");
  await show({ service: client, target, taskID, screen, emit }, "settled", signal);
  signal.throwIfAborted();

  chapter("The pull request");
  const done = await status(taskID);
  assertKept(done.lifecycleStatus === "completed", "the Task to be completed", done.error);
  assertKept(done.verified === true, "the project's checks to have passed", done.verified);
  const [pull] = host.pulls;
  assertKept(pull !== undefined && host.pulls.length === 1, "one pull request", host.pulls.length);
  assertKept(pull.title === issue.title, `a pull request named "${issue.title}"`, pull.title);
  assertKept(done.pullRequest?.number === pull.number, `pull request ${pull.number}`, done.pullRequest?.number);
  screen.say(`${green(`#${pull.number}`)} ${pull.title}: ${pull.branch} into ${pull.base}`);
  screen.say(
    dim(
      clean(pull.body)
        .trim()
        .replaceAll(/^(?=.)/gm, "  "),
    ),
  );
  await said(host, 1, signal);

  chapter("A review by grace, and the follow-up, live");
  screen.say(dim(`  ${review}`));
  const first = done.git.landedCommit;
  const again = taken(await host.review(pull, review, "grace"));
  assertKept(again === taskID, `a follow-up of ${taskID}`, again);
  await show({ service: client, target, taskID, screen, emit, after: shown }, "settled", signal);
  signal.throwIfAborted();
  const second = await status(taskID);
  assertKept(second.lifecycleStatus === "completed" && second.attempt === 2, "a second attempt", second.error);
  assertKept(second.git.landedCommit !== first, "another commit on the branch", second.git.landedCommit);
  assertKept(host.pulls.length === 1 && pull.state === "open", "the same pull request", host.pulls.length);
  screen.say(`${green(`#${pull.number}`)} is at ${second.git.landedCommit?.slice(0, 10)} now`);
  await said(host, 2, signal);
  for (const { text } of host.comments) screen.say(dim(`  Comment on issue 1: ${clean(text.split("\n")[0] ?? "")}`));

  chapter("grace merges it");
  taken(await host.merge(pull, "grace"));
  const merged = await status(taskID);
  assertKept(merged.pullRequest?.state === "merged", "the Task to report the merge", merged.pullRequest?.state);
  const left = host.branches();
  assertKept(left === "main", "the merged branch to be removed", left);
  const log = host.log(before);
  assertKept(log.includes(second.git.landedCommit?.slice(0, 7) ?? "-"), "the commit on main", log);
  screen.say(`${green("Merged")}, and the branch is removed. On main:`);
  screen.say(clean(log).replaceAll(/^(?=.)/gm, "  "));
};

/** Waits for the comments about a Task's end, which are written after it. */
const said = async (host: TeamHost, many: number, signal: AbortSignal): Promise<void> => {
  for (const end = Date.now() + 20_000; host.comments.length < many; await sleep(100, undefined, { signal }))
    assertKept(Date.now() < end, `${many} comments on the issue`, host.comments.length);
};
