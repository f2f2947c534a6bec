import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { CommandResult } from "../../process/process.ts";
import type { Usage } from "../../workspace/usage/measure.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { DiskBound, Run } from "../run.ts";

/**
 * Bounds a Task's disk space by watching it, because few file systems have quotas for folders. While the Task's
 * commands run, the free space of the disk cheaply shows that the Task cannot have outgrown its bound; its files are
 * measured only when it may have, and now and then. A command that outgrows the bound is ended, and the agent is told;
 * the Task fails if it does not free space.
 */

export type DiskBoundOptions = {
  /** In bytes. */
  limit: number;
  measure: () => Promise<Usage>;
  /** The Task's files exist already, and their size is not known. */
  isUnknown: boolean;
  /** Free bytes on the disk, as last seen. */
  free: () => number;
  look: () => Promise<void>;
  /** How many replies the Task's agents have given. */
  steps: () => number;
};

/** How many replies the agents get to free space. */
const patience = 3;

/**
 * A Task is not suspected of having outgrown its bound before at least this much was written to the disk: this share of
 * the bound, or this many bytes, whichever is less.
 */
const stepShare = 1 / 8;
const stepBytes = 64 * 1024 ** 2;

/**
 * How far a Task beyond its bound may grow further, as a share of the bound: the commands that free space need some.
 */
const slackShare = 1 / 16;

/**
 * A Task at work is measured at the latest after `seldomMs`, or `seldomShare` times the duration of a measurement if
 * that is longer. At least `atLeastShare` times that duration passes between two measurements.
 */
const seldomMs = 30_000;
const seldomShare = 50;
const atLeastShare = 10;

/**
 * Milliseconds between two looks at the disk while a command runs; shorter when the disk could fill sooner. `fastest`:
 * the assumed speed of writing, in bytes per second.
 */
const lookMs = { least: 100, most: 1000 };
const fastest = 2 * 1024 ** 3;

export const createDiskBound = (options: DiskBoundOptions): DiskBound => {
  const { limit, measure, isUnknown, free, look, steps } = options;
  const ends = new Set<AbortController>();
  let known = 0;
  let freeThen = free();
  let written = 0;
  let measuredAt = isUnknown ? Number.NEGATIVE_INFINITY : performance.now();
  let cost = 0;
  let over: Usage | undefined;
  let overSince = 0;
  /** Commands are ended beyond this usage: the limit, or a little more than the Task has. */
  let mark = limit;
  let measuring: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const measureOnce = async (): Promise<void> => {
    const begun = performance.now();
    // Files that cannot be measured are not bounded; that is no reason to fail the Task.
    const usage = await measure().catch(() => undefined);
    freeThen = free();
    written = 0;
    measuredAt = performance.now();
    cost = measuredAt - begun;
    if (usage === undefined) return;
    known = usage.bytes;
    if (known <= limit) {
      over = undefined;
      mark = limit;
      return;
    }
    if (over === undefined) overSince = steps();
    over = usage;
    if (known <= mark) return;
    mark = known + limit * slackShare;
    for (const end of ends) end.abort(new Error("The Task has exceeded its disk space"));
  };
  const measured = (): Promise<void> =>
    (measuring ??= measureOnce().finally(() => {
      measuring = undefined;
    }));

  const sinceMeasured = () => performance.now() - measuredAt;
  const isOften = () => sinceMeasured() < atLeastShare * cost;
  /**
   * Bytes written to the disk since the last measurement, by anyone. Space that others free meanwhile must not hide
   * them.
   */
  const writtenSince = (): number => {
    const now = free();
    written += Math.max(0, freeThen - now);
    freeThen = now;
    return written;
  };
  /** So much was written that the Task may have outgrown its bound. */
  const isSuspect = () =>
    writtenSince() >= Math.max((mark - known) / 2, Math.min(stepBytes, limit * stepShare)) && !isOften();
  const isDue = () => !isOften() && sinceMeasured() >= Math.max(seldomMs, seldomShare * cost);

  const tick = async (): Promise<void> => {
    await look();
    if (ends.size > 0 && (isSuspect() || isDue())) await measured();
  };
  const arm = (): void => {
    if (timer !== undefined || ends.size === 0) return;
    const ms = Math.max(0, (mark - known) / 2 / fastest) * 1000;
    timer = setTimeout(
      () =>
        void tick()
          .catch(() => {})
          .finally(() => {
            timer = undefined;
            arm();
          }),
      Math.min(Math.max(ms, lookMs.least), lookMs.most),
    );
    timer.unref();
  };

  return {
    async during(work) {
      const end = new AbortController();
      ends.add(end);
      arm();
      try {
        const value = await work(end.signal);
        // This work has ended, so a measurement now aborts only other work.
        ends.delete(end);
        if (over !== undefined || isSuspect()) await measured();
        else if (isDue()) void measured();
        return { value, over, ended: end.signal.aborted };
      } finally {
        ends.delete(end);
      }
    },
    isOver: () => over !== undefined,
    async failure(suspect = false) {
      await measuring;
      if (suspect || over !== undefined) await measured();
      return over && exceeded(over, limit);
    },
    stopReason: () => (over !== undefined && steps() - overSince >= patience ? exceeded(over, limit) : undefined),
  };
};

