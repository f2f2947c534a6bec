import type { Screen } from "./screen.ts";

/**
 * Handles Ctrl-C while a Task is followed. At a terminal, the first Ctrl-C asks whether to detach or cancel, and a
 * second one cancels; without a terminal the first one cancels, because nobody could answer. Another one while the Task
 * is being cancelled exits at once.
 */
export type Interrupts = Disposable & {
  /** Resolves once; never rejects. */
  wish: Promise<"detach" | "cancel">;
};

export const watchInterrupts = (screen: Screen): Interrupts => {
  const { stdin } = process;
  const { promise: wish, resolve } = Promise.withResolvers<"detach" | "cancel">();
  let state: "following" | "asking" | "ending" = "following";

  const listen = (on: boolean) => {
    stdin.setRawMode(on);
    if (on) stdin.on("data", onKey).resume();
    else stdin.off("data", onKey).pause();
  };
  const end = (answer: "detach" | "cancel") => {
    if (state === "asking") listen(false);
    state = "ending";
    resolve(answer);
  };
  const onKey = (chunk: Buffer) => {
    const key = chunk.toString("latin1");
    if (key === "d") return end("detach");
    // In raw mode Ctrl-C is a character, not a signal.
    if (key === "c" || key === "\u0003") return end("cancel");
    listen(false);
    state = "following";
    screen.say("Going on.");
  };
  const onSignal = () => {
    if (state === "ending") process.exit(130);
    if (state === "asking" || !stdin.isTTY || !screen.rich) return end("cancel");
    state = "asking";
    screen.say("Detach (d) or cancel (c)? Any other key continues.");
    listen(true);
  };
  process.on("SIGINT", onSignal);
  return {
    wish,
    [Symbol.dispose]() {
      process.off("SIGINT", onSignal);
      if (state === "asking") listen(false);
    },
  };
};
