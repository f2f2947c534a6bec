import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "vitest";
import { logOf, post, statusOf } from "../harness/double/hostile-text.ts";
import { teamOf, writePackage } from "../harness/double/squads.ts";
import { sampleByDay } from "../harness/night.ts";
import { git, readText, writeFiles } from "../harness/project.ts";
import { type Scene, sameFromEach } from "./scene.ts";
import { create, isOver, pictureOf, taskIn, typesOf } from "./task-scene.ts";

/**
 * Tasks whose surroundings are not the usual ones, killed right after each event of that: the same end from every
 * point.
 */

const waited = async (memo: Record<string, string | undefined>, what: string): Promise<void> => {
  for (let times = 0; memo[what] === undefined && times < 600; times += 1)
    await new Promise((resolve) => setTimeout(resolve, 50));
};
const call = (tool: string, input: object) => ({ calls: [{ tool, input }] });

/** A quota, a model that gives way to another, a landing that is approved while the project moves on. */
const unusual: Scene = {
  points: [
    "environment.given",
    "dependencies.given",
    "task.deferred",
    "model.switched",
    "check.judged",
    "approval.moved",
  ],
  files: { "a.txt": "one\n", ".gitignore": "node_modules\n", "package.json": "{}" },
  prepare(directory) {
    mkdirSync(join(directory, "node_modules/lib"), { recursive: true });
    writeFileSync(join(directory, "node_modules/lib/index.js"), "module.exports = 2;\n");
  },
  config: (directory) => ({
    failover: ["mock/small"],
    limits: { waitSeconds: 0 },
    environments: { [directory]: { variables: { FLAVOUR: "vanilla" } } },
  }),
  say({ body, turn }, memo) {
    const all = JSON.stringify(body.messages);
    if (memo[`limited ${body.model}`] === undefined) {
      memo[`limited ${body.model}`] = "yes";
      return { fail: { status: 429, message: "slow down", headers: { "retry-after": "2" } } };
    }
    if (turn === 0) return call("shell", { command: "node -p 'require(\"lib\")'; echo $FLAVOUR" });
    return all.includes("b.txt") ? { text: "Done." } : call("write", { path: "b.txt", content: "two\n" });
  },
  begin: (here) =>
    create(here, { approve: ["landing"], checks: [{ kind: "review", name: "style", criteria: "It is short." }] }),
  async over(here) {
    const { url, directory } = here;
    const taskID = await taskIn(here);
    const status = await statusOf(url, taskID);
    const [ask] = status.pending;
    if (ask !== undefined) {
      if (git(directory, "rev-list", "--count", "HEAD") === "1") {
        writeFiles(directory, { "user.txt": "mine\n" });
        git(directory, "add", "user.txt");
        git(directory, "commit", "-qm", "mine");
      }
      await post(url, `/task/${taskID}/pending/${ask.id}`, directory, { decision: "allow", source: "test" });
    }
    return isOver(status);
  },
  picture: async (here) => ({ ...(await pictureOf(here)), b: readText(here.directory, "b.txt") }),
  typesOf,
};

/** The project changes in the same line while its agent works. */
const conflicted: Scene = {
  points: ["landing.conflicted"],
  async say({ body, turn }, memo) {
    const all = JSON.stringify(body.messages);
    if (turn === 0) return call("write", { path: "a.txt", content: "task\n" });
    if (turn === 1) {
      memo["wrote"] = "yes";
      await waited(memo, "moved");
    }
    if (all.includes("same places in a.txt") && !all.includes("joined"))
      return call("write", { path: "a.txt", content: "joined\n" });
    return { text: "Done." };
  },
  begin: (here) => create(here, { checks: [] }),
  async over(here) {
    const { url, directory, memo } = here;
    if (memo["wrote"] !== undefined && memo["moved"] === undefined) {
      writeFiles(directory, { "a.txt": "mine\n" });
      git(directory, "commit", "-qam", "mine");
      memo["moved"] = "yes";
    }
    return isOver(await statusOf(url, await taskIn(here)));
  },
  picture: async (here) => ({ ...(await pictureOf(here)), a: readText(here.directory, "a.txt") }),
  typesOf,
};

/** Somebody who was delegated to is told more, then stopped. */
const steered: Scene = {
  points: ["message.passed", "session.interrupted"],
  prepare: (directory) =>
    writePackage(
      join(directory, "../data/squads"),
      teamOf("pair", { orchestrator: ["read, delegate", "delegates: [scout]\n"], scout: ["read"] }),
    ),
  async say({ body, first, turn }, memo) {
    if (!first.startsWith("You do"))
      return turn === 0 ? call("delegate", { agent: "scout", brief: "You do it." }) : { text: "All done." };
    const isTold = JSON.stringify(body.messages).includes("Mind the gap.");
    memo[isTold ? "told" : "asked"] = "yes";
    await waited(memo, isTold ? "stopped" : "said");
    return call("read", { path: "a.txt" });
  },
  begin: (here) => create(here, { promptProfile: "pair", checks: [] }),
  async over(here) {
    const { url, directory, memo } = here;
    const taskID = await taskIn(here);
    const log = await logOf(url, taskID);
    const isSaid = (text: string) => log.some((frame) => JSON.stringify(frame).includes(text));
    const say = (text: string, onBusy: string) =>
      post(url, `/task/${taskID}/message`, directory, { source: "test", text, onBusy });
    if (memo["asked"] !== undefined && !isSaid("Mind the gap.")) await say("Mind the gap.", "auto");
    if (isSaid("Mind the gap.")) memo["said"] = "yes";
    if (memo["told"] !== undefined && !isSaid("Stop that.")) await say("Stop that.", "interrupt");
    if (isSaid("Stop that.")) memo["stopped"] = "yes";
    return isOver(await statusOf(url, taskID));
  },
  picture: pictureOf,
  typesOf,
};

describe.each(Object.entries({ unusual, conflicted, steered }))("a Task that is %s", (name, scene) => {
  test("killed right after each: the same end; control: without a kill it meets all of it", {
    timeout: 600_000,
  }, async () => {
    await sameFromEach(scene, sampleByDay(`what a Task that is ${name} meets`, scene.points, 1));
  });
});
