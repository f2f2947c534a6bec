import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTask, logOf, settledTask } from "../harness/double/hostile-text.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { nothingLeft, processesOf, startProcess } from "./process.ts";

/**
 * The service dies while it runs tests on the base of a change: to know what was red before the work, or to prove the
 * change by contrast. Each is run again and told once, and the Task ends as it would have.
 */

const root = temporary("sortie-contrast-");
let provider: MockProvider;
let count = 0;
const mended = "export const add = (a, b) => a + b;\n";
/** A test that takes its time where the code is not mended, in a process that can be seen. */
const proof = `import test from "node:test";
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { add } from "./math.mjs";
test("sum", () => {
  if (add(1, 2) !== 3) execFileSync("sleep", ["1.503"]);
  assert.equal(add(1, 2), 3);
});
`;
const old = {
  "package.json": JSON.stringify({ scripts: { test: "sleep 1.502; node --test" } }),
  "math.mjs": "export const add = (a, b) => a - b;\n",
  "math.test.mjs": 'import "./math.mjs";\n',
};

beforeAll(async () => {
  provider = await startMockProvider(({ turn }) =>
    turn === 0
      ? {
          calls: [
            { tool: "write", input: { path: "math.mjs", content: mended } },
            { tool: "write", input: { path: "math.test.mjs", content: proof } },
          ],
        }
      : { text: "Done." },
  );
});
afterAll(async () => {
  await provider.close();
  root[Symbol.dispose]();
});

/** Whether a command of the service over this data folder has started a `sleep` for so long. */
const sleeps = (dataDir: string, seconds: string): boolean =>
  processesOf(dataDir).some((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8") === `sleep\0${seconds}\0`;
    } catch {
      return false;
    }
  });

describe("killed while tests run on the base", { timeout: 90_000 }, () => {
  const cases = [
    ["of the checks before the work", { sleep: "1.502" }, {}],
    ["of the proof by contrast", { sleep: "1.503" }, { checks: ["node --test math.test.mjs"] }],
    ["when the proof is on record", { on: "contrast.finished" }, { checks: ["node --test math.test.mjs"] }],
  ] as const;

  test.each(cases)("%s", async (_what, kill, body) => {
    count += 1;
    const directory = makeProject(join(root.path, `project-${count}`), old);
    const dataDir = join(root.path, `data-${count}`);
    const config = `${dataDir}.jsonc`;
    const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
    writeFileSync(config, JSON.stringify({ model: "mock/large", providers }));
    const env = { SERVICE_DATA_DIR: dataDir, SERVICE_CONFIG: config, HOME: root.path };
    let taskID = "";
    {
      await using service = await startProcess("on" in kill ? { ...env, TEST_KILL_ON: kill.on } : env);
      taskID = await createTask(service.url, directory, { request: "Mend it", ...body });
      if ("sleep" in kill) {
        await until(
          () => Promise.resolve(sleeps(dataDir, kill.sleep)),
          (is) => is,
          20_000,
        );
        await service.kill("SIGKILL");
      } else await service.gone;
    }

    await using service = await startProcess(env);
    expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ lifecycleStatus: "completed" });
    const events = await logOf(service.url, taskID);
    const contrasts = events.flatMap(({ type, data }) => (type === "contrast.finished" ? [data.result] : []));
    expect(contrasts).toEqual(["proves"]);
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type === "landing.finished")).toHaveLength(1);
    const before = events.filter(({ type, data }) => type === "check.finished" && data.on === "base");
    expect(before).toHaveLength("checks" in body ? 0 : 1);
    await service.kill("SIGTERM");
    await nothingLeft(dataDir);
  });
});
