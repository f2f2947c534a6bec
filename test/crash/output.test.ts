import { expect, test } from "vitest";
import { at, createTask, logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";
import { git, temporary } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/**
 * The service is killed around the moments at which an output is refused, asked for and given: none is lost or counted
 * twice.
 */

const give = (output: unknown) => ({ tool: "give_output", input: { output } });
const turns: MockTurn[] = [
  { calls: [{ tool: "write", input: { path: "x.txt", content: "x\n" } }, give({ answer: "no" })] },
  { text: "Done." },
  { calls: [give({ answer: 7 })] },
  { text: "Given." },
];
const outputSchema = { type: "object", properties: { answer: { type: "integer" } }, required: ["answer"] };

test.each(["output.refused:1", "tree.committed:1", "output.refused:2", "output.given:1", "landing.started:1"])(
  "killed at %j",
  { timeout: 60_000 },
  async (point) => {
    using root = temporary("sortie-output-");
    const provider = await startMockProvider(({ turn }) => turns[turn] ?? { text: "Nothing more." });
    try {
      const { dataDir, project, env } = settingIn(root.path, provider.baseURL);
      {
        await using service = await startProcess({ ...env, TEST_KILL_ON: point });
        await createTask(service.url, project, { request: "Do it.", checks: [], outputSchema }).catch(() => undefined);
        await service.gone;
      }
      await using service = await startProcess(env);
      const listed = (await send(service.url, at("/tasks", project))).body as unknown as { taskID: string }[];
      const taskID = listed[0]?.taskID ?? "";
      const task = await settledTask(service.url, taskID);
      expect(task).toMatchObject({ lifecycleStatus: "completed", output: { answer: 7 } });
      const log = await logOf(service.url, taskID);
      const count = (type: string) => log.filter((frame) => frame.type === type).length;
      expect([count("output.refused"), count("output.given"), count("task.settled")]).toEqual([2, 1, 1]);
      expect(git(project, "show", "HEAD:x.txt")).toBe("x");
      await nothingLeft(dataDir);
    } finally {
      await provider.close();
    }
  },
);
