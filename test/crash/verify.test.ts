import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { eventsOf, finish, restOf, wake } from "../harness/double/missions.ts";
import { makeProject, readText, temporary, until } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";

/**
 * The service is killed around the checks of a Mission: what is on record is not run again, what is not is, the Mission
 * ends once, and nothing of the files that were checked out for them stays.
 */

const verify = { tool: "verify", input: { checks: ["grep one a.txt"] } };

test.each(["", "tool.started:1", "mission.verified:1", "tool.finished:1", "mission.verified:2", "mission.finished:1"])(
  "killed at %j",
  { timeout: 60_000 },
  async (point) => {
    using root = temporary("sortie-verify-");
    const provider = await startMockProvider((request) => {
      if (request.turn === 0) return { calls: [verify] };
      return request.turn === 1 ? { calls: [finish()] } : { text: "Nothing more." };
    });
    try {
      const dataDir = join(root.path, "data");
      const config = join(root.path, "config.jsonc");
      const project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
      const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
      writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
      const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
      const body = { missionID: "m", text: "Look.", checks: ["grep one a.txt"] };
      if (point !== "") {
        await using service = await startProcess({ ...env, TEST_KILL_ON: point });
        await wake(service.url, project, body).catch(() => undefined);
        await service.gone;
      }
      await using service = await startProcess(env);
      if (point === "") await wake(service.url, project, body);
      const mission = await restOf(service.url, project, "m");
      expect(mission).toMatchObject({ state: "done", verified: true });
      const events = await eventsOf(service.url, project, "m");
      const verified = events.flatMap(({ type, data }) => (type === "mission.verified" ? [data["of"]] : []));
      expect(verified).toEqual(["asked", "acceptance"]);
      expect(events.filter(({ type }) => type === "mission.finished")).toHaveLength(1);
      const ended = events.flatMap(({ type, data }) => (type === "tool.finished" ? [data] : []));
      expect(ended.map(({ tool, outcome }) => `${String(tool)} ${String(outcome)}`)).toEqual([
        "verify ok",
        "finish ok",
      ]);
      await until(
        async () => leftIn(dataDir),
        (left) => left.length === 0,
      );
      expect(readText(project, "a.txt")).toBe("one\n");
      await nothingLeft(dataDir);
    } finally {
      await provider.close();
    }
  },
);

const leftIn = (dataDir: string): string[] => {
  const worktrees = join(dataDir, "worktrees");
  return existsSync(worktrees) ? readdirSync(worktrees).filter((name) => name.startsWith("ses_")) : [];
};
