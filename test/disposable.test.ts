import { afterAll, describe, expect, test, vi } from "vitest";

/** Node 22's stand-in for AsyncDisposableStack beside the engine's own: both go through the same cases. */

const globals: { AsyncDisposableStack?: typeof AsyncDisposableStack } = globalThis;
const own = globals.AsyncDisposableStack;
delete globals.AsyncDisposableStack;
// A test file that ran before in the same worker may have loaded it.
vi.resetModules();
await import("../src/disposable.ts");
const standIn = globals.AsyncDisposableStack;
afterAll(() => {
  if (own !== undefined) globals.AsyncDisposableStack = own;
});

const stacks = [["stand-in", standIn] as const, ...(own === undefined ? [] : [["engine's own", own] as const])];

test("the stand-in is another class", () => {
  expect(standIn).toBeTypeOf("function");
  expect(standIn).not.toBe(own);
});

describe.each(stacks)("%s", (_name, Stack) => {
  if (Stack === undefined) throw new Error("Expected an AsyncDisposableStack, got none");

  test("releases in reverse order, once, whatever the kind", async () => {
    const said: string[] = [];
    const stack = new Stack();
    expect(stack.use({ [Symbol.dispose]: () => said.push("sync") })).toBeTypeOf("object");
    stack.use({
      async [Symbol.asyncDispose]() {
        await Promise.resolve();
        said.push("async");
      },
    });
    expect(stack.use(undefined)).toBeUndefined();
    expect(stack.adopt(7, (value) => void said.push(`adopted ${value}`))).toBe(7);
    stack.defer(() => void said.push("deferred"));
    expect(stack.disposed).toBe(false);
    await stack.disposeAsync();
    await stack.disposeAsync();
    expect(said).toEqual(["deferred", "adopted 7", "async", "sync"]);
    expect(stack.disposed).toBe(true);
    expect(() => stack.defer(() => {})).toThrow(ReferenceError);
  });

  test("moved resources belong to the new stack", async () => {
    const said: string[] = [];
    const first = new Stack();
    first.defer(() => void said.push("released"));
    const second = first.move();
    await first[Symbol.asyncDispose]();
    expect(said).toEqual([]);
    await second[Symbol.asyncDispose]();
    expect(said).toEqual(["released"]);
  });

  test("one failure does not keep the others from being released", async () => {
    const said: string[] = [];
    const stack = new Stack();
    stack.defer(() => void said.push("still"));
    stack.defer(() => {
      throw new Error("broken");
    });
    await expect(stack.disposeAsync()).rejects.toThrow("broken");
    expect(said).toEqual(["still"]);
  });

  test("refuses what cannot be disposed", () => {
    expect(() => new Stack().use({} as Disposable)).toThrow(TypeError);
  });
});
