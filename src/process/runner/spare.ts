import { mostGiven, openPipes, type Pipes } from "./pipe.ts";

/**
 * The processes of a sandbox's next command, made before it is known, so that a command is one write
 * (docs/decisions/0275). They are there only while no command runs: nothing of an agent's stands beside them, and what
 * ends a command's leftovers meets none of them.
 */

export interface Spare<Job> {
  isThere(): boolean;
  /** Makes them. Throws when the slot's pipes cannot be opened. */
  prepare(slot: number): void;
  /** What `job` has from now on; undefined: there are none, or its script is too long for them, and they end. */
  give(job: Job, script: Buffer): Given | undefined;
  /** They end, unused. */
  dismiss(): void;
  /**
   * "ended": by whoever may from outside; "free": those that were dismissed are gone; undefined: it is not about them.
   */
  hear(verb: string | undefined, slot: number, waiter: string | undefined): "ended" | "free" | undefined;
  /** Everything in the sandbox was killed: the slots of those that had been dismissed. */
  swept(): number[];
  /** Stops listening to them. */
  destroy(): void;
}

export type Given = {
  slot: number;
  pipes: Pipes;
  /** Unknown as long as they are being made. */
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
