import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import {
  type MockMessage,
  type MockProvider,
  type MockTurn,
  startMockProvider,
} from "../../harness/double/mock-provider.ts";
import { makeProject, readText, temporary } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** The ids of calls, as a provider that checks them is sent them; log and API have those of the service. */

let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let given: readonly string[] = [];

const idsIn = (messages: readonly MockMessage[]) => ({
  calls: messages.flatMap(({ tool_calls: calls = [] }) => calls.map(({ id }) => id)),
  results: messages.flatMap(({ tool_call_id: id }) => (id === undefined ? [] : [id])),
});

beforeAll(async () => {
  root = temporary("sortie-call-ids-");
  provider = await startMockProvider(({ body, turn }): MockTurn => {
    const { calls, results } = idsIn(body.messages);
    const wrong = [...calls, ...results].find((id) => !/^[a-zA-Z0-9]{9}$/.test(id));
    // As Mistral's API says it.
    if (body.model !== "large" && wrong !== undefined)
      return {
        fail: { status: 400, message: `Tool call id was ${wrong} but must be a-z, A-Z, 0-9, with a length of 9.` },
      };
    const inputs = [{ path: "a.txt" }, { path: "b.txt" }];
    return turn === 0
      ? { calls: inputs.map((input, at) => ({ tool: "read", input, id: given[at] ?? "" })) }
      : turn === 1
        ? { calls: [{ tool: "write", input: { path: "c.txt", content: "c\n" }, id: given[2] ?? "" }] }
        : { text: "Written." };
  });
  const config = join(root.path, "config.jsonc");
  const acme = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { acme } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

let count = 0;
const run = async (model: string, ids: readonly string[]) => {
  given = ids;
  const directory = makeProject(join(root.path, String((count += 1))), { "a.txt": "a\n", "b.txt": "b\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const created = await client.task.create({
    body: { request: "write it", productPillar: "code", model: `acme/${model}`, checks: [] },
  });
  const path = { taskID: created.data?.taskID ?? "" };
  const { data: status } = await client.task.wait({ path, timeoutMs: 15_000 });
  expect(status, status?.error).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(directory, "c.txt")).toBe("c\n");
  const sent = idsIn(provider.requests.at(-1)?.body.messages ?? []);
  expect(sent.results).toEqual(sent.calls);
  const { data } = await client.task.messages({ path });
  const ours = data?.messages.flatMap(({ calls, sessionID }) =>
    sessionID === data.messages[0]?.sessionID ? calls.map(({ callID }) => callID) : [],
  );
  expect(ours).toEqual([0, 1, 2].map(() => expect.stringMatching(/^call_[0-9a-z]{26}$/)));
  return { sent: sent.calls, ours };
};

test("those that the provider gave come back to it", async () => {
  const own = ["D681PevKs", "a1B2c3D4e", "000000000"];
  expect((await run("devstral-medium", own)).sent).toEqual(own);
  // Some models are trained on the form of theirs.
  const trained = ["functions.read:0", "functions.read:1", "functions.write:2"];
  expect((await run("large", trained)).sent).toEqual(trained);
});

test("where they do not fit, others that do: a server in front of such a model gives what its template refuses", async () => {
  const { sent } = await run("Devstral-Small", ["call_1", "call_2", "call_3"]);
  expect(new Set(sent).size).toBe(3);
  for (const id of sent) expect(id).toMatch(/^[0-9a-f]{9}$/);
});

test("control: two calls of one reply that were given the same id stay apart", async () => {
  const { sent } = await run("large", ["same", "same", "other"]);
  expect(new Set(sent).size).toBe(3);
  expect(sent[2]).toBe("other");
});
