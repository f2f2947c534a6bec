import type { TaskSummary } from "../../src/protocol/task/status.ts";

/** The search parameters of the screens. */

export type HomeSearch = {
  view?: "board";
  q?: string;
  state?: TaskSummary["lifecycleStatus"];
  pillar?: TaskSummary["productPillar"];
  priority?: TaskSummary["priority"];
  squad?: string;
  archived?: boolean;
};

/** `result`: only for an ended Task, which opens on it. */
export const tabs = ["result", "conversation", "changes", "checks", "topology", "events"] as const;

export type Tab = (typeof tabs)[number];

export type TaskSearch = { tab?: Tab; session?: string };
