import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeProject } from "../../harness/project.ts";
import { createTask, logOf, makeLab, settledTask, shell } from "../../harness/double/hostile-text.ts";
import { startService } from "../../harness/service.ts";

/** What a model is sent of its tools, and that an operator's word switches one on. */

test("the first request stays below 13 KB and has no web_fetch; switched on, it has, and nothing inside is reached; a long output is read on", async () => {
  await using lab = await makeLab();
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const toolsIn = (at: number) => lab.provider.requests.at(at)?.body.tools?.map((tool) => tool.function.name) ?? [];
  {
    await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
    const taskID = await createTask(service.url, directory, {
      ...lab.request([shell("seq 1 20000"), { calls: [{ tool: "list", input: {} }] }, { text: "Counted." }]),
    });
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const first = lab.provider.requests[0];
    const bytes = Buffer.byteLength(JSON.stringify(first?.body));
    console.log(`the first request: ${bytes} bytes, tools ${Buffer.byteLength(JSON.stringify(first?.body.tools))}`);
    expect(bytes).toBeLessThan(13 * 1024);
    expect(toolsIn(0)).not.toContain("web_fetch");
    const finished = (await logOf(service.url, taskID)).find((frame) => frame.type === "tool.finished");
    if (finished?.type !== "tool.finished") throw new Error("no result");
    expect(finished.data.full?.bytes).toBe(108_893);
    const whole = await fetch(`${service.url}/task/${taskID}/call/${finished.data.callID}/output`);
    expect([whole.headers.get("content-type"), (await whole.text()).length]).toEqual([
      "text/plain; charset=utf-8",
      108_893,
    ]);
    const none = await fetch(`${service.url}/task/${taskID}/call/call_none/output`);
    expect([none.status, await none.json()]).toMatchObject([404, { code: "call_not_found" }]);
    const again = await createTask(service.url, directory, {
      ...lab.request([
        { calls: [{ tool: "read", input: { path: `output:${finished.data.callID}` } }] },
        { text: "It is another Task's." },
      ]),
    });
    await settledTask(service.url, again);
    const other = (await logOf(service.url, again)).find((frame) => frame.type === "tool.finished");
    expect(JSON.stringify(other?.data)).toContain("that a cut result of this Task named");
  }
  const config = join(lab.root, "web.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: lab.provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ providers, web: { fetch: true, http: true } }));
  const fetching = [
    { calls: [{ tool: "web_fetch", input: { url: `${lab.provider.baseURL.replace(/:\d+.*/, "")}/` } }] },
    { text: "It could not be read." },
  ];
  {
    await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: config });
    const taskID = await createTask(service.url, directory, lab.request(fetching));
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    expect(toolsIn(-1)).toContain("web_fetch");
    const finished = (await logOf(service.url, taskID)).find((frame) => frame.type === "tool.finished");
    expect(finished?.data).toMatchObject({
      outcome: "error",
      output: "Expected a public address of 127.0.0.1, got 127.0.0.1.",
    });
  }
  await using service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: config, SERVICE_OFFLINE: "1" });
  const taskID = await createTask(service.url, directory, lab.request(fetching));
  await settledTask(service.url, taskID);
  expect(toolsIn(-1)).not.toContain("web_fetch");
});
