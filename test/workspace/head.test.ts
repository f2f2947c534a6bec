import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createScene } from "./fixture.ts";

/** A project's head, for a Mission's agent that looks at it, beside the tidying of what a killed service left. */

test("a head that is opened while what a killed service left of it is removed has all of its files", async () => {
  await using scene = createScene();
  const { root, dataDir, sh, service } = scene;
  sh("git init -q; for i in $(seq 40); do echo $i >f$i; done; git add -A; git commit -qm first");
  const left = join(dataDir, "worktrees", "ses_m.checkout");
  // Enough that its removal takes longer than opening begins.
  for (let folder = 0; folder < 60; folder += 1) {
    mkdirSync(join(left, `d${folder}`), { recursive: true });
    for (let file = 0; file < 20; file += 1) writeFileSync(join(left, `d${folder}`, `${file}`), "");
  }
  const workspaces = service();
  const tidied = workspaces.listWorktrees(new AbortController().signal);
  const { files } = await workspaces.openHead({ key: "ses_m", directory: root });
  await tidied;
  const seen = readdirSync(files.root);
  expect([seen.includes("f40"), seen.includes("d1")]).toEqual([true, false]);
  // Control: nobody has it open any more.
  await workspaces.closeHead("ses_m");
  mkdirSync(left);
  await workspaces.listWorktrees(new AbortController().signal);
  expect(existsSync(left)).toBe(false);
});
