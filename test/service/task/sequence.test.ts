import { mkdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { messagesFrom } from "../../../src/domain/view/message.ts";
import type { Recorded } from "../../../src/domain/event.ts";
import { summarise } from "../../../src/domain/view/summary.ts";
import { evolve } from "../../../src/domain/task/evolve.ts";
import type { TaskState } from "../../../src/domain/state/task.ts";
import { type Model, type ModelFailure, type ModelReply, noUsage } from "../../../src/model/model.ts";
import { temporary, until } from "../../harness/project.ts";
import { openTaskService } from "../../harness/task-service.ts";

/**
 * Random sequences of create, message, cancel, replies, crash and resume against a small model of a Task. The real
 * Tasks, run, engine, store and workspaces; only the language model is replaced, by one that waits to be told.
 */

type Held = { taskID: string; answer(reply: ModelReply | ModelFailure): void };

const end: ModelReply = { ok: true, text: "Done.", calls: [], finish: "end", usage: noUsage };
const call: ModelReply = {
  ok: true,
  text: "",
  calls: [{ tool: "write", input: { path: "notes.txt", content: "x" } }],
  finish: "calls",
  usage: noUsage,
};
const refusal: ModelFailure = {
  ok: false,
  failure: { code: "provider_refused", message: "no", retryable: false, remedy: null },
  usage: noUsage,
};

/** A service without HTTP whose model waits to be told. */
const open = async (folder: string) => {
  const held: Held[] = [];
  const model: Model = {
    ref: "test/held",
    retries: true,
    window: 100_000,
    takes: { images: false, pdf: false, tools: true },
    reply: ({ messages, signal }) =>
      new Promise((resolve, reject) => {
        const first = messages[0];
        const taskID = first?.role === "user" ? first.messageID.replace(/^msg_/, "task_") : "";
        const entry: Held = {
          taskID,
          answer(reply) {
            held.splice(held.indexOf(entry), 1);
            resolve(reply);
          },
        };
        held.push(entry);
        signal.addEventListener("abort", () => {
          if (held.includes(entry)) held.splice(held.indexOf(entry), 1);
          reject(signal.reason);
        });
      }),
  };
  return { ...(await openTaskService({ folder, model })), held };
};

type Expected = {
  taskID: string;
  directory: string;
  lifecycle: TaskState["lifecycle"];
  attempt: number;
  /** Messages the open request has not read. */
  unread: boolean;
  queued: boolean;
  messages: number;
};

type Command =
  | { do: "create" }
  | { do: "message"; of: number; onBusy: "auto" | "queue" | "interrupt" | "reject" }
  | { do: "cancel"; of: number }
  | { do: "reply"; of: number; with: "end" | "call" | "refusal" }
  | { do: "crash" };

const of = fc.nat(3);
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant("create" as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("message" as const),
      of,
      onBusy: fc.constantFrom("auto" as const, "queue" as const, "interrupt" as const, "reject" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cancel" as const), of }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("reply" as const),
      of,
      with: fc.constantFrom("end" as const, "call" as const, "refusal" as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("crash" as const) }) },
);

