import type { Conversation } from "../../domain/conversation/message.ts";
import { isRed } from "../../domain/evidence/check.ts";
import { hasSnapshot } from "../../domain/state/task.ts";
import type { Facts } from "../../model/model.ts";
import { shell } from "../../tool/command/shell.ts";
import { providedNote } from "../../workspace/dependency/find.ts";
import type { Run } from "../run.ts";

/**
 * Facts that the agent of a session is told once, along with the result of a call: facts that are found out only while
 * it works, or that matter from its first command on. Facts that its conversation already contains are not repeated,
 * not even by a later run.
 */
export const createLateFacts = (run: Run, { blocked = {}, red = {} }: Facts) => {
  const told = new WeakMap<Conversation, Set<string>>();
  const isTold = (chat: Conversation, words: string): boolean => {
    const known = told.get(chat) ?? new Set();
    told.set(chat, known);
    if (known.has(words)) return true;
    known.add(words);
    return chat.said.some(
      (message) =>
        message.role === "tool" &&
        message.results.some(({ output }) => (typeof output === "string" ? output : output.head).includes(words)),
    );
  };
  return (chat: Conversation, tool: string): string | undefined => {
    const { workspace, dependencies } = run.state();
    const facts = [
      ...(workspace !== null && hasSnapshot(run.state())
        ? ["The files hold what the user had not committed, too. That is no part of your change."]
        : []),
      ...(tool === shell.name && dependencies !== null && dependencies.length > 0 ? [providedNote(dependencies)] : []),
      ...run.baseline.news(({ kind }, result) => Object.hasOwn(isRed(result) ? red : blocked, kind)),
    ];
    const news = facts.filter((words) => !isTold(chat, words));
    return news.length === 0 ? undefined : news.join(" ");
  };
};
