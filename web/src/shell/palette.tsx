import { CornerDownLeft, Search } from "lucide-react";
import { type KeyboardEvent, useState } from "react";
import { Dialog } from "../component/layout/dialog.tsx";
import { StateIcon } from "../component/text/state.tsx";
import { stateOf } from "../format.ts";
import { type Command, useCommands } from "./commands.ts";

/** The palette: finds every screen and action of the page by its first letters. */

const shown = 12;

/** Ranks a match: every word must occur; a match at the beginning ranks first. */
const rank = (text: string, words: readonly string[]): number => {
  const lower = text.toLowerCase();
  if (!words.every((word) => lower.includes(word))) return -1;
  return words.length > 0 && lower.startsWith(words[0] ?? "") ? 2 : 1;
};

const Commands = ({ onClose }: { onClose: () => void }) => {
  const [text, setText] = useState("");
  const commands = useCommands(text);
  const [marked, setMarked] = useState(0);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = commands
    .map((command) => ({ command, rank: rank(`${command.words} ${command.id}`, words) }))
    .filter(({ rank }) => rank >= 0)
    .toSorted((a, b) => b.rank - a.rank)
    .slice(0, shown)
    .map(({ command }) => command);
  const at = Math.min(marked, Math.max(0, found.length - 1));
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setMarked((at + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setMarked((at - 1 + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <div onKeyDown={onKeyDown}>
      <div className="flex items-center gap-3 border-b border-line px-4">
        <Search size={18} aria-hidden="true" className="shrink-0 text-faint" />
        <input
          // The dialog was opened to type here.
          // oxlint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[at] === undefined ? undefined : `palette-${found[at].id}`}
          aria-label="Go to a screen or Task, or run a command"
          placeholder="Go to a screen or Task, or run a command"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setMarked(0);
          }}
          className="h-13 min-w-0 flex-1 bg-transparent text-md outline-none"
        />
        <kbd className="key">Esc</kbd>
      </div>
      <ul id="palette-list" role="listbox" aria-label="Results" className="max-h-[50vh] overflow-auto p-2">
        {found.map((command, index) => {
          const { icon: Icon } = command;
          return (
            <li
              key={command.id}
              id={`palette-${command.id}`}
              role="option"
              aria-selected={index === at}
              onMouseMove={() => setMarked(index)}
              onClick={() => run(command)}
              className={`flex cursor-pointer items-center gap-3 rounded-lg px-3 py-2 ${index === at ? "bg-accent-tint" : ""}`}
            >
              {"taskID" in Icon ? (
                <StateIcon state={stateOf(Icon)} />
              ) : (
                <Icon size={16} aria-hidden="true" className="shrink-0 text-soft" />
              )}
              <span className="min-w-0 flex-1 truncate" dir="auto">
                {command.words}
              </span>
              <span className="max-w-[40%] truncate text-xs text-soft">{command.hint}</span>
              <CornerDownLeft
                size={14}
                aria-hidden="true"
                className={`shrink-0 text-soft ${index === at ? "" : "invisible"}`}
              />
            </li>
          );
        })}
        {found.length === 0 && <li className="px-3 py-6 text-center text-soft">No results</li>}
      </ul>
    </div>
  );
};

export const Palette = ({ open, onClose }: { open: boolean; onClose: () => void }) => (
  <Dialog open={open} onClose={onClose} title="Go to" bare wide>
    <Commands onClose={onClose} />
  </Dialog>
);
