import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { eventsOf, finish, newestOf, restOf, wake } from "../harness/double/missions.ts";
import { temporary, until } from "../harness/project.ts";
import { nothingLeft, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/**
 * The service is killed while a Mission's agent looks at its project: the look-ups are made again, and nothing of the
 * files that were checked out for them stays.
 */

const looks = [
  { tool: "list", input: {} },
  { tool: "read", input: { path: "a.txt" } },
  { tool: "search", input: { pattern: "one" } },
  { tool: "git", input: { action: "log" } },
];

test.each(["", "tool.started:1", "tool.finished:1", "tool.finished:3", "tool.finished:4"])(
  "killed at %j",
  { timeout: 60_000 },
  async (point) => {
    using root = temporary("sortie-look-");
    const seen: string[] = [];
    const provider = await startMockProvider((request) => {
      if (request.turn === 0) return { calls: looks };
      seen.push(newestOf(request));
      return request.turn === 1 ? { calls: [finish("blocked", "Seen.")] } : { text: "Nothing more." };
    });
    try {
      const { dataDir, project, env } = settingIn(root.path, provider.baseURL);
      if (point !== "") {
        await using service = await startProcess({ ...env, TEST_KILL_ON: point });
        await wake(service.url, project, { missionID: "m", text: "Look." }).catch(() => undefined);
        await service.gone;
        // The control: what was checked out stood there when it died.
        if (point === "tool.finished:4") expect(leftIn(dataDir)).not.toEqual([]);
      }
      await using service = await startProcess(env);
      if (point === "") await wake(service.url, project, { missionID: "m", text: "Look." });
      const mission = await restOf(service.url, project, "m");
      expect(mission).toMatchObject({ finished: { summary: "Seen." } });
      for (const part of ["a.txt", "1\tone", "first"]) expect(seen[0]).toContain(part);
      const events = await eventsOf(service.url, project, "m");
      const ended = events.flatMap(({ type, data }) => (type === "tool.finished" ? [data] : []));
      expect(ended.map(({ tool, outcome }) => `${String(tool)} ${String(outcome)}`).toSorted()).toEqual(
        [...looks.map(({ tool }) => tool), "finish"].map((tool) => `${tool} ok`).toSorted(),
      );
      await until(
        async () => leftIn(dataDir),
        (left) => left.length === 0,
      );
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
