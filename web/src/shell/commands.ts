import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { Ban, Check, Download, type LucideIcon, Milestone, Monitor, Moon, Plus, Sun, X } from "lucide-react";
import type { MissionSummary } from "../../../src/protocol/mission/status.ts";
import type { Overview } from "../../../src/protocol/overview.ts";
import type { TaskBoard } from "../../../src/protocol/task/board.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { ask, client, overview, projects, wordsOf } from "../api.ts";
import { say } from "../component/layout/toast.tsx";
import { stateWord } from "../format.ts";
import { nameOf } from "../place.ts";
import { type Theme, useTheme } from "../settings.ts";
import { screens } from "./screens.ts";

/** The commands of the palette: screens to go to, and actions. */

export type Command = { id: string; words: string; hint: string; icon: LucideIcon | TaskSummary; run: () => void };
type Pages<T> = { pages: T[][] };
type Pending = Overview["pending"][number];

const themes: readonly (readonly [Theme, string, LucideIcon])[] = [
  ["light", "Light theme", Sun],
  ["dark", "Dark theme", Moon],
  ["system", "System theme", Monitor],
];

/** How many projects are searched, and how many Tasks of each are found. */
const mostProjects = 12;
const perProject = 6;
/** How many asks can be answered from the palette, oldest first. */
const mostAsks = 4;
const leastLetters = 2;

/** The Tasks of all known projects that contain these words. */
const useFound = (text: string): TaskSummary[] => {
  const wanted = text.trim();
  const { data: known } = useQuery(projects);
  const { data } = useQuery({
    queryKey: ["palette", wanted, known?.map(({ directory }) => directory)],
    queryFn: async ({ signal }): Promise<TaskSummary[]> => {
      const lists = await Promise.all(
        (known ?? [])
          .filter(({ tasks }) => tasks > 0)
          .slice(0, mostProjects)
          .map(({ directory }) =>
            ask(client.task.list({ query: { directory, search: wanted, limit: perProject }, signal })).catch(() => []),
          ),
      );
      return lists.flat();
    },
    enabled: wanted.length >= leastLetters && known !== undefined,
    placeholderData: (before) => before,
    staleTime: 5000,
  });
  return data ?? [];
};

/** The commands that answer an ask with the answers that it proposes. */
const answers = ({ id, kind, prompt, options, taskID, missionID, directory, title }: Pending): Command[] => {
  const send = async (answer: { decision: "allow" | "deny" } | { answer: string }): Promise<void> => {
    const body = { ...answer, source: "web" };
    if (taskID !== null) await ask(client.task.answer({ path: { taskID, askID: id }, query: { directory }, body }));
    else if (missionID !== null)
      await ask(client.mission.answer({ path: { missionID, askID: id }, query: { directory }, body }));
  };
  // An approval must be read on its page before it is answered.
  if (kind === "approval") return [];
  const given = kind === "permission" ? (["allow", "deny"] as const) : options.slice(0, 4);
  return given.map((option) => ({
    id: `${id} ${option}`,
    words:
      kind === "permission" ? `${option === "allow" ? "Allow" : "Deny"}: ${prompt}` : `Answer “${option}”: ${prompt}`,
    hint: title,
    icon: option === "deny" ? X : Check,
    run: () =>
      void send(kind === "permission" ? { decision: option === "allow" ? "allow" : "deny" } : { answer: option }).then(
        () => say("Answered"),
        (error: unknown) => say(wordsOf(error)),
      ),
  }));
};

/** The commands for the Task that is open. */
const useHere = (): Command[] => {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const taskID = /^\/ui\/task\/([^/]+)/.exec(path)?.[1];
  const task = taskID === undefined ? undefined : queries.getQueryData<TaskBoard>(["board", taskID])?.task;
  if (task === undefined) return [];
  const { availableActions: may, directory } = task;
  return [
    ...(may.includes("cancel")
      ? [
          {
            id: "cancel",
            words: "Cancel this Task",
            hint: "This Task",
            icon: Ban,
            run: () =>
              void navigate({
                to: "/ui/task/$taskID",
                params: { taskID: task.taskID },
                search: (now) => now,
                hash: "cancel",
              }),
          },
        ]
      : []),
    ...(may.includes("archive")
      ? [
          {
            id: "download",
            words: "Download the archive",
            hint: "This Task",
            icon: Download,
            run: () =>
              window.location.assign(`/task/${task.taskID}/project-archive?directory=${encodeURIComponent(directory)}`),
          },
        ]
      : []),
  ];
};

export const useCommands = (text: string): Command[] => {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [theme, setTheme] = useTheme();
  const here = useHere();
  const found = useFound(text);
  const { data: all } = useQuery(overview);
  const tasks = new Map<string, TaskSummary>();
  for (const [, data] of queries.getQueriesData<Pages<TaskSummary>>({ queryKey: ["tasks"] }))
    for (const task of data?.pages.flat() ?? []) tasks.set(task.taskID, task);
  for (const task of found) tasks.set(task.taskID, task);
  const missions = new Map<string, MissionSummary>();
  for (const [, data] of queries.getQueriesData<Pages<MissionSummary>>({ queryKey: ["missions"] }))
    for (const mission of data?.pages.flat() ?? []) missions.set(mission.sessionID, mission);
  return [
    ...here,
    ...(all?.pending ?? []).slice(0, mostAsks).flatMap(answers),
    { id: "new", words: "New Task", hint: "c", icon: Plus, run: () => void navigate({ to: "/", hash: "new" }) },
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
    ...themes
      .filter(([value]) => value !== theme)
      .map(([value, words, icon]) => ({
        id: `theme-${value}`,
        words,
        hint: "Theme",
        icon,
        run: () => setTheme(value),
      })),
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
