import { describe, expect, test } from "vitest";
import type { Model, ModelReply, ModelRequest, PromptMessage } from "../../src/model/model.ts";

/** What every model keeps, whatever is behind it. */

export type ModelSubject = {
  model: Model;
  /** A first message that this model answers with at least one call, and ends once it has the results. */
  text: string;
  /** Where the request must differ from the plain one, e.g. in facts. */
  request?: Partial<ModelRequest>;
  /** What a tool gives back; default "contents". */
  output?: (call: { tool: string; input: unknown }) => string;
  close(): Promise<void>;
};

export const readTool = {
  name: "read",
  description: "Reads a file.",
  parameters: {
    type: "object",
    properties: { path: { type: "string" } },
    required: ["path"],
    additionalProperties: false,
  },
};

export const user = (text: string, files: Extract<PromptMessage, { role: "user" }>["files"] = []): PromptMessage => ({
  role: "user",
  messageID: "msg_1",
  source: "api",
  text,
  files,
});

export const requestOf = (messages: PromptMessage[], more: Partial<ModelRequest> = {}): ModelRequest => ({
  system: "You are careful.",
  messages,
  tools: [readTool],
  facts: { checks: [], detected: {} },
  signal: new AbortController().signal,
  onText() {},
  onReasoning() {},
  ...more,
});

/** The reply, which must be one. */
export const replyOf = async (model: Model, request: ModelRequest): Promise<ModelReply> => {
  const reply = await model.reply(request);
  if (!reply.ok) throw new Error(`Expected a reply, got ${JSON.stringify(reply.failure)}`);
  return reply;
};

/** The ids that the provider gave to the calls. */
export const ownIDs = ({ provider }: Pick<ModelReply, "provider">): string[] =>
  (provider as { parts: { type: string; id?: string }[] }).parts.flatMap(({ type, id }) =>
    type === "call" && id !== undefined ? [id] : [],
  );

/** The reply as the next request holds it, with the ids and results that our side gave. */
export const answered = (reply: ModelReply, output: NonNullable<ModelSubject["output"]>): PromptMessage[] => {
  const calls = reply.calls.map((call, index) => ({ ...call, callID: `call_own${index}` }));
  return [
    {
      role: "assistant",
      messageID: "msg_2",
      text: reply.text,
      calls: calls.map(({ callID, tool, input }) => ({ callID, tool, input })),
      ...(reply.provider === undefined ? {} : { provider: reply.provider }),
    },
    {
      role: "tool",
      results: calls.map((call) => ({
        callID: call.callID,
        tool: call.tool,
        outcome: "ok" as const,
        output: output(call),
        exitCode: null,
      })),
    },
  ];
};

export const modelSuite = (name: string, make: () => Promise<ModelSubject>): void => {
  describe(`${name}: every model`, () => {
    const using = async (act: (subject: ModelSubject) => Promise<void>) => {
      const subject = await make();
      try {
        await act(subject);
      } finally {
        await subject.close();
      }
    };

    test("calls tools, reads their results, ends with a text that came in pieces", () =>
      using(async ({ model, text, request, output = () => "contents" }) => {
        const messages = [user(text)];
        for (let turn = 0; turn < 10; turn += 1) {
          const pieces: string[] = [];
          const reply = await replyOf(
            model,
            requestOf(messages, { ...request, onText: (piece) => void pieces.push(piece) }),
          );
          expect(pieces.join("")).toBe(reply.text);
          for (const { input, invalid } of reply.calls) {
            expect(invalid).toBeUndefined();
            expect(input).toBeTypeOf("object");
          }
          expect(reply.usage.inputTokens).toBeGreaterThanOrEqual(0);
          expect(reply.usage.outputTokens).toBeGreaterThanOrEqual(0);
          if (reply.calls.length === 0) {
            expect(reply.finish).toBe("end");
            expect(reply.text).not.toBe("");
            expect(turn).toBeGreaterThan(0);
            return;
          }
          expect(reply.finish).toBe("calls");
          messages.push(...answered(reply, output));
        }
        expect.unreachable("the model never came to an end");
      }));

    test("a request that is already aborted rejects with the reason", () =>
      using(async ({ model, text, request }) => {
        const reason = new Error("cancelled by the user");
        const signal = AbortSignal.abort(reason);
        await expect(model.reply(requestOf([user(text)], { ...request, signal }))).rejects.toBe(reason);
      }));

    test("the request is not changed, and the same request can be asked again", () =>
      using(async ({ model, text, request }) => {
        const messages = [user(text)];
        const before = structuredClone(messages);
        const first = await replyOf(model, requestOf(messages, request));
        const second = await replyOf(model, requestOf(messages, request));
        expect(messages).toEqual(before);
        expect(second.calls).toEqual(first.calls);
        expect(model.ref).toMatch(/^[a-z0-9-]+\/.+/);
      }));
  });
};
