import { mostGiven, openPipes, type Pipes } from "./pipe.ts";

/**
 * The processes of a sandbox's next command, made before the command is known, so that starting it takes a single write
 * (docs/decisions/0275). They exist only while no command runs: no process of an agent runs next to them, and killing a
 * command's leftovers never hits them.
 */

export interface Spare<Job> {
  isThere(): boolean;
  /** Makes the spare processes. Throws when the slot's pipes cannot be opened. */
  prepare(slot: number): void;
  /**
   * Gives them the job and returns what it now owns; undefined: there are no spare processes, or the script is too long
   * for them and they end.
   */
  give(job: Job, script: Buffer): Given | undefined;
  /** Ends the spare processes unused. */
  dismiss(): void;
  /**
   * "ended": something outside ended them; "free": dismissed processes are gone; undefined: the report is not about
   * spare processes.
   */
  hear(verb: string | undefined, slot: number, waiter: string | undefined): "ended" | "free" | undefined;
  /** Call when everything in the sandbox was killed. Returns the slots of the dismissed processes. */
  swept(): number[];
  /** Stops listening to the spare processes. */
  destroy(): void;
}

export type Given = {
  slot: number;
  pipes: Pipes;
  /** undefined while the processes are still being made. */
  waiter: string | undefined;
};

type Made<Job> = Given & { job: Job | undefined };

export const createSpare = <Job>(
  folder: string,
  say: (line: string) => void,
  hooks: { output(job: Job, from: "stdout" | "stderr", chunk: Buffer): boolean; closed(job: Job): void },
): Spare<Job> => {
  let ready: Made<Job> | undefined;
  const dismissed = new Map<number, Pipes>();
  const dismiss = () => {
    if (ready === undefined) return;
    dismissed.set(ready.slot, ready.pipes);
    ready.pipes.give("\n");
    ready = undefined;
  };
  return {
    isThere: () => ready !== undefined,
    prepare(slot) {
      const pipes = openPipes(folder, slot, {
        output: (from, chunk) => made.job === undefined || hooks.output(made.job, from, chunk),
        closed() {
          if (made.job !== undefined) hooks.closed(made.job);
        },
      });
      const made: Made<Job> = { slot, pipes, waiter: undefined, job: undefined };
      ready = made;
      say(`n ${slot}\n`);
    },
    give(job, script) {
      const bytes = Buffer.concat([Buffer.from(`${script.length}\n`), script]);
      if (bytes.length > mostGiven) dismiss();
      if (ready === undefined) return undefined;
      const given = ready;
      ready = undefined;
      given.job = job;
      given.pipes.give(bytes);
      return given;
    },
    dismiss,
    hear(verb, slot, waiter) {
      if (verb === "p" && ready?.slot === slot) ready.waiter = waiter;
      if (verb !== "x") return undefined;
      if (ready?.slot === slot) return "ended";
      const pipes = dismissed.get(slot);
      if (pipes === undefined) return undefined;
      pipes.destroy();
      dismissed.delete(slot);
      return "free";
    },
    swept() {
      const slots = [...dismissed.keys()];
      for (const pipes of dismissed.values()) pipes.destroy();
      dismissed.clear();
      return slots;
    },
    destroy() {
      ready?.pipes.destroy();
      ready = undefined;
      for (const pipes of dismissed.values()) pipes.destroy();
    },
  };
};
