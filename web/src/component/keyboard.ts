import { useEffect, useRef } from "react";

/** Shortcut keys of a screen. While the user types or a dialog is open, only those with Ctrl or Cmd work. */
export type Keys = Record<string, ((event: KeyboardEvent) => void) | undefined>;

const writes = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

export const useKeys = (keys: Keys): void => {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const held = event.metaKey || event.ctrlKey;
      const name = held ? `mod+${event.key.toLowerCase()}` : event.key;
      const act = latest.current[name];
      if (act === undefined || event.defaultPrevented || event.altKey) return;
      if (!held) {
        if (document.querySelector("dialog[open]") !== null) return;
        if (writes(event.target) && event.key !== "Escape") return;
      }
      act(event);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
};

/** The shortcuts in the order of the help. */
export const keyWords: readonly (readonly [string, string])[] = [
  ["?", "This help"],
  ["Ctrl K", "Go anywhere, do anything (Cmd K on a Mac)"],
  ["c", "New Task"],
  ["j  k", "Next and previous Task, turn or event"],
  ["Enter", "Open what is marked"],
  ["f", "Filter, or search in a conversation"],
  ["1 to 5", "Tabs of a Task: Conversation, Changes, Checks, Topology, Events"],
  ["r", "Result of a Task that has ended"],
  ["n  p", "Next and previous file of a change"],
  ["v", "Mark the file as viewed"],
  ["m", "Write a message to the Task"],
  ["Esc", "Close, or back to the Tasks"],
  ["Ctrl Enter", "Send what is written"],
];
