import { join } from "node:path";
import type { DomainEvent } from "../../src/domain/event.ts";
import { silent } from "../../src/log.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { created, settled } from "../harness/events.ts";

/**
 * Far too much of everything: 50,000 lines of log, 200 slices, 20 MB of a check's output, titles without end, any
 * script.
 */

export const turns = 12_500;
const commit = "a".repeat(40);
const usage = { inputTokens: 10, outputTokens: 5, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: null };
export const arabic = "أضف اختبارًا يفشل أولاً ثم يمر، واشرح السبب في سطر واحد";

/** A turn with one call: four lines of log. */
const turn = (index: number): DomainEvent[] => [
  {
    type: "reply.finished",
    data: {
      messageID: `msg_${index}`,
      sessionID: "ses_1",
      agent: "orchestrator",
      model: "mock/large",
      read: 1,
      text:
        index % 7 === 0
          ? `${arabic} ${index}`
          : `Step ${index}: **looking** at \`file-${index}.ts\` and what depends on it.`,
      calls: [`call_${index}`],
      finish: "calls",
      failure: null,
      usage,
      durationMs: 1200,
    },
  },
  {
    type: "tool.started",
    data: {
      callID: `call_${index}`,
      sessionID: "ses_1",
      tool: "shell",
      input: { command: `npm test -- part-${index}` },
      effect: "workspace",
    },
  },
  {
    type: "tool.finished",
    data: {
      callID: `call_${index}`,
      sessionID: "ses_1",
      tool: "shell",
      outcome: "ok",
      output: "line\n".repeat(20),
      exitCode: index % 100 === 99 ? 1 : 0,
      durationMs: 900,
    },
  },
  { type: "note.written", data: { sessionID: "ses_1", callID: `call_${index}`, text: `Plan ${index}` } },
];

/**
 * Into a data folder that no service uses yet. The first Task has the long log, the second one the slices and the
 * output.
 */
export const putMuch = async (dataDir: string, project: string): Promise<string[]> => {
  const ids: string[] = [];
  await using store = await createSqliteStore({ file: join(dataDir, "sortie.db"), dataDir, log: silent });
  const put = async (first: ReturnType<typeof created>, events: DomainEvent[]) => {
    const stream = first.data.taskID;
    ids.push(stream);
    const all = [first, ...events];
    for (let at = 0; at < all.length; at += 1000)
      await store.commit({ appends: [{ stream, expected: at, events: all.slice(at, at + 1000) }] });
  };
  const place = { directory: project, project: join(project, ".git") };
  await put(created({ ...place, title: "Fifty thousand lines" }), [
    ...Array.from({ length: turns }, (_, index) => turn(index)).flat(),
    settled(),
  ]);
  const output = `${"x".repeat(390)}\n`.repeat(51_000);
  const log = await store.blobs.put(Buffer.from(output));
  const slices = Array.from(
    { length: 200 },
    (_, index): DomainEvent => ({
      type: "slice.defined",
      data: {
        sliceID: `slice_${index}`,
        weight: "blocking",
        contract: {
          revision: 1,
          title: `Part ${index} ${"of a long name ".repeat(8)}`,
          objective: arabic,
          acceptance: [arabic, "W".repeat(300)],
        },
        sessionID: "ses_1",
        callID: `call_${index}`,
      },
    }),
  );
  const check = {
    id: "tests",
    name: "npm test",
    timeoutSeconds: 60,
    required: true,
    baseline: false,
    kind: "test" as const,
    run: "npm test",
  };
  await put(
    created({ ...place, title: `${arabic} `.repeat(4).slice(0, 200), request: "W".repeat(10_000), checks: [check] }),
    [
      ...slices,
      { type: "check.started", data: { checkID: "tests", on: "work", round: 1, commit, tree: commit } },
      {
        type: "check.finished",
        data: {
          checkID: "tests",
          on: "work",
          round: 1,
          commit,
          tree: commit,
          state: "failed",
          exitCode: 1,
          durationMs: 10,
          log,
          tail: "x".repeat(4000),
          reason: "exit 1",
        },
      },
      settled({ lifecycleStatus: "failed", error: "W".repeat(4000) }),
    ],
  );
  for (let index = 0; index < 150; index += 1)
    await put(created({ ...place, title: `${"Unbreakable".repeat(18)}${index}`.slice(-200) }), [settled()]);
  return ids;
};
