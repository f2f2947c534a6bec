import { newID } from "../../src/id.ts";
import type { Webhook } from "../../src/store/webhook-queue.ts";

/** A webhook as a caller registers it. */
export const hook = (over: Partial<Webhook> = {}): Omit<Webhook, "since" | "failingSince"> => ({
  id: newID("hook"),
  url: "https://example.org/hook",
  events: ["task.completed"],
  project: null,
  directory: null,
  description: "",
  state: "enabled",
  reason: null,
  secrets: [{ secret: "whsec_1", until: null }],
  created: 1,
  updated: 1,
  ...over,
});
