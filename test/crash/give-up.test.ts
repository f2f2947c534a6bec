import { expect, test } from "vitest";
import { createTask, logOf, send, at, settledTask } from "../harness/double/hostile-text.ts";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { git, temporary } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/** The service is killed around the moment at which an agent gives its Task up: it ends once, with the same words. */

const turns = [
  {
    calls: [
      { tool: "write", input: { path: "x.txt", content: "x\n" } },
      { tool: "shell", input: { command: "false" } },
    ],
  },
  { calls: [{ tool: "give_up", input: { why: "No.", tried: "All." } }] },
];

test.each(["", "tool.finished:2", "tool.started:3", "task.abandoned:1", "tree.committed:1", "task.settled:1"])(
  "killed at %j",
  { timeout: 60_000 },
  async (point) => {
    using root = temporary("sortie-give-up-");
    const provider = await startMockProvider(({ turn }) => turns[turn] ?? { text: "Nothing more." });
    try {
      const { dataDir, project, env } = settingIn(root.path, provider.baseURL);
      const create = (url: string) => createTask(url, project, { request: "Do it.", checks: ["false"] });
      if (point !== "") {
        await using service = await startProcess({ ...env, TEST_KILL_ON: point });
        await create(service.url).catch(() => undefined);
        await service.gone;
      }
      await using service = await startProcess(env);
      if (point === "") await create(service.url);
      const listed = (await send(service.url, at("/tasks", project))).body as unknown as { taskID: string }[];
      expect(listed).toHaveLength(1);
      const taskID = listed[0]?.taskID ?? "";
      const task = await settledTask(service.url, taskID);
      expect(task).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "given_up" }, attempt: 1 });
      const types = (await logOf(service.url, taskID)).map(({ type }) => type);
      expect(types.filter((type) => type === "task.abandoned")).toHaveLength(1);
      expect(types.filter((type) => type === "task.settled")).toHaveLength(1);
      expect(types).not.toContain("check.started");
      expect(git(project, "show", `${task.git.branch}:x.txt`)).toBe("x");
      await nothingLeft(dataDir);
    } finally {
      await provider.close();
    }
  },
);
