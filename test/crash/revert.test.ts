import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTask, expectWhole, logOf, post, settledTask } from "../harness/double/hostile-text.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { git, makeProject, readText, temporary } from "../harness/project.ts";
import { startProcess } from "./process.ts";

/** Reverts and retries whose service dies in the middle of them go on like every Task, and leave nothing half done. */

let provider: MockProvider;
beforeAll(async () => {
  provider = await startMockProvider(({ first, turn }) => {
    const command = `for f in a*.txt; do echo ${first.includes("tried before") ? "right" : "new"} > $f; done`;
    return turn === 0 ? { calls: [{ tool: "shell", input: { command } }] } : { text: "Done." };
  });
});
afterAll(() => provider.close());

const paths = [1, 2, 3, 4].map((n) => `a${n}.txt`);
const place = (root: string) => {
  const project = makeProject(join(root, "project"), Object.fromEntries(paths.map((path) => [path, "old\n"])));
  const config = join(root, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock } }));
  return { project, env: { SERVICE_DATA_DIR: join(root, "data"), SERVICE_CONFIG: config, HOME: root } };
};
const texts = (project: string) => paths.map((path) => readText(project, path).trim()).join(" ");
const typesOf = async (url: string, taskID: string) => (await logOf(url, taskID)).map(({ type }) => type);

describe.concurrent("killed", { timeout: 90_000 }, () => {
  test.each(["workspace.prepared", "tree.committed", "landing.started", "landing.finished"])(
    "a revert, at %s: it lands once and whole",
    async (type) => {
      using root = temporary("sortie-crash-");
      const { project, env } = place(root.path);
      let taskID = "";
      {
        await using service = await startProcess(env);
        taskID = await createTask(service.url, project, { request: "change them" });
        await settledTask(service.url, taskID);
      }
      expect(texts(project)).toBe("new new new new");
      let revertID = "";
      {
        await using service = await startProcess({ ...env, TEST_KILL_ON: type });
        const answer = await post(service.url, `/task/${taskID}/revert`, project, undefined);
        expect(answer.status, JSON.stringify(answer.body)).toBe(202);
        revertID = String(answer.body["taskID"]);
        await service.gone;
      }
      if (type === "landing.started") {
        // As far as it would have come, had it lived a moment longer.
        writeFileSync(join(project, ".git", "index.lock"), `sortie ${revertID}\n`);
        writeFileSync(join(project, ".git", `sortie-${revertID}.index`), "half");
        for (const path of paths.slice(0, 2)) writeFileSync(join(project, path), "old\n");
        // Control: so far it is half a landing.
        expect(texts(project)).toBe("old old new new");
      }
      await using again = await startProcess(env);
      const status = await settledTask(again.url, revertID);
      expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", revertOf: taskID });
      expect(texts(project)).toBe("old old old old");
      expect(git(project, "log", "--format=%s")).toBe('Revert "change them"\nchange them\nfirst');
      expect(status.usage.modelCalls).toBe(0);
      expect((await typesOf(again.url, revertID)).filter((each) => each === "landing.finished")).toHaveLength(1);
      expectWhole(project);
    },
  );

  test.each(["run.started", "workspace.prepared", "tree.committed"])(
    "a retry, at %s: the branch of the attempt before holds what that made",
    async (type) => {
      using root = temporary("sortie-crash-");
      const { project, env } = place(root.path);
      let taskID = "";
      {
        await using service = await startProcess(env);
        taskID = await createTask(service.url, project, { request: "change them", checks: ["grep -q right a1.txt"] });
        expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "failed" });
      }
      {
        await using service = await startProcess({ ...env, TEST_KILL_ON: type });
        await post(service.url, `/task/${taskID}/retry`, project, undefined).catch(() => undefined);
        await service.gone;
      }
      await using again = await startProcess(env);
      const status = await settledTask(again.url, taskID);
      expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
      expect(texts(project)).toBe("right right right right");
      expect(git(project, "show", `sortie/${taskID}.attempt-1:a1.txt`)).toBe("new");
      expect(git(project, "log", "--format=%s")).toBe("change them\nfirst");
      expectWhole(project);
    },
  );
});
