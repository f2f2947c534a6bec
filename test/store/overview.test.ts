import { expect } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import { newID } from "../../src/id.ts";
import type { TaskSummary } from "../../src/protocol/task/status.ts";
import { created, settled } from "../harness/events.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** The numbers over all projects are those that a count over the lists finds. */

const run: DomainEvent = {
  type: "run.started",
  data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
const ask: DomainEvent[] = [
  { type: "tool.started", data: { callID: "call_1", sessionID: "ses_1", tool: "ask", input: {}, effect: "none" } },
  {
    type: "ask.opened",
    data: {
      askID: "ask_1",
      sessionID: "ses_1",
      callID: "call_1",
      kind: "question",
      prompt: "Which one?",
      options: [],
      default: null,
      expiresAt: "2099-01-01T00:00:00.000Z",
    },
  },
];
const failed = settled({
  lifecycleStatus: "failed",
  error: "no",
  errorInfo: { code: "x", retryable: false, remedy: null, at: "2026-11-21T08:00:00.000Z" },
});

const groupOf = ({ lifecycleStatus, pendingCount, phase }: TaskSummary) => {
  if (lifecycleStatus === "failed") return "failed";
  if (lifecycleStatus !== "active") return "ended";
  return pendingCount > 0 ? "needsYou" : phase === "queued" ? "queued" : "running";
};

const cases: Case[] = [
  {
    name: "three projects, 1,000 Tasks, and the oldest one asks",
    async run({ store }) {
      const projects = ["/work/a", "/work/b", "/work/c"];
      const since = new Date(0);
      const about = (index: number): DomainEvent[] => {
        if (index === 0) return [run, ...ask];
        return [[], [run], [run, settled()], [run, failed], [run, failed], [run, settled()], []][index % 7] ?? [];
      };
      const tasks = Array.from({ length: 1000 }, (_, index) => {
        const first = created({ directory: projects[index % 3] ?? "" });
        return { stream: first.data.taskID, expected: 0, events: [first, ...about(index)] };
      });
      await store.commit({ appends: tasks.slice(0, 1) });
      for (let at = 1; at < tasks.length; at += 111) await store.commit({ appends: tasks.slice(at, at + 111) });
      const archived: DomainEvent = { type: "task.updated", data: { archived: true } };
      const hidden = tasks[3];
      if (hidden !== undefined)
        await store.commit({ appends: [{ stream: hidden.stream, expected: "any", events: [archived] }] });

      const counted = await Promise.all(
        projects.map(async (project) => {
          const counts = { needsYou: 0, running: 0, queued: 0, failed: 0, ended: 0 };
          for (const task of await store.list({ project, limit: 1000 })) counts[groupOf(task)] += 1;
          const { ended, ...rest } = counts;
          expect(ended).toBeGreaterThan(0);
          return { directory: project, repository: null, ...rest };
        }),
      );
      const found = await store.overview({ since, project: undefined });
      expect(found.projects).toEqual(counted);
      const sum = (field: "needsYou" | "running" | "queued" | "failed") =>
        counted.reduce((total, counts) => total + counts[field], 0);
      expect(found.total).toEqual({
        needsYou: 1,
        running: sum("running"),
        queued: sum("queued"),
        failed: sum("failed"),
      });
      const question = { id: "ask_1", kind: "question", prompt: "Which one?", missionID: null, directory: "/work/a" };
      expect(found.pending).toMatchObject([{ ...question, taskID: tasks[0]?.stream }]);

      const one = await store.overview({ since, project: "/work/b" });
      expect(one.projects).toEqual(counted.filter(({ directory }) => directory === "/work/b"));
      expect(one.pending).toEqual([]);
      // A Mission asks, too; one that does not counts as nothing.
      for (const [missionID, more] of [
        ["asks", [run, ...ask]],
        ["sleeps", []],
      ] as const) {
        const sessionID = newID("ses");
        const about = { title: missionID, titleBy: "service", directory: "/work/d", project: "/work/d" } as const;
        const events: DomainEvent[] = [
          {
            type: "mission.created",
            data: { missionID, sessionID, ...about, productPillar: "code", model: "builtin/rules-1" },
          },
          { type: "mission.woken", data: { sessionID, by: "user" } },
          ...more,
        ];
        await store.commit({ appends: [{ stream: sessionID, expected: 0, events }] });
      }
      const both = await store.overview({ since, project: undefined });
      expect(both.total.needsYou).toBe(2);
      expect(both.projects.at(-1)).toMatchObject({ directory: "/work/d", needsYou: 1, running: 0 });
      expect(both.pending.at(-1)).toMatchObject({ id: "ask_1", taskID: null, missionID: "asks" });

      // Nothing has failed since now.
      const later = await store.overview({ since: new Date(Date.now() + 60_000), project: undefined });
      expect(later.total).toEqual({ ...both.total, failed: 0 });
    },
  },
];

onEveryStore(cases);
