import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../src/package-root.ts";
import { at, createTask, logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";
import { temporary } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/**
 * The service is killed around a server's list and a call: no call happens twice, no server stays, the list is the
 * same.
 */

const turns: MockTurn[] = [{ calls: [{ tool: "mcp__good__do", input: { text: "hello" } }] }, { text: "Done." }];

test.each([
  ["mcp.listed:1", "ok"],
  ["tool.started:1", "interrupted"],
  ["tool.finished:1", "ok"],
])("killed at %j", { timeout: 60_000 }, async (point, outcome) => {
  using root = temporary("sortie-mcp-");
  const provider = await startMockProvider(({ turn }) => turns[turn] ?? { text: "Nothing more." });
  try {
    const good = { command: process.execPath, args: [join(packageRoot, "test/fixtures/mcp/hostile.mjs"), "good"] };
    const { dataDir, project, env } = settingIn(root.path, provider.baseURL, undefined, () => ({
      mcpServers: { good },
      sandbox: { paths: [packageRoot] },
    }));
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: point });
      await createTask(service.url, project, { request: "Do it.", checks: [] }).catch(() => undefined);
      await service.gone;
    }
    await using service = await startProcess(env);
    const listed = (await send(service.url, at("/tasks", project))).body as unknown as { taskID: string }[];
    const taskID = listed[0]?.taskID ?? "";
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const log = await logOf(service.url, taskID);
    expect(log.filter(({ type }) => type === "mcp.listed")).toHaveLength(1);
    const results = log.flatMap(({ type, data }) => (type === "tool.finished" ? [data.outcome] : []));
    expect(results).toEqual([outcome]);
    expect(new Set(provider.requests.map(({ body }) => JSON.stringify(body.tools))).size).toBe(1);
    await nothingLeft(dataDir);
  } finally {
    await provider.close();
  }
});
