import { expect, test } from "vitest";
import { createReplies, replyAddress } from "../../src/forge/reply.ts";
import type { RepositoryPlace } from "../../src/repository/repository.ts";

const comments = async (data: object): Promise<string[]> => {
  const posted: string[] = [];
  const reply = createReplies({
    repositories: {
      place: (url) => ({ url }) as RepositoryPlace,
      comment: async (_place, { text }) => void posted.push(text),
    },
    page: () => undefined,
  });
  const body = JSON.stringify({ type: "task.completed", timestamp: new Date().toISOString(), data });
  const url = replyAddress({ repository: "https://forge.example/a/b.git", number: 1, on: "issue" });
  await reply({ url, message: "msg_1", body, isHeld: () => true }, AbortSignal.timeout(5000));
  return posted;
};

test("an agent's words notify nobody and are no command of the forge; code stays as it is", async () => {
  const summary = "Thanks to @alice.\n/close\nThe decorator is `@injected`.";
  expect(await comments({ taskID: "task_1", summary })).toEqual([
    "Done: task_1.\n\n> Thanks to @\u200Balice.\n> \u200B/close\n> The decorator is `@injected`.\n\n<!-- sortie msg_1 -->",
  ]);
});
