import { PassThrough } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import type { InteractiveProcess } from "../../src/process/process.ts";
import { createLineTransport } from "../../src/tool/mcp/line-transport.ts";

/** What whoever listens to a program of an MCP server throws stays with that program. */

const open = () => {
  const gone = Promise.withResolvers<void>();
  const kill = vi.fn<() => void>();
  const program = { stdin: new PassThrough(), stdout: new PassThrough(), kill, gone: gone.promise };
  const over = vi.fn<(why: Error) => void>();
  const transport = createLineTransport(program as unknown as InteractiveProcess, over);
  return { program, gone, over, transport };
};

const faults = async (work: () => Promise<void>): Promise<string[]> => {
  const found: string[] = [];
  const note = (error: unknown) => void found.push(String(error));
  process.prependListener("uncaughtException", note);
  process.prependListener("unhandledRejection", note);
  await work();
  await wait(20);
  process.off("uncaughtException", note);
  process.off("unhandledRejection", note);
  return found;
};

const answer = '{"jsonrpc":"2.0","id":1,"result":{}}\n';

test("a message that its listener cannot take ends the program; control: one that it can", async () => {
  const { program, over, transport } = open();
  const heard: unknown[] = [];
  Object.assign(transport, { onmessage: (message: unknown) => void heard.push(message) });
  await transport.start();
  const found = await faults(async () => {
    program.stdout.write(answer);
    await wait(20);
    expect([heard.length, program.kill.mock.calls.length]).toEqual([1, 0]);
    const onmessage = () => {
      throw new Error("no such request");
    };
    Object.assign(transport, { onmessage });
    program.stdout.write(answer);
    await wait(20);
  });
  expect(found).toEqual([]);
  expect([over.mock.calls.map(([why]) => why.message), program.kill.mock.calls.length]).toEqual([
    ["no such request"],
    1,
  ]);
});

test("a close that its listener cannot take is nobody's fault", async () => {
  const { gone, transport } = open();
  const closed = vi.fn<() => void>(() => {
    throw new Error("closed already");
  });
  Object.assign(transport, { onclose: closed });
  await transport.start();
  expect(await faults(async () => gone.resolve())).toEqual([]);
  expect(closed).toHaveBeenCalledOnce();
});
