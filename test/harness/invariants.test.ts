import { expect, test } from "vitest";
import { leavings } from "./invariants.ts";

/** What the sweeps take for left behind, and what they do not. */

const task = `task_${"0".repeat(25)}1`;
const other = `task_${"0".repeat(25)}2`;

test("what nobody needs is seen; control: what stays is not", () => {
  const left = [
    `worktrees/${task}.checkout`,
    `worktrees/${task}.base.git`,
    `worktrees/${task}.json.tmp`,
    "sandbox/talk/ab12",
    ".sortie/attachments/picture.png",
    ".git/index.lock",
    "tmp/half",
  ];
  const stays = [
    "service.lock",
    `worktrees/${task}.json`,
    `worktrees/${task}/.sortie/attachments/picture.png`,
    `homes/${task}/.cache`,
    `.git/refs/heads/sortie/${task}`,
    "sandbox/talk",
    "tmp",
  ];
  expect(leavings([...left, ...stays], { unused: [], gone: [] })).toEqual(left);
});

test("of a Task that was deleted nothing stays, of one without files none were made; control: another one's do", () => {
  const ofGone = [`homes/${task}-1/.cache`, `.git/refs/heads/sortie/${task}`, `.git/refs/sortie/base/${task}`];
  const ofOther = [`homes/${other}/.cache`, `.git/refs/heads/sortie/${other}`, `worktrees/${other}.json`];
  expect(leavings([...ofGone, ...ofOther, `blobs/${task}`], { unused: [], gone: [task] })).toEqual(ofGone);
  expect(leavings([...ofGone, ...ofOther], { unused: [other], gone: [] })).toEqual(ofOther.slice(1));
});
