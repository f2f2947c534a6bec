import { type Model, noUsage } from "../model.ts";
import { planMission } from "./role/mission.ts";
import { plan } from "./role/worker.ts";
import { review } from "./role/reviewer.ts";
import { authorSquad } from "./role/squad-author.ts";
import type { World } from "./step.ts";

/**
 * The model `builtin/rules-1`, which is no language model. It carries out what a request spells out in the grammar of
 * `grammar/parse.ts`, with the tool calls that a language model would make, and refuses everything else. It streams
 * nothing: its report is complete at once. `codemods`: commands that the operator allowed, by name.
 */
export const createBuiltinModel = (codemods: World["codemods"] = {}): Model => ({
  ref: "builtin/rules-1",
  retries: false,
  window: Number.MAX_SAFE_INTEGER,
  takes: { images: false, pdf: false, tools: true },
  reply(request) {
    const { messages, facts, tools, signal } = request;
    return new Promise((resolve) => {
      signal.throwIfAborted();
      const names = tools.map(({ name }) => name);
      // A reviewer has no tool that changes files.
      if (names.includes("verdict") && !names.includes("write")) {
        const brief = messages.find(({ role }) => role === "user");
        const calls = [review(brief?.role === "user" ? brief.text : "")];
        resolve({ ok: true, text: "", calls, finish: "calls", usage: noUsage });
        return;
      }
      const next = names.includes("dispatch")
        ? planMission(messages)
        : names.includes("author_squad")
          ? authorSquad(messages)
          : plan(messages, facts, names, codemods);
      switch (next.kind) {
        case "calls":
          resolve({ ok: true, text: "", calls: next.calls, finish: "calls", usage: noUsage });
          break;
        case "done":
          request.onText(next.report);
          resolve({ ok: true, text: next.report, calls: [], finish: "end", usage: noUsage });
          break;
        case "failed": {
          const { code, message, remedy } = next;
          resolve({ ok: false, failure: { code, message, retryable: false, remedy }, usage: noUsage });
          break;
        }
      }
    });
  },
});
