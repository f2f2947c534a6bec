import { expect, test } from "vitest";
import { writeFiles } from "../harness/project.ts";
import { soak } from "./soak.ts";

test("killed at random moments", { timeout: 180_000 }, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const kills = Number(process.env["TEST_KILLS"] ?? 3);
  console.log(`random kills: TEST_SEED=${seed} TEST_KILLS=${kills}`);
  await soak(seed, kills);
});

test("control: a Task that was acknowledged and is not there is found out, and so is a stray change", {
  timeout: 60_000,
}, async () => {
  await expect(
    soak(1, 1, ({ tasks }) => (tasks as Map<string, string>).set("task_00000000000000000000000000", "/")),
  ).rejects.toThrow();
  await expect(soak(1, 1, ({ outside }) => writeFiles(outside?.folder ?? "", { "new.txt": "x" }))).rejects.toThrow(
    "R18",
  );
});
