import { expect, test } from "vitest";
import { type AnswerOnce, createAnswerOnce, createRunOnce } from "../../src/http/request/idempotency.ts";
import type { Nodes, Turn } from "../../src/store/node.ts";
import type { Store, StoredAnswer } from "../../src/store/store.ts";

/** Keys of operations without a commit of their own, as several nodes of one database keep them. */

const once = { scope: '["POST","/webhook","",""]', key: "k", bodyHash: "h" };

const database = () => {
  const answers = new Map<string, { bodyHash: string; stored: StoredAnswer }>();
  const turns = new Set<string>();
  const turn: Nodes["turn"] = async (name): Promise<Turn | undefined> => {
    if (turns.has(name)) return undefined;
    turns.add(name);
    return { isHeld: () => true, [Symbol.asyncDispose]: async () => void turns.delete(name) };
  };
  const store: Pick<Store, "once" | "commit"> = {
    once: async (scope, key) => answers.get(`${scope} ${key}`),
    async commit({ once: record }) {
      if (record === undefined) return { ok: true, recorded: [] };
      const { scope, key, bodyHash, answer: stored } = record;
      const found = answers.get(`${scope} ${key}`);
      if (found !== undefined) return { ok: false, reason: "once", ...found };
      answers.set(`${scope} ${key}`, { bodyHash, stored });
      return { ok: true, recorded: [] };
    },
  };
  return {
    store,
    /** What one process has for itself. `apart`: it does not know of the others. */
    node: (apart = false): AnswerOnce =>
      createAnswerOnce(apart ? store : { ...store, nodes: { turn } }, createRunOnce(store)),
  };
};

const effect = () => {
  const gate = Promise.withResolvers<void>();
  let ran = 0;
  return {
    open: gate.resolve,
    ran: () => ran,
    run: async () => {
      const made = (ran += 1);
      await gate.promise;
      return { made };
    },
  };
};

const ask = async (node: AnswerOnce, run: () => Promise<object>, bodyHash = "h"): Promise<unknown> => {
  const given = await node({ headers: {} } as Parameters<AnswerOnce>[0], { ...once, bodyHash }, run);
  if (given === "taken") throw new Error("Expected an answer.");
  return [given.body, given.headers["idempotent-replayed"]];
};

test("two nodes get the same key at once: one runs it, the other says so, and replays the answer later", async () => {
  const { node } = database();
  const [a, b] = [node(), node()];
  const { run, ran, open } = effect();
  const first = ask(a, run);
  await expect.poll(ran).toBe(1);
  await expect(ask(b, run)).rejects.toMatchObject({ code: "idempotency_in_progress" });
  open();
  expect(await first).toEqual(['{"made":1}', undefined]);
  expect(await ask(b, run)).toEqual(['{"made":1}', "true"]);
  await expect(ask(b, run, "other")).rejects.toMatchObject({ code: "idempotency_key_reused" });
  expect(ran()).toBe(1);
});

test("what another node answers between the look and the turn is replayed", async () => {
  const { node, store } = database();
  const { run, ran, open } = effect();
  open();
  const [a, b] = [node(), createAnswerOnce({ ...store, nodes: { turn: late } }, createRunOnce(store))];
  async function late(): Promise<Turn> {
    await ask(a, run);
    return { isHeld: () => true, [Symbol.asyncDispose]: async () => {} };
  }
  expect(await ask(b, run)).toEqual(['{"made":1}', "true"]);
  expect(ran()).toBe(1);
});

test("after a failure the key is free on every node", async () => {
  const { node } = database();
  await expect(ask(node(), () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  const { run, open } = effect();
  open();
  expect(await ask(node(), run)).toEqual(['{"made":1}', undefined]);
});

test("control: processes that do not know of each other both run it", async () => {
  const { node } = database();
  const { run, ran, open } = effect();
  const both = [ask(node(true), run), ask(node(true), run)];
  await expect.poll(ran).toBe(2);
  open();
  await Promise.all(both);
});
