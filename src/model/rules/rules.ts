import { type Model, noUsage } from "../model.ts";
import { plan } from "./plan.ts";

/**
 * `builtin/rules-1`: no language model. It carries out what a request spells out in the grammar of grammar.ts, by the
 * same tool calls a language model would make, and refuses the rest. It streams nothing, since it does not think.
 */
export const createRulesModel = (): Model => ({
  ref: "builtin/rules-1",
  retries: false,
  reply({ messages, facts, tools, signal }) {
    return new Promise((resolve) => {
      signal.throwIfAborted();
      const next = plan(
        messages,
        facts,
        tools.map(({ name }) => name),
      );
      switch (next.kind) {
        case "calls":
          resolve({ ok: true, text: "", calls: next.calls, finish: "calls", usage: noUsage });
          break;
        case "done":
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
