import type { TaskSummary, Usage } from "../../src/protocol/task/status.ts";

/** How states, times and amounts are shown. */

/** `doubt`: completed, but not verified: no check passed on everything that landed. */
export type State = "need" | "run" | "queue" | "done" | "doubt" | "fail" | "stop";

type Stated = Pick<TaskSummary, "lifecycleStatus" | "phase" | "pending" | "verified">;

export const stateOf = ({ lifecycleStatus, phase, pending, verified }: Stated): State => {
  switch (lifecycleStatus) {
    case "completed":
      return verified === false ? "doubt" : "done";
    case "failed":
      return "fail";
    case "cancelled":
      return "stop";
    case "active":
      if (pending.length > 0) return "need";
      return phase === "queued" ? "queue" : "run";
  }
};

const phases: Record<TaskSummary["phase"], string> = {
  queued: "Queued",
  preparing: "Preparing",
  planning: "Planning",
  working: "Working",
  checking: "Checking",
  reviewing: "Reviewing",
  waiting: "Waiting",
  landing: "Landing",
  settled: "Settled",
};

export const stateWord = (task: Stated): string => {
  switch (stateOf(task)) {
    case "need":
      return "Needs you";
    case "run":
    case "queue":
      return phases[task.phase];
    case "done":
      return "Completed";
    case "doubt":
      return "Completed, not verified";
    case "fail":
      return "Failed";
    case "stop":
      return "Cancelled";
  }
};

export const groups = ["need", "run", "queue", "done", "fail"] as const;
export type Group = (typeof groups)[number];
export const groupWords: Record<Group, string> = {
  need: "Needs you",
  run: "Running",
  queue: "Queued",
  done: "Done",
  fail: "Failed",
};
/** The group of a Task. Cancelled Tasks are grouped with failed ones. */
export const groupOf = (task: Stated): Group => {
  const state = stateOf(task);
  if (state === "doubt") return "done";
  return state === "stop" ? "fail" : state;
};

export const duration = (ms: number): string => {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
};

/** A duration for a ticking clock: whole seconds, so that it does not flicker. */
export const ticking = (ms: number): string => (ms < 60_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms));

export const ago = (ms: number): string => {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  const days = Math.floor(hours / 24);
  return days < 60 ? `${days} d ago` : `${Math.floor(days / 30)} months ago`;
};

export const clock = (at: string | number | Date): string =>
  new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export const moment = (at: string | number): string =>
  new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });

/** null: the price is unknown, which is not the same as zero. */
export const cost = ({ costUSD, modelCalls }: Pick<Usage, "costUSD" | "modelCalls">): string => {
  if (costUSD === null) return "unknown";
  if (costUSD === 0) return modelCalls === 0 ? "no cost yet" : "$0";
  if (costUSD < 0.01) return "< $0.01";
  return `$${costUSD.toFixed(2)}`;
};

/** For places where nothing else says that this is a cost. */
export const costWords = (usage: Pick<Usage, "costUSD" | "modelCalls">): string =>
  usage.costUSD === null ? "cost unknown" : cost(usage);

export const count = (value: number, word: string): string =>
  `${value.toLocaleString("en")} ${word}${value === 1 ? "" : "s"}`;

export const bytes = (value: number): string => {
  if (value < 1024) return `${value} B`;
  if (value < 1024 ** 2) return `${(value / 1024).toFixed(value < 10_240 ? 1 : 0)} KB`;
  return `${(value / 1024 ** 2).toFixed(1)} MB`;
};

export const tokens = (value: number): string => {
  if (value < 1000) return String(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(2)}M`;
};

export const short = (commit: string | null): string => (commit ?? "").slice(0, 10);
