import { useSyncExternalStore } from "react";

/** One line that confirms the last action, also announced to screen readers. */
let text = "";
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

const show = (next: string): void => {
  text = next;
  for (const listener of listeners) listener();
};

export const say = (words: string): void => {
  show(words);
  clearTimeout(timer);
  timer = setTimeout(() => show(""), 4000);
};

export const copy = async (value: string, what: string): Promise<void> => {
  try {
    await navigator.clipboard.writeText(value);
    say(`${what} copied`);
  } catch {
    say("The browser blocked copying");
  }
};

export const Toasts = () => {
  const words = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => text,
  );
  return (
    <div role="status" className="pointer-events-none fixed inset-x-0 bottom-24 z-50 flex justify-center px-4">
      {words !== "" && (
        <p className="animate-rise rounded-full bg-ink px-4 py-2 text-sm text-page shadow-float">{words}</p>
      )}
    </div>
  );
};
