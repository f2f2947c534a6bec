import { join } from "node:path";
import { expect, test } from "vitest";
import { createTask, logOf, makeLab, settledTask } from "../../harness/double/hostile-text.ts";
import { makeProject } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";

/** As JSON: what a model says may be nested deeper than whoever walks it can call itself. */
const nested = (levels: number) => `{"text":${'{"a":'.repeat(levels)}1${"}".repeat(levels)}}`;

test("a model's arguments that are nested 5,000 deep are refused to it by name, and its Task goes on; control: others are read", {
  timeout: 60_000,
}, async () => {
  await using lab = await makeLab();
  await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  const directory = makeProject(lab.folder(), { "a.txt": "a\n" });
  const deep = { calls: [{ tool: "note", input: nested(5000) }] };
  const read = { calls: [{ tool: "read", input: '{"path":"a.txt"}' }] };
  const id = await createTask(service.url, directory, lab.request([deep, read, { text: "Done." }]));
  expect((await settledTask(service.url, id)).lifecycleStatus).toBe("completed");
  const results = (await logOf(service.url, id)).flatMap((frame) =>
    frame.type === "tool.finished" ? [{ outcome: frame.data.outcome, output: JSON.stringify(frame.data.output) }] : [],
  );
  expect(results).toMatchObject([
    { outcome: "error", output: expect.stringMatching(/nested at most 64 deep/) as string },
    { outcome: "ok" },
  ]);
});