/** For a Task in the user's own directory: the files there are not the service's to measure. */
export const unbounded: DiskBound = {
  during: async (work) => ({ value: await work(new AbortController().signal), over: undefined, ended: false }),
  isOver: () => false,
  failure: () => Promise.resolve(undefined),
  stopReason: () => undefined,
};

/** Puts the commands that run in a place under the Task's bound. */
export const withDiskBound = <P extends Pick<Workspace, "run"> & Partial<Pick<Workspace, "startInteractive">>>(
  { bound, limits }: Pick<Run, "bound" | "limits">,
  place: P,
): P => {
  if (bound === unbounded) return place;
  const runCommand = place.run.bind(place);
  const startTalk = place.startInteractive?.bind(place);
  place.run = async (command) => {
    const { value, over, ended } = await bound.during((outgrown) =>
      runCommand({ ...command, signal: AbortSignal.any([command.signal, outgrown]) }),
    );
    if (over === undefined || command.signal.aborted) return value;
    return told(value, over, limits.taskDiskBytes, ended);
  };
  if (startTalk !== undefined)
    place.startInteractive = async (talk) => {
      const { promise: started, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<typeof startTalk>>>();
      void bound
        .during(async (outgrown) => {
          const talking = await startTalk({ ...talk, signal: AbortSignal.any([talk.signal, outgrown]) });
          resolve(talking);
          await talking.gone;
        })
        .catch(reject);
      return started;
    };
  return place;
};

const told = (ran: CommandResult, over: Usage, limit: number, ended: boolean): CommandResult => {
  const note = `[${amount(over, limit)} Remove what is not needed: the Task fails if it is still so after ${patience} more steps.]`;
  return {
    ...ran,
    ...(ended ? { ended: "disk", exitCode: null } : {}),
    output: ran.output === "" ? note : `${ran.output.trimEnd()}\n\n${note}`,
  };
};

const exceeded = (over: Usage, limit: number): TurnFailure => ({
  code: "disk_exceeded",
  message: `${amount(over, limit)} They are kept as they are, uncommitted.`,
  retryable: false,
  remedy: "Send a message that says what to remove; or raise limits.taskDiskBytes, then send a message to continue.",
});

const amount = ({ bytes, parts }: Usage, limit: number): string => {
  const most = parts.filter((part) => part.bytes > limit / 100).map((part) => `${part.name} ${size(part.bytes)}`);
  return `The Task's files take ${size(bytes)} on the disk, and one Task may have ${size(limit)} there (limits.taskDiskBytes).${most.length === 0 ? "" : ` Most of it: ${most.join(", ")}.`}`;
};

const size = (bytes: number): string =>
  bytes >= 1024 ** 3 ? `${(bytes / 1024 ** 3).toFixed(1)} GiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