/** `lose`: a service that acknowledges messages without keeping them, for the control. */
const runSequence = async (commands: readonly Command[], lose = false): Promise<void> => {
  using folder = temporary();
  using projects = temporary();
  let world = await open(folder.path);
  const expected: Expected[] = [];

  /** Every active Task waits for its model; nothing else moves. */
  const quiet = () =>
    until(
      async () => {
        const waiting = world.held.map(({ taskID }) => taskID).sort();
        return {
          waiting,
          active: expected
            .filter(({ lifecycle }) => lifecycle === "active")
            .map((task) => task.taskID)
            .sort(),
        };
      },
      ({ waiting, active }) => JSON.stringify(waiting) === JSON.stringify(active),
      10_000,
    );

  const restarted = (task: Expected) => {
    task.lifecycle = "active";
    task.attempt += 1;
    task.unread = false;
    task.queued = false;
  };

  const apply = async (step: Command): Promise<void> => {
    if (step.do === "create") {
      const directory = join(projects.path, `project-${expected.length}`);
      mkdirSync(directory);
      const { body } = await world.tasks.create(directory, { request: "do it", productPillar: "code" });
      expected.push({
        taskID: body.taskID,
        directory,
        lifecycle: "active",
        attempt: 1,
        unread: false,
        queued: false,
        messages: 1,
      });
      return;
    }
    if (step.do === "crash") {
      await world.crash();
      world = await open(folder.path);
      // The new request reads everything but what waits for the agent to finish.
      for (const task of expected) task.unread = false;
      return;
    }
    const task = expected[step.of % Math.max(1, expected.length)];
    if (task === undefined) return;
    switch (step.do) {
      case "message": {
        const sent = world.tasks.message(task.directory, task.taskID, {
          source: "test",
          text: "more",
          onBusy: step.onBusy,
        });
        if (task.lifecycle === "active" && step.onBusy === "reject") {
          await expect(sent).rejects.toMatchObject({ code: "task_busy" });
          return;
        }
        const { body } = await sent;
        if (lose) await world.store.erase(task.taskID);
        task.messages += 1;
        if (task.lifecycle !== "active") {
          expect(body.disposition).toBe("restarted");
          restarted(task);
        } else if (step.onBusy === "queue") {
          expect(body.disposition).toBe("queued");
          task.queued = true;
        } else if (step.onBusy === "interrupt") {
          expect(body.disposition).toBe("interrupted");
          task.unread = false;
        } else {
          expect(body.disposition).toBe("steered");
          task.unread = true;
        }
        return;
      }
      case "cancel": {
        const sent = world.tasks.cancel(task.directory, task.taskID, {});
        if (task.lifecycle === "completed" || task.lifecycle === "failed") {
          await expect(sent).rejects.toMatchObject({ code: "task_settled" });
          return;
        }
        await sent;
        task.lifecycle = "cancelled";
        return;
      }
      case "reply": {
        const open = world.held.find(({ taskID }) => taskID === task.taskID);
        if (open === undefined) return;
        open.answer({ end, call, refusal }[step.with]);
        task.messages += 1;
        const goesOn = step.with === "call" || task.unread || task.queued;
        if (!goesOn) task.lifecycle = step.with === "end" ? "completed" : "failed";
        task.unread = false;
        if (step.with !== "call") task.queued = false;
        return;
      }
    }
  };

  const compare = async (): Promise<void> => {
    for (const task of expected) {
      const state = await until(
        () => world.tasks.status(task.taskID),
        (status) => status.lifecycleStatus === task.lifecycle,
        10_000,
      );
      expect(state).toMatchObject({
        lifecycleStatus: task.lifecycle,
        status: task.lifecycle === "active" ? "running" : "inactive",
        attempt: task.attempt,
      });
      const events: Recorded[] = await world.store.read(task.taskID);
      let folded: TaskState | undefined;
      for (const event of events) folded = evolve(folded, event);
      const rows = await world.store.list({ project: task.directory, limit: 10 });
      expect(rows).toEqual([folded === undefined ? undefined : summarise(folded)]);
      expect(await world.store.state(task.taskID)).toEqual(folded);
      expect(messagesFrom(events)).toHaveLength(task.messages);
      expect(new Set(events.map(({ version }) => version)).size).toBe(events.length);
    }
  };

  try {
    for (const step of commands) {
      await apply(step);
      await quiet();
      await compare();
    }
  } finally {
    await world.crash().catch(() => {});
  }
};

test("random sequences of commands and crashes keep to the model of a Task", { timeout: 120_000 }, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const numRuns = Number(process.env["TEST_RUNS"] ?? 40);
  console.log(`sequences: TEST_SEED=${seed} TEST_RUNS=${numRuns}`);
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 14 }), (commands) => runSequence(commands)),
    {
      seed,
      numRuns,
      interruptAfterTimeLimit: 60_000,
      markInterruptAsFailure: false,
    },
  );
});

test("control: a service that loses what it acknowledged is found out", async () => {
  const commands: Command[] = [{ do: "create" }, { do: "message", of: 0, onBusy: "auto" }];
  await runSequence(commands);
  await expect(runSequence(commands, true)).rejects.toThrow();
});
