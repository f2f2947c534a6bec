import type { LLMock } from "@copilotkit/aimock";
import { acceptance, textOf } from "./mock-provider.ts";

/** Has the mock of several wire formats accept whatever a reviewer is given; to be said before other answers. */
export const acceptReviews = (mock: LLMock): void => {
  mock.on({ predicate: ({ tools = [] }) => tools.some((tool) => tool.function.name === "verdict") }, ({ messages }) => {
    const first = textOf(messages.find(({ role }) => role === "user")?.content);
    const calls = acceptance({ first }).calls ?? [];
    return { toolCalls: calls.map(({ tool, input }) => ({ name: tool, arguments: JSON.stringify(input) })) };
  });
};
