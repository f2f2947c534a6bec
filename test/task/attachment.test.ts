import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { attachmentPaths } from "../../src/domain/attachment.ts";
import type { Run } from "../../src/task/run.ts";
import { withoutAttachments } from "../../src/task/workspace/attachment.ts";
import { temporary } from "../harness/project.ts";

/** What is taken away of a message's files by a run that did not write them: the one that did was killed. */

const messageID = "msg_0123456789ab";
const [path = ""] = attachmentPaths(messageID, ["notes.md"]);
const ignore = ".sortie/attachments/.gitignore";
const mine = ".sortie/attachments/mine.txt";

const left = async (ignored: string, isolation: "directory" | "worktree"): Promise<string[]> => {
  using root = temporary("sortie-attached-");
  const files = { [path]: "# Milk", [ignore]: ignored, [mine]: "mine" };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root.path, name)), { recursive: true });
    writeFileSync(join(root.path, name), text);
  }
  const message = { role: "user", messageID, attachments: [{ filename: "notes.md" }] };
  const run = {
    state: () => ({ isolation, model: "acme/large" }),
    workspace: () => Promise.resolve({ root: root.path }),
    chat: { said: [message], unread: [], queued: [] },
  };
  await withoutAttachments(run as unknown as Run);
  return Object.keys(files).filter((name) => existsSync(join(root.path, name)));
};

test("in place they go, and nothing else that is there; control: a project's own folder, a worktree", async () => {
  expect(await left("*\n", "directory")).toEqual([mine]);
  expect(await left("*.log\n", "directory")).toEqual([path, ignore, mine]);
  expect(await left("*\n", "worktree")).toEqual([path, ignore, mine]);
});
