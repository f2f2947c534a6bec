import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTask, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import { startMockProvider } from "../../harness/double/mock-provider.ts";
import { makeProject, temporary, until } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";

/** Questions and permissions wait for times of their own, also after a restart under other limits. */

const day = 86_400;

/** What is asked when both calls are open, in milliseconds from now, and how the Task of each ends at once. */
const asked = async (limits: { askSeconds: number; permissionSeconds: number }) => {
  using root = temporary("sortie-ask-bounds-");
  const provider = await startMockProvider(({ first, turn, body }) => {
    if (turn > 0) return { text: `Told: ${JSON.stringify(body.messages.at(-1)?.content)}` };
    return first.includes("question")
      ? { calls: [{ tool: "ask", input: { question: "Which?", default: "red" } }] }
      : { calls: [{ tool: "write", input: { path: "Dockerfile", content: "x\n" } }] };
  });
  try {
    const config = join(root.path, "config.jsonc");
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    const permissions = { ask: ["write(Dockerfile)"] };
    const write = (now: object) =>
      writeFileSync(config, JSON.stringify({ model: "mock/large", providers, permissions, limits: now }));
    write(limits);
    const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
    const start = () => startService(join(root.path, "data"), { SERVICE_CONFIG: config });
    const left: Record<string, number> = {};
    const ids: Record<string, string> = {};
    {
      await using service = await start();
      for (const kind of ["question", "permission"]) {
        const taskID = await createTask(service.url, project, { request: `A ${kind}.` });
        const { pending } = await until(
          () => statusOf(service.url, taskID),
          (task) => task.pending.length > 0 || task.status === "inactive",
        );
        ids[kind] = taskID;
        left[kind] = Date.parse(pending[0]?.expiresAt ?? "") - Date.now();
      }
    }
    // What is asked already keeps the time that it was given.
    write({ askSeconds: 1, permissionSeconds: 1 });
    await using service = await start();
    const short = Object.entries(limits).find(([, seconds]) => seconds < day)?.[0];
    const ends = short === "askSeconds" ? "question" : "permission";
    const stays = ends === "question" ? "permission" : "question";
    const ended = await settledTask(service.url, ids[ends] ?? "");
    const waits = await statusOf(service.url, ids[stays] ?? "");
    return { left, words: ended.summary ?? "", waits: waits.pending.map(({ kind }) => kind) };
  } finally {
    await provider.close();
  }
};

test("a question waits for a day while a permission is denied in seconds; control: the other way round", async () => {
  const patient = await asked({ askSeconds: day, permissionSeconds: 4 });
  expect(patient.left["question"]).toBeGreaterThan((day - 60) * 1000);
  expect(patient.left["permission"]).toBeLessThanOrEqual(4000);
  expect(patient.words).toContain("Nobody gave permission in time");
  expect(patient.waits).toEqual(["question"]);

  const other = await asked({ askSeconds: 4, permissionSeconds: day });
  expect(other.left["permission"]).toBeGreaterThan((day - 60) * 1000);
  expect(other.left["question"]).toBeLessThanOrEqual(4000);
  expect(other.words).toContain("your default applies: red");
  expect(other.waits).toEqual(["permission"]);
});
