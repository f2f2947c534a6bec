import { useSyncExternalStore } from "react";

/** What this browser remembers, such as the theme and recently used projects. The page works without it. */

export type Theme = "system" | "light" | "dark";

const listeners = new Set<() => void>();
const listen = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

const get = (key: string): string | null => {
  try {
    return localStorage.getItem(`sortie.${key}`);
  } catch {
    return null;
  }
};

const set = (key: string, value: string): void => {
  try {
    localStorage.setItem(`sortie.${key}`, value);
  } catch {}
  for (const listener of listeners) listener();
};

const themeNow = (): Theme => {
  const kept = get("theme");
  return kept === "light" || kept === "dark" ? kept : "system";
};

export const applyTheme = (): void => {
  const theme = themeNow();
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
};

export const useTheme = (): [Theme, (theme: Theme) => void] => [
  useSyncExternalStore(listen, themeNow),
  (theme) => {
    set("theme", theme);
    applyTheme();
  },
];

/** The list that is stored under this key; empty if anything else is stored. */
const getList = (key: string): unknown[] => {
  try {
    const kept: unknown = JSON.parse(get(key) ?? "[]");
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
};
const strings = (list: unknown): string[] =>
  Array.isArray(list) ? list.filter((each) => typeof each === "string") : [];

const recentCount = 8;

export const recentProjects = (): string[] => strings(getList("projects")).slice(0, recentCount);

export const rememberProject = (directory: string): void => {
  if (recentProjects()[0] === directory) return;
  set(
    "projects",
    JSON.stringify([directory, ...recentProjects().filter((path) => path !== directory)].slice(0, recentCount)),
  );
};

/** The draft of a request. */
export const readDraft = (): string => get("draft") ?? "";
export const keepDraft = (text: string): void => set("draft", text);

/** The layout that the user chose for diffs; undefined: none yet. */
export const readDiffView = (): "unified" | "split" | undefined => {
  const kept = get("diff");
  return kept === "unified" || kept === "split" ? kept : undefined;
};
export const keepDiffView = (view: "unified" | "split"): void => set("diff", view);

/** Whether the user declined notifications when they were offered. */
export const hasDeclinedNotices = (): boolean => get("notices") === "no";
export const declineNotices = (): void => set("notices", "no");

/** For how many Tasks the files that the user has viewed are remembered. */
const viewedTasks = 30;
const viewedBut = (taskID: string): unknown[] =>
  getList("viewed").filter((each) => !(Array.isArray(each) && each[0] === taskID));

/** The marks of the viewed files. They are stored as a list that begins with the Task's id. */
export const readViewed = (taskID: string): string[] =>
  strings(getList("viewed").find((each) => Array.isArray(each) && each[0] === taskID)).slice(1);
export const keepViewed = (taskID: string, marks: readonly string[]): void =>
  set("viewed", JSON.stringify([[taskID, ...marks], ...viewedBut(taskID)].slice(0, viewedTasks)));
