import { useEffect, useRef } from "react";

/** The shortcut keys of a screen. While the user types or a dialog is open, only shortcuts with Ctrl or Cmd work. */
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

/** The shortcuts, in the order in which the help shows them. */
export const keyWords: readonly (readonly [string, string])[] = [
  ["?", "This help"],
  ["Ctrl K", "Open the command palette (Cmd K on a Mac)"],
  ["c", "New Task"],
  ["j  k", "Next or previous Task, turn or event"],
  ["Enter", "Open the selected row"],
  ["f", "Filter the list, or search the conversation"],
  ["1 to 5", "Task tabs: Conversation, Changes, Checks, Topology, Events"],
  ["r", "Result of an ended Task"],
  ["n  p", "Next or previous file in a diff"],
  ["v", "Mark the file as viewed"],
  ["m", "Write a message to the Task"],
  ["Esc", "Close, or go back to Tasks"],
  ["Ctrl Enter", "Send the message"],
];
