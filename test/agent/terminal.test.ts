import { type ClientApp, methods } from "@agentclientprotocol/sdk";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { serveHost } from "../../src/agent/external/host.ts";
import type { CommandResult } from "../../src/process/process.ts";

/** Commands that an external agent has its client run. */

const hosted = (run: () => Promise<Partial<CommandResult>>) => {
  const handlers = new Map<string, (asked: { params: unknown }) => unknown>();
  const app = {
    onRequest(method: string, handler: (asked: { params: unknown }) => unknown) {
      handlers.set(method, handler);
      return app;
    },
  };
  const turn = {
    limits: { commandMaxSeconds: 1 },
    signal: new AbortController().signal,
    task: () => ({ directory: "/project" }),
  };
  const given: unknown[] = [
    app,
    turn,
    { root: "/tree", run },
    { forbids: () => undefined },
    () => Promise.resolve("call_1"),
  ];
  serveHost(
    ...(given as [ClientApp, ...(Parameters<typeof serveHost> extends [unknown, ...infer Rest] ? Rest : never)]),
  );
  return async (method: string, params: object) => await handlers.get(method)?.({ params });
};

test("one that cannot be run is told to who waits for it, and to nobody else; control: one that ran", async () => {
  const unheard: unknown[] = [];
  const note = (error: unknown) => void unheard.push(error);
  process.prependListener("unhandledRejection", note);
  const exit = async (run: () => Promise<Partial<CommandResult>>) => {
    const ask = hosted(run);
    const { terminalId } = (await ask(methods.client.terminal.create, { command: "true" })) as { terminalId: string };
    await wait(20);
    return ask(methods.client.terminal.waitForExit, { terminalId });
  };
  await expect(exit(() => Promise.reject(new Error("the Task is held")))).rejects.toThrow("held");
  process.off("unhandledRejection", note);
  expect(unheard).toEqual([]);
  expect(await exit(() => Promise.resolve({ exitCode: 0, ended: "exit" }))).toMatchObject({ exitCode: 0 });
});
