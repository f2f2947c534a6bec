import { useSyncExternalStore } from "react";

/** What this browser remembers: the theme, and recently used projects. The page works without it. */

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

const recentCount = 8;

export const recentProjects = (): string[] => {
  try {
    const kept: unknown = JSON.parse(get("projects") ?? "[]");
    return Array.isArray(kept) ? kept.filter((path) => typeof path === "string").slice(0, recentCount) : [];
  } catch {
    return [];
  }
};

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

/** How diffs are laid out, once somebody chose it. */
export const readDiffView = (): "unified" | "split" | undefined => {
  const kept = get("diff");
  return kept === "unified" || kept === "split" ? kept : undefined;
};
export const keepDiffView = (view: "unified" | "split"): void => set("diff", view);

/** Whether notifications were offered and not wanted. */
export const hasDeclinedNotices = (): boolean => get("notices") === "no";
export const declineNotices = (): void => set("notices", "no");
