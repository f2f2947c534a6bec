import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { detectServers } from "../../src/model/local-server.ts";

/** Servers on this machine are known by their answers; whoever else listens at their port is not taken for one. */

const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

type Answers = Record<string, unknown>;
/** Answers these paths with JSON, everything else with 404. A string is sent as it stands. */
const serve = async (answers: Answers, how: { delayMs?: number; status?: number; location?: string } = {}) => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    const answer = answers[request.url ?? ""];
    setTimeout(() => {
      response.writeHead(
        answer === undefined ? 404 : (how.status ?? 200),
        how.location ? { location: how.location } : {},
      );
      response.end(typeof answer === "string" ? answer : JSON.stringify(answer ?? { error: "not found" }));
    }, how.delayMs ?? 0);
  });
  open.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, asked };
};

/** A port where nobody listens. */
const nowhere = 1;
const all = (ports: Record<string, number>) => ({
  ports: { ollama: nowhere, lmstudio: nowhere, llamacpp: nowhere, vllm: nowhere, ...ports },
});

const real: Record<string, Answers> = {
  ollama: {
    "/api/version": { version: "0.9.1" },
    "/api/tags": { models: [{ name: "qwen3-coder:30b", digest: "06c1", size: 1 }] },
  },
  lmstudio: {
    "/api/v0/models": {
      object: "list",
      data: [
        { id: "qwen2.5-vl", type: "vlm", state: "loaded", loaded_context_length: 16_384, max_context_length: 128_000 },
        { id: "nomic", type: "embeddings", state: "not-loaded" },
        { id: "small", type: "llm", state: "not-loaded" },
      ],
    },
  },
  llamacpp: {
    "/props": { default_generation_settings: { n_ctx: 40_960 }, total_slots: 1, build_info: "b6000" },
    "/v1/models": { data: [{ id: "gpt-oss-20b.gguf", owned_by: "llamacpp" }] },
  },
  vllm: {
    "/version": { version: "0.11.0" },
    "/v1/models": { data: [{ id: "org/model", owned_by: "vllm", max_model_len: 65_536 }] },
  },
};

describe("detection", () => {
  test("each by its own answers, with what it says of its models", async () => {
    const ports = Object.fromEntries(
      await Promise.all(Object.entries(real).map(async ([id, answers]) => [id, (await serve(answers)).port] as const)),
    );
    const at = (id: string) => `http://127.0.0.1:${ports[id]}/v1`;
    expect(await detectServers({ ports })).toEqual([
      { id: "ollama", name: "Ollama", version: "0.9.1", baseURL: at("ollama"), models: [{ id: "qwen3-coder:30b" }] },
      {
        id: "lmstudio",
        name: "LM Studio",
        version: null,
        baseURL: at("lmstudio"),
        models: [{ id: "qwen2.5-vl", contextWindow: 16_384, images: true }, { id: "small" }],
      },
      {
        id: "llamacpp",
        name: "llama.cpp",
        version: "b6000",
        baseURL: at("llamacpp"),
        models: [{ id: "gpt-oss-20b.gguf", contextWindow: 40_960 }],
      },
      {
        id: "vllm",
        name: "vLLM",
        version: "0.11.0",
        baseURL: at("vllm"),
        models: [{ id: "org/model", contextWindow: 65_536 }],
      },
    ]);
  });

  test("one in the place of another is not taken for it", async () => {
    const ids = Object.keys(real);
    for (const place of ids)
      for (const who of ids.filter((id) => id !== place)) {
        const { port, asked } = await serve(real[who] ?? {});
        expect(await detectServers(all({ [place]: port })), `${who} at ${place}`).toEqual([]);
        // The control: it was asked.
        expect(asked.length).toBeGreaterThan(0);
      }
  });

  test.each<[string, Answers, Parameters<typeof serve>[1]]>([
    ["a web page", { "/api/version": "<html>", "/api/tags": "<html>" }, {}],
    ["another shape", { "/api/version": { version: 9 }, "/api/tags": { models: "none" } }, {}],
    [
      "names that break lines",
      { "/api/version": { version: "1" }, "/api/tags": { models: [{ name: "a\nb", digest: "x" }] } },
      {},
    ],
    ["an error", real["ollama"] ?? {}, { status: 500 }],
    ["a redirect", real["ollama"] ?? {}, { status: 302, location: "http://127.0.0.1:9/" }],
    ["too much", { "/api/version": { version: "1" }, "/api/tags": "x".repeat(5_000_000) }, {}],
  ])("%s is nobody", async (_name, answers, how) => {
    expect(await detectServers(all({ ollama: (await serve(answers, how)).port }))).toEqual([]);
  });

  test("who is slow is not waited for", async () => {
    const { port } = await serve(real["ollama"] ?? {}, { delayMs: 5_000 });
    const started = performance.now();
    expect(await detectServers({ ...all({ ollama: port }), withinMs: 200 })).toEqual([]);
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
