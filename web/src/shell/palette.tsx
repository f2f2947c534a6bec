import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CornerDownLeft, type LucideIcon, Milestone, Moon, Plus, Search, Sun } from "lucide-react";
import { type KeyboardEvent, useState } from "react";
import type { MissionSummary } from "../../../src/protocol/mission/status.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { Dialog } from "../component/layout/dialog.tsx";
import { StateIcon } from "../component/text/state.tsx";
import { useTheme } from "../settings.ts";
import { stateOf, stateWord } from "../format.ts";
import { nameOf } from "../place.ts";
import { screens } from "./screens.ts";

type Command = { id: string; words: string; hint: string; icon: LucideIcon | TaskSummary; run: () => void };
type Pages<T> = { pages: T[][] };

const shown = 12;

/** Ranks a match: every word must occur; a match at the beginning ranks first. */
const rank = (text: string, words: readonly string[]): number => {
  const lower = text.toLowerCase();
  if (!words.every((word) => lower.includes(word))) return -1;
  return words.length > 0 && lower.startsWith(words[0] ?? "") ? 2 : 1;
};

const useCommands = (): Command[] => {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [theme, setTheme] = useTheme();
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  const tasks = new Map<string, TaskSummary>();
  for (const [, data] of queries.getQueriesData<Pages<TaskSummary>>({ queryKey: ["tasks"] }))
    for (const task of data?.pages.flat() ?? []) tasks.set(task.taskID, task);
  const missions = new Map<string, MissionSummary>();
  for (const [, data] of queries.getQueriesData<Pages<MissionSummary>>({ queryKey: ["missions"] }))
    for (const mission of data?.pages.flat() ?? []) missions.set(mission.sessionID, mission);
  return [
    {
      id: "new",
      words: "New Task",
      hint: "c",
      icon: Plus,
      run: () => void navigate({ to: "/", hash: "new" }),
    },
    ...screens.map(({ words, icon, to }) => ({
      id: to,
      words,
      hint: "Screen",
      icon,
      run: () => {
        if (to === "/doc") window.location.assign("/doc");
        else void navigate({ to });
      },
    })),
    {
      id: "theme",
      words: dark ? "Light theme" : "Dark theme",
      hint: "Look",
      icon: dark ? Sun : Moon,
      run: () => setTheme(dark ? "light" : "dark"),
    },
    ...[...missions.values()].map((mission) => ({
      id: mission.sessionID,
      words: mission.title,
      hint: `Mission · ${nameOf(mission.directory)}`,
      icon: Milestone,
      run: () =>
        void navigate({
          to: "/ui/mission/$missionID",
          params: { missionID: mission.missionID },
          search: { project: mission.directory },
        }),
    })),
    ...[...tasks.values()].map((task) => ({
      id: task.taskID,
      words: task.title,
      hint: `${stateWord(task)} · ${nameOf(task.directory)}`,
      icon: task,
      run: () => void navigate({ to: "/ui/task/$taskID", params: { taskID: task.taskID } }),
    })),
  ];
};

const Commands = ({ onClose }: { onClose: () => void }) => {
  const commands = useCommands();
  const [text, setText] = useState("");
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
          // The dialog was opened to write here.
          // oxlint-disable-next-line jsx-a11y/no-autofocus
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[at] === undefined ? undefined : `palette-${found[at].id}`}
          aria-label="Go to a screen or Task"
          placeholder="Go to a screen or Task"
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
