import { describe, expect, test } from "vitest";
import { knownKinds } from "../../src/model/provider-kind.ts";
import { createProviderModel } from "../../src/model/provider/provider.ts";
import { createBuiltinModel } from "../../src/model/builtin/builtin.ts";
import { toolSpecs, tools } from "../../src/tool/registry.ts";
import { startFront } from "./front.ts";
import { arrived, connectionOf, failureOf, front, key, mock, open, traits, wires, setUpModelLab } from "./lab.ts";
import { answered, modelSuite, ownIDs, replyOf, requestOf, user } from "./suite.ts";
import { fairMs } from "../harness/pace.ts";

setUpModelLab();

/** Every kind of provider against a mock on a real port; the bodies checked are those that arrived. */

const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=",
  "base64",
);
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n");

modelSuite("the built-in rules", async () => ({
  model: createBuiltinModel(),
  text: "```txt file=a.txt\nx\n```",
  request: { tools: toolSpecs(Object.values(tools)) },
  output: () => "Created a.txt (2 bytes).",
  close: async () => {},
}));

for (const wire of wires) {
  modelSuite(wire.name, async () => ({ model: open(wire), text: "read two", close: async () => {} }));

  describe(wire.name, () => {
    test("system, tools, two parallel calls, and their results in the next request", async () => {
      const model = open(wire);
      const messages = [user("read two")];
      const first = await replyOf(model, requestOf(messages));
      expect(first.text).toBe("Reading both.");
      expect(first.calls).toEqual([
        { tool: "read", input: { path: "a.txt" } },
        { tool: "read", input: { path: "b.txt" } },
      ]);
      expect(front.seen).toHaveLength(1);
      expect(arrived()).toContain("You are careful.");
      expect(arrived()).toContain("Reads a file.");
      expect(arrived()).toContain('"required":["path"]');
      const keyHeader = { anthropic: "x-api-key", google: "x-goog-api-key" }[wire.kind as string] ?? "authorization";
      expect(front.seen[0]?.headers[keyHeader]).toContain(key);

      messages.push(...answered(first, ({ input }) => `contents of ${(input as { path: string }).path}`));
      const second = await replyOf(model, requestOf(messages));
      expect(second).toMatchObject({ text: "Both are read.", calls: [], finish: "end" });
      expect(front.seen).toHaveLength(2);
      const body = arrived();
      for (const part of ["Reading both.", "contents of a.txt", "contents of b.txt"]) expect(body).toContain(part);
      const own = ownIDs(first);
      expect(new Set(own).size).toBe(2);
      if (wire.kind !== "google") for (const id of own) expect(body.split(`"${id}"`)).toHaveLength(3);
      expect(body).not.toContain("call_own");
      expect(body.indexOf("contents of a.txt")).toBeLessThan(body.indexOf("contents of b.txt"));
    });

    test("control: calls that another model made have ids of ours", async () => {
      const first = await replyOf(open(wire), requestOf([user("read two")]));
      const { provider, ...foreign } = first;
      expect(provider).toBeDefined();
      for (const reply of [foreign, { ...first, provider: { ...(provider as object), ref: "other/one" } }]) {
        await replyOf(open(wire), requestOf([user("read two"), ...answered(reply, () => "contents")]));
        const ids = ["call_own0", "call_own1"];
        if (wire.kind !== "google") for (const id of ids) expect(arrived().split(`"${id}"`)).toHaveLength(3);
        for (const id of ownIDs(first)) expect(arrived()).not.toContain(id);
      }
    });

    test("usage is counted", async () => {
      const { usage } = await replyOf(open(wire), requestOf([user("say hello")]));
      expect(usage).toMatchObject({ inputTokens: 1_000, outputTokens: 50, cacheReadTokens: 0, cacheWriteTokens: 0 });
      if (wire.kind === "openai-compatible") expect(usage.costUSD).toBeNull();
      else expect(usage.costUSD).toBeGreaterThan(0);
    });

    test("files: an image and a PDF as such, text inline, the rest by name", async () => {
      const files = [
        { filename: "dot.png", mime: "image/png", bytes: png },
        { filename: "paper.pdf", mime: "application/pdf", bytes: pdf },
        { filename: "notes.md", mime: "text/markdown", bytes: Buffer.from("# Remember the milk") },
        { filename: "blob.bin", mime: "application/octet-stream", bytes: Buffer.from([0, 1, 2, 255]) },
      ];
      await replyOf(open(wire), requestOf([user("say hello", files)]));
      const body = arrived();
      expect(body).toContain(png.toString("base64"));
      if (wire.kind === "openai-compatible") expect(body).toContain("Attachment paper.pdf (application/pdf");
      else expect(body).toContain(pdf.toString("base64"));
      expect(body).toContain("# Remember the milk");
      expect(body).toContain("Attachment blob.bin (application/octet-stream, 4 bytes) cannot be shown");
      expect(body).not.toContain("working directory");
      // Where it stands is told, and a model without eyes is sent no picture.
      const path = ".sortie/attachments/12345678/dot.png";
      const blind = { ...traits(wire), takes: { images: false, pdf: false, tools: true } };
      const model = createProviderModel(connectionOf(wire), wire.model, blind);
      await replyOf(
        model,
        requestOf([user("say hello", [{ ...files[0], path } as (typeof files)[0] & { path: string }])]),
      );
      expect(arrived()).not.toContain(png.toString("base64"));
      expect(arrived()).toContain(`cannot be shown to you; use the file ${path} in your working directory.`);
    });

    test("arguments that do not parse, or are no object, say how to repair them", async () => {
      // Gemini's arguments are JSON within JSON, which cannot be malformed; the mock mends Anthropic's (see
      // model-wire.test.ts).
      if (wire.kind === "google" || wire.kind === "anthropic") return;
      const wrong = await replyOf(open(wire), requestOf([user("be wrong")]));
      expect(wrong.calls).toHaveLength(1);
      expect(wrong.calls[0]?.invalid).toMatch(/^Expected the arguments of read as one JSON object, got text/);
      const list = await replyOf(open(wire), requestOf([user("a list")]));
      expect(list.calls[0]?.invalid).toMatch(/got \["a.txt"\]/);
    });

    test("a reply that reached the output limit", async () => {
      // The mock ends a Responses stream as complete whatever the reason (see model-wire.test.ts).
      if (wire.name === "OpenAI Responses") return;
      const reply = await replyOf(open(wire), requestOf([user("too much")]));
      expect(reply).toMatchObject({ text: "And so on and", finish: "length" });
    });

    test.each([
      [401, "provider_refused", false, "refused the key from TEST_KEY (401)."],
      [403, "provider_refused", false, "refused the key from TEST_KEY (403)"],
      [404, "provider_refused", false, `does not know the model ${wire.model} (404)`],
      [400, "provider_refused", false, "did not accept the request"],
      [429, "provider_limited", true, "limits the rate of requests (429)"],
      [500, "provider_unavailable", true, "is in trouble (500)"],
      [503, "provider_unavailable", true, "is in trouble (503)"],
      [529, "provider_unavailable", true, "is in trouble (529)"],
    ])("status %i", async (status, code, retryable, words) => {
      const message = `${key} is what you sent: ${"x".repeat(2_000)}`;
      const body = JSON.stringify({ type: "error", error: { message, type: "some_error", code: status, status: "X" } });
      front.fault = { kind: "status", status, body };
      const { failure } = await failureOf(wire);
      expect(failure).toMatchObject({ code, retryable });
      expect(failure.message).toContain(words);
      expect(failure.message.length).toBeLessThan(700);
      // The control: the provider's own words are quoted, and held the key.
      if (status !== 401) expect(failure.message).toContain("[redacted:key] is what you sent");
      // No retries but our own.
      expect(front.seen).toHaveLength(1);
    });

    test("Retry-After in seconds, as a date and in milliseconds", async () => {
      const body = JSON.stringify({ error: { message: "slow down", type: "rate_limit_error" } });
      const wait = async (headers: Record<string, string>) => {
        front.fault = { kind: "status", status: 429, body, headers };
        return (await failureOf(wire)).retryAfterMs;
      };
      expect(await wait({ "retry-after": "7" })).toBe(7_000);
      expect(await wait({ "retry-after": "7", "retry-after-ms": "250" })).toBe(250);
      const date = await wait({ "retry-after": new Date(Date.now() + 30_000).toUTCString() });
      expect(date).toBeGreaterThan(27_000);
      expect(date).toBeLessThanOrEqual(30_000);
      expect(await wait({ "retry-after": "soon" })).toBeUndefined();
      expect(await wait({})).toBeUndefined();
    });

    test("without Retry-After the limits that are used up say when, and so does Google's body", async () => {
      let body = JSON.stringify({ error: { message: "slow down", type: "rate_limit_error" } });
      const wait = async (headers: Record<string, string>) => {
        front.fault = { kind: "status", status: 429, body, headers };
        return (await failureOf(wire)).retryAfterMs;
      };
      const openai = (tokens: string) => ({
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1.5s",
        "x-ratelimit-remaining-tokens": tokens,
        "x-ratelimit-reset-tokens": "6m0s",
      });
      expect(await wait(openai("0"))).toBe(360_000);
      expect(await wait(openai("12"))).toBe(1_500);
      const anthropic = await wait({
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": new Date(Date.now() + 7_200_000).toISOString(),
      });
      expect(anthropic).toBeGreaterThan(7_190_000);
      expect(anthropic).toBeLessThanOrEqual(7_200_000);
      const clock = String(Date.now() + 3_600_000);
      const openrouter = await wait({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": clock });
      expect(openrouter).toBeGreaterThan(3_590_000);
      expect(await wait({ ...openai("0"), "retry-after": "2" })).toBe(2_000);
      const details = [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "31s" }];
      body = JSON.stringify({ error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "quota", details } });
      expect(await wait({})).toBe(31_000);
    });

    test("a used-up quota is no rate limit, and the provider's own trouble says that another may answer", async () => {
      const failing = async (status: number, type: string) => {
        front.fault = { kind: "status", status, body: JSON.stringify({ error: { message: type, type, code: type } }) };
        const { failure, elsewhere } = await failureOf(wire);
        return [failure.code, failure.retryable, elsewhere ?? false];
      };
      expect(await failing(429, "insufficient_quota")).toEqual(["provider_refused", false, true]);
      expect(await failing(402, "payment")).toEqual(["provider_refused", false, true]);
      expect(await failing(429, "rate_limit_error")).toEqual(["provider_limited", true, true]);
      expect(await failing(503, "overloaded")).toEqual(["provider_unavailable", true, true]);
      // What the operator has to mend is not covered up.
      expect(await failing(401, "authentication_error")).toEqual(["provider_refused", false, false]);
      expect(await failing(400, "bad")).toEqual(["provider_refused", false, false]);
    });

    test("a conversation that is too long", async () => {
      const message = "This model's maximum context length is 8192 tokens, you sent 9000.";
      front.fault = { kind: "status", status: 400, body: JSON.stringify({ error: { message, type: "x" } }) };
      expect((await failureOf(wire)).failure).toMatchObject({ code: "context_too_long", retryable: false });
    });

    test("a body that is no JSON", async () => {
      front.fault = { kind: "status", status: 502, body: "<html>Bad Gateway</html>" };
      expect((await failureOf(wire)).failure).toMatchObject({ code: "provider_unavailable", retryable: true });
    });

    test("a stream cut at any of several places is a failure that can be tried again", async () => {
      for (const kind of ["cut", "end"] as const)
        for (const after of [1, 60, 200]) {
          front.fault = { kind, after };
          const { failure } = await failureOf(wire);
          expect(failure, `${kind} after ${after}`).toMatchObject({ code: "provider_unavailable", retryable: true });
        }
    });

    test("a silent stream is cut: before the first byte, between two, and when it does not end", async () => {
      const silent = async (patience: Parameters<typeof failureOf>[2], within: number) => {
        const started = performance.now();
        const { failure, elsewhere } = await failureOf(wire, {}, patience);
        expect(performance.now() - started).toBeLessThan(within);
        expect(failure).toMatchObject({ code: "provider_unavailable", retryable: true });
        expect(elsewhere).toBe(true);
        return failure.message;
      };
      front.fault = { kind: "silent", after: 60 };
      expect(await silent({ silentMs: 120 }, 1_500)).toContain("stopped responding (no byte for 0.12 s)");
      expect(await silent({ replyMs: 130 }, 1_500)).toContain("stopped responding (no end after 0.13 s)");
      front.fault = { kind: "hold" };
      expect(await silent({ firstMs: 110, silentMs: 5 }, 1_500)).toContain("stopped responding (no byte for 0.11 s)");
      // The control: a first byte that comes in time is not held to the other limit.
      front.fault = undefined;
      expect((await open(wire, { firstMs: 5_000, silentMs: 5_000 }).reply(requestOf([user("say hello")]))).ok).toBe(
        true,
      );
    });

    test("an abort rejects with its reason within 100 ms and closes the line", async () => {
      for (const fault of [{ kind: "hold" }, { kind: "silent", after: 60 }] as const) {
        front.fault = fault;
        const stop = new AbortController();
        const reason = new Error("cancelled by the user");
        const pending = open(wire).reply(requestOf([user("say hello")], { signal: stop.signal }));
        const outcome = expect(pending).rejects.toBe(reason);
        await expect.poll(() => front.open(), { interval: 5 }).toBeGreaterThan(0);
        const started = performance.now();
        stop.abort(reason);
        await outcome;
        expect(performance.now() - started).toBeLessThan(fairMs(100));
        await expect.poll(() => front.open(), { interval: 5 }).toBe(0);
      }
    });

    test("a redirect is refused, and nothing reaches where it leads", async () => {
      const other = await startFront(mock.url);
      try {
        front.fault = { kind: "redirect", to: `${other.origin}/elsewhere` };
        const { failure } = await failureOf(wire);
        expect(failure).toMatchObject({ code: "provider_refused", retryable: false });
        expect(failure.message).toContain("redirect");
        expect(other.seen).toEqual([]);
        // The control: a fetch that follows does arrive there.
        await fetch(front.origin, { method: "POST", body: "{}" });
        expect(other.seen).toHaveLength(1);
      } finally {
        await other.close();
      }
    });

    test("nothing answers", async () => {
      const gone = await startFront(mock.url);
      await gone.close();
      const reply = await createProviderModel(connectionOf(wire, gone.origin), wire.model, traits(wire)).reply(
        requestOf([user("say hello")]),
      );
      expect(reply).toMatchObject({ ok: false, failure: { code: "provider_unavailable", retryable: true } });
      expect(!reply.ok && reply.failure.message).toContain(`nothing answers at ${gone.origin} (ECONNREFUSED)`);
    });
  });
}

test("no request goes anywhere but where the key belongs", () => {
  // Only the defaults are wide: all are https, and nothing else is built in.
  for (const { baseURL } of Object.values(knownKinds)) expect(new URL(baseURL).protocol).toBe("https:");
});
