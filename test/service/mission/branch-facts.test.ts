import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTask, settledTask } from "../../harness/double/hostile-text.ts";
import { dispatch, finish, openStage, plan, restOf, turns, wake } from "../../harness/double/missions.ts";
import { textOf } from "../../harness/double/mock-provider.ts";

/**
 * A Task that begins on a Mission's branch is told of the project as that branch has it, not as the user's checkout
 * does.
 */

const skill = (name: string) => `---\nname: ${name}\ndescription: How ${name} is done.\n---\nDo ${name}.\n`;
const manifest = (script: string) => JSON.stringify({ name: "p", scripts: { [script]: "true" } });

test("root listing, conventions, skills and checks are those of the commit that it begins at; control: a plain Task has the user's", {
  timeout: 60_000,
}, async () => {
  await using stage = await openStage();
  const { url } = stage.service;
  for (const folder of ["", "packages/part"]) {
    const top = stage.project({ [join(folder, "a.txt")]: "one\n", [join(folder, "package.json")]: manifest("test") });
    const directory = join(top, folder);
    const theirs = `user${folder.length}`;
    // Nothing of this is committed: a Task on the branch begins without it.
    mkdirSync(join(directory, ".agents/skills", theirs), { recursive: true });
    writeFileSync(join(directory, ".agents/skills", theirs, "SKILL.md"), skill(theirs));
    writeFileSync(join(directory, "AGENTS.md"), "Conventions of the checkout.\n");
    writeFileSync(join(directory, "package.json"), manifest("lint"));
    writeFileSync(join(directory, "checkout.txt"), "x\n");
    const told: string[] = [];
    const said: Parameters<typeof stage.play>[1]["task"] = (_turn, { body }) => {
      told.push(body.messages.map(({ content }) => textOf(content)).join("\n"));
      return { text: "Seen." };
    };
    const write = (path: string, content: string) => ({ tool: "write", input: { path, content } });
    stage.play("first", {
      mission: turns(),
      task: turns(
        {
          calls: [
            write("branch.txt", "x\n"),
            write("AGENTS.md", "Conventions of the branch.\n"),
            write(".agents/skills/ours/SKILL.md", skill("ours")),
            write("package.json", manifest("build")),
          ],
        },
        { text: "Wrote them." },
      ),
    });
    stage.play("facts", {
      mission: turns(
        { calls: [plan("a", { id: "b", after: ["a"] }), dispatch("a", "Write. [first]", { checks: [] })] },
        { text: "Runs." },
        { calls: [dispatch("b", "Look. [second]")] },
        { calls: [finish()] },
      ),
    });
    stage.play("second", { mission: turns(), task: said });
    const { missionID } = await wake(url, directory, { text: "[facts]", landing: "branch" });
    expect(await restOf(url, directory, missionID)).toMatchObject({ state: "done" });
    const plain = await createTask(url, directory, { request: "Look. [second]" });
    expect(await settledTask(url, plain)).toMatchObject({ lifecycleStatus: "completed" });
    const [onBranch = "", inCheckout = ""] = [told[0], told.at(-1)];
    const has = (text: string) =>
      ["branch.txt", "Conventions of the branch", "How ours is done", "build = `npm run build`"].map((words) =>
        text.includes(words),
      );
    const hasTheirs = (text: string) =>
      ["checkout.txt", "Conventions of the checkout", `How ${theirs} is done`, "lint = `npm run lint`"].map((words) =>
        text.includes(words),
      );
    expect([has(onBranch), hasTheirs(onBranch)]).toEqual([
      [true, true, true, true],
      [false, false, false, false],
    ]);
    expect([has(inCheckout), hasTheirs(inCheckout)]).toEqual([
      [false, false, false, false],
      [true, true, true, true],
    ]);
  }
});
