import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Processes of the bench's own, asked by name over Node's channel between parent and child. */

type Methods = Record<string, (...args: never[]) => unknown>;
type Question = { id: number; name: string; args: unknown[] };
type Answer = { id: number; value?: unknown; error?: string };

export type Worker<M extends Methods> = AsyncDisposable & {
  pid: number;
  call<K extends keyof M & string>(name: K, ...args: Parameters<M[K]>): Promise<Awaited<ReturnType<M[K]>>>;
};

/** Starts a file of this folder. It must call `serveWorker`, and ends with its parent. */
export const startWorker = <M extends Methods>(file: string): Worker<M> => {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const open = new Map<number, PromiseWithResolvers<never>>();
  let serial = 0;
  child.on("message", ({ id, value, error }: Answer) => {
    const asked = open.get(id);
    open.delete(id);
    if (error === undefined) asked?.resolve(value as never);
    else asked?.reject(new Error(`${file}: ${error}`));
  });
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  void gone.then(() => {
    for (const asked of open.values()) asked.reject(new Error(`${file} ended`));
  });
  return {
    pid: child.pid ?? 0,
    call(name, ...args) {
      const asked = Promise.withResolvers<never>();
      open.set((serial += 1), asked);
      child.send({ id: serial, name, args } satisfies Question);
      return asked.promise;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await gone;
    },
  };
};

export const serveWorker = (methods: Methods): void => {
  process.on("message", ({ id, name, args }: Question) => {
    const answer = (rest: Omit<Answer, "id">) => process.send?.({ id, ...rest });
    Promise.resolve()
      .then(() => methods[name]?.(...(args as never[])))
      .then(
        (value) => answer({ value }),
        (error: unknown) => answer({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
      );
  });
  process.on("disconnect", () => process.exit(0));
};

/** Milliseconds of a clock that all processes of the machine share. */
export const clock = (): number => Number(process.hrtime.bigint()) / 1e6;
