import { dataOf, type Service, type Target } from "../connection.ts";
import type { Screen } from "../terminal/screen.ts";
import { line } from "../terminal/format.ts";

/** Answers asks at the terminal while a Task is followed. A typed line answers the oldest open ask. */

export type Opened = {
  askID: string;
  kind: "permission" | "question" | "approval";
  prompt: string;
  options: readonly string[];
};

export type Prompter = Disposable & {
  opened(ask: Opened): void;
  closed(askID: string): void;
  /** Whether the user may be typing, so that the status line must not be redrawn. */
  busy(): boolean;
};

/** The decision or answer that the user typed; undefined when the text is neither. */
export const bodyOf = (ask: Pick<Opened, "kind" | "options">, typed: string) => {
  const text = typed.trim();
  if (ask.kind !== "question") {
    if (/^(?:a|allow|y|yes)$/i.test(text)) return { decision: "allow" as const, source: "cli" };
    if (/^(?:d|deny|n|no)$/i.test(text)) return { decision: "deny" as const, source: "cli" };
    // Any other words are a denial that tells the agent what to change.
    return ask.kind === "permission" || text === ""
      ? undefined
      : { decision: "deny" as const, answer: text, source: "cli" };
  }
  const option = /^\d$/.test(text) ? ask.options[Number(text) - 1] : undefined;
  return text === "" ? undefined : { answer: option ?? text, source: "cli" };
};

export const createPrompter = (service: Service, { url }: Target, taskID: string, screen: Screen): Prompter => {
  const { stdin } = process;
  const open: Opened[] = [];
  let typed = "";

  const show = () => {
    const [ask] = open;
    if (ask === undefined) return;
    const { bold } = screen.colors;
    if (ask.kind === "permission") screen.say(bold("allow or deny? "));
    else if (ask.kind === "approval") screen.say(bold("allow, deny, or say what to change: "));
    else {
      for (const [at, option] of ask.options.entries()) screen.say(`  ${at + 1}  ${line(option)}`);
      screen.say(bold(ask.options.length === 0 ? "Your answer: " : "A number, or your answer: "));
    }
  };
  const send = async (ask: Opened, text: string): Promise<void> => {
    const body = bodyOf(ask, text);
    if (body === undefined) return show();
    const path = { taskID, askID: ask.askID };
    const sent = await service.task.answer({ path, body });
    // Somebody else answered first; that answer's event closes the ask here as well.
    if (sent.response?.status !== 409) dataOf(sent, url);
  };
  const onData = (chunk: Buffer) => {
    // In raw mode the key answers the question that Ctrl-C asked.
    if (stdin.isRaw) return;
    const lines = `${typed}${chunk.toString("utf8")}`.split("\n");
    typed = lines.pop() ?? "";
    const [ask] = open;
    if (ask === undefined || lines[0] === undefined) return;
    send(ask, lines[0]).catch((error: unknown) =>
      screen.say(error instanceof Error ? error.message : "The answer could not be sent."),
    );
  };
  const listen = (on: boolean) => {
    if (on) stdin.on("data", onData).resume();
    else stdin.off("data", onData).pause();
  };
  return {
    opened(ask) {
      open.push(ask);
      if (open.length > 1) return;
      listen(true);
      show();
    },
    closed(askID) {
      const at = open.findIndex((ask) => ask.askID === askID);
      if (at < 0) return;
      open.splice(at, 1);
      typed = "";
      if (open.length === 0) listen(false);
      else if (at === 0) show();
    },
    busy: () => open.length > 0,
    [Symbol.dispose]() {
      if (open.length > 0) listen(false);
    },
  };
};
