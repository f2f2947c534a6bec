import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import { summarise } from "../../src/domain/view/summary.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { created, settled } from "../harness/events.ts";
import { message } from "../fixtures/store/message.ts";
import { postgresURL, countSkipped } from "../harness/postgres.ts";
import type { Store } from "../../src/store/store.ts";
import { backends } from "../harness/store.ts";

/** Whatever happened to a Task: the fold of its log, the state that the store tells, and the list row are one. */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
const sha = "a".repeat(40);
const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0.25 };

const event: fc.Arbitrary<DomainEvent> = fc.oneof(
  fc
    .record({ title: fc.string({ unit: "binary" }), archived: fc.boolean() })
    .map((data): DomainEvent => ({ type: "task.updated", data })),
  fc
    .constantFrom("critical", "high", "normal", "low")
    .map((priority): DomainEvent => ({ type: "task.updated", data: { priority } })),
  fc.integer({ min: 1, max: 9 }).map(
    (epoch): DomainEvent => ({
      type: "run.started",
      data: { worker: "w", epoch, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
    }),
  ),
  fc.constant<DomainEvent>({ type: "run.stopped", data: { reason: "stop" } }),
  fc.constantFrom("steered", "queued", "interrupted").map((disposition) => message({ disposition })),
  fc.string({ unit: "binary", maxLength: 300 }).map((text) => message({ text })),
  fc.record({ read: fc.integer({ min: 0, max: 20 }), finish: fc.constantFrom("calls", "end", "length", "failed") }).map(
    ({ read, finish }): DomainEvent => ({
      type: "reply.finished",
      data: {
        messageID: "m",
        sessionID: "s",
        agent: "o",
        model: "a/b",
        read,
        text: "t",
        calls: finish === "calls" ? ["c"] : [],
        finish,
        failure: finish === "failed" ? { code: "x", message: "y", retryable: false, remedy: null } : null,
        usage,
        durationMs: 1,
      },
    }),
  ),
  fc.constantFrom("none", "workspace", "unknown").map(
    (effect): DomainEvent => ({
      type: "tool.started",
      data: { callID: "c", sessionID: "s", tool: "t", input: { a: [1] }, effect },
    }),
  ),
  fc.constantFrom("ok", "error").map(
    (outcome): DomainEvent => ({
      type: "tool.finished",
      data: { callID: "c", sessionID: "s", tool: "t", outcome, output: "o", exitCode: null, durationMs: 1 },
    }),
  ),
  fc.constant<DomainEvent>({
    type: "tree.committed",
    data: { commit: sha, tree: sha, parent: sha, files: 1, insertions: 1, deletions: 0, omitted: [] },
  }),
  fc.constant<DomainEvent>({ type: "cancel.requested", data: { surface: "api", reason: "", mode: "stop" } }),
  fc.constantFrom("completed", "failed").map((lifecycleStatus) => settled({ lifecycleStatus })),
);

const check = async (store: Store, commits: readonly (readonly DomainEvent[])[]): Promise<void> => {
  const first = created();
  const stream = first.data.taskID;
  const directory = `/work/${stream}`;
  first.data.project = directory;
  for (const events of [[first], ...commits]) {
    const done = await store.commit({ appends: [{ stream, expected: "any", events }] });
    expect(done.ok).toBe(true);
    const log = await store.read(stream);
    const fold = log.reduce<TaskState | undefined>((state, each) => evolve(state, each), undefined);
    if (fold === undefined) throw new Error("Expected a fold");
    expect(log.map(({ version }) => version)).toEqual(log.map((_, index) => index + 1));
    expect(await store.state(stream)).toEqual(fold);
    expect(await store.list({ project: directory, limit: 5, archived: true })).toEqual([summarise(fold)]);
  }
};

for (const backend of backends)
  describe(backend.name, () => {
    test(`folds equal the list row (seed ${seed})`, async () => {
      await using place = await backend.open();
      const { store } = place;
      // A property that the time limit interrupts goes on by itself.
      let last: Promise<unknown> = Promise.resolve();
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(event, { minLength: 1, maxLength: 30 }), { maxLength: 6 }),
          (commits) => (last = check(store, commits)),
        ),
        { seed, numRuns: 40, interruptAfterTimeLimit: 8000 },
      );
      await last;
      // And from the tables alone.
      const ids = (await store.since(0, 10_000, { types: ["task.created"] })).map((each) => each.stream);
      expect(ids.length).toBeGreaterThan(5);
      const before = await Promise.all(ids.map((id) => store.state(id)));
      if (place.reopen === undefined) return;
      const again = await place.reopen();
      expect(await Promise.all(ids.map((id) => again.state(id)))).toEqual(before);
    });
  });

if (postgresURL === undefined) {
  countSkipped(1);
  test.skip("PostgreSQL: folds equal the list row", () => {});
}
