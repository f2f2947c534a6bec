import type { StreamID } from "../domain/event.ts";
import { isEnding } from "./due.ts";
import { messageOf } from "../error.ts";
import type { Log } from "../log.ts";
import { countRunning, type Full, type RunningCount } from "../store/running.ts";
import type { DueStream, Store } from "../store/store.ts";
import type { Engine } from "./engine.ts";

/**
 * The engine of one process. It queries the store whenever it may have missed something: at the start, on a nudge, when
 * a handler returned, at the earliest due time, and every `reconcileMs` in any case. Requests of one tick share one
 * query, and nothing is queried while `maxRunning` handlers run. If the store bounds the number of running Tasks, due
 * Tasks without room stay due until a run ends or the next query.
 */

export type LocalEngineOptions = {
  store: Pick<Store, "due" | "nextDue"> & Partial<Pick<Store, "bounds" | "running">>;
  /** The most handlers that run at the same time. */
  maxRunning: number;
  log: Log;
  /** The longest delay that a lost nudge can cause. */
  reconcileMs?: number;
  /** The longest time that disposal waits for handlers. */
  shutdownMs?: number;
  now?: () => Date;
  /** A number from 0 to 1, which spreads the retries of streams that failed together. */
  random?: () => number;
  /** Carries out the work of a run, exactly once. Default: calls it directly. */
  carry?: (stream: StreamID, work: () => Promise<void>, signal: AbortSignal) => Promise<void>;
  /** Called with the first due streams while every place is taken. */
  overflow?: (rows: readonly DueStream[]) => void;
};

export type LocalEngine = Engine & {
  /**
   * Looks at what is due, which may include this stream. Resolves when the stream's run has ended, or soon if none
   * begins, because the stream is not due, is held by another worker, or finds no place.
   */
  take(stream: StreamID): Promise<void>;
};

/** `project`: the Task's project, if the Task counts towards the store's bounds. */
type Run = {
  seq: number;
  controller: AbortController;
  done: Promise<void>;
  before: Rest | undefined;
  project: string | undefined;
};

/**
 * The pause of a stream after its last run. Until it is over, a stream whose handler threw does not run at all; one
 * whose handler returned does not run for the due time that it was started for, which the run evidently left unchanged.
 */
type Rest = { seq: number; threw: boolean; tries: number; until: number };

/** How many streams without a place are passed to `overflow`, and how often at most. */
const mostOverflow = 64;
const overflowMs = 500;
/** How long `take` waits for a free place. */
const placeMs = 2_000;

const firstRestMs = 1_000;
const longestRestMs = 60_000;

const none: ReadonlyMap<StreamID, string> = new Map();

const drained = () => new Error("The service starts nothing more");

export const createLocalEngine = (options: LocalEngineOptions): LocalEngine => {
  const { store, maxRunning, log, reconcileMs = 5_000, shutdownMs = 10_000, carry, overflow } = options;
  const { now = () => new Date(), random = Math.random } = options;
  const clock = () => now().getTime();

  const running = new Map<StreamID, Run>();
  /** Runs that stand aside, and so take no place. */
  const aside = new Set<Run>();
  const rests = new Map<StreamID, Rest>();
  let handler: ((stream: StreamID, signal: AbortSignal) => Promise<void>) | undefined;
  let stopped = false;
  let pauses = false;
  let drains = false;
  let asked = false;
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;
  /**
   * How many due streams of the last query cannot begin: they pause, have no room, or their handler runs but has not
   * claimed them yet. The next query reads that many more.
   */
  let inTheWay = 0;
  /** Streams for which `take` was called: their work is being carried already. */
  const taken = new Map<StreamID, number>();
  /** Called when a place becomes free. */
  let freed = Promise.withResolvers<void>();
  let spilling: NodeJS.Timeout | undefined;
  let spiltAt = Number.NEGATIVE_INFINITY;

  const free = () => maxRunning - (running.size - aside.size);
  const ended = () => stopped || drains;
  const wanted = () => asked && !ended();

  const ask = () => {
    if (ended() || handler === undefined || asked) return;
    if (free() <= 0) return spill();
    asked = true;
    setImmediate(() => {
      if (looking !== undefined) return;
      looking = lookWhileAsked().finally(() => {
        looking = undefined;
      });
    });
  };

  /** Reports soon which streams find no place, but not more often than every `overflowMs`. */
  const spill = () => {
    if (overflow === undefined || spilling !== undefined) return;
    const wait = Math.max(overflowMs / 10, spiltAt + overflowMs - performance.now());
    spilling = setTimeout(() => {
      spilling = undefined;
      spiltAt = performance.now();
      if (ended() || free() > 0) return;
      askAt(Number.POSITIVE_INFINITY);
      roomBeside()
        .then((room) => store.due(now(), mostOverflow + inTheWay, room?.full()))
        .then(
          (rows) => overflow(rows.filter((row) => !running.has(row.stream) && restUntil(row) <= clock())),
          (error: unknown) =>
            log.debug({ error: messageOf(error) }, "could not read which runs are waiting for capacity"),
        );
    }, wait);
    spilling.unref();
  };

  const askAt = (time: number) => {
    const at = Math.min(time, clock() + reconcileMs);
    if (ended() || at >= timerAt) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(
      () => {
        timerAt = Number.POSITIVE_INFINITY;
        forgetOldRests();
        // While no handler is free this does nothing; the next handler that returns queries again and sets the timer.
        ask();
      },
      Math.max(1, at - clock()),
    );
  };

  const lookWhileAsked = async () => {
    while (wanted()) {
      asked = false;
      try {
        askAt(await look());
        if (free() <= 0) spill();
      } catch (error) {
        // The store cannot be reached at the moment, but the due times in it remain.
        log.error({ error: messageOf(error) }, "could not read what is due");
        askAt(Number.POSITIVE_INFINITY);
      }
    }
  };

  /** Starts what may run now. Resolves to the time at which more may run. */
  const look = async (): Promise<number> => {
    for (let limit = free() + inTheWay; ; limit = Math.max(16, limit * 2)) {
      const asOf = now();
      const room = await roomBeside();
      const found = await store.due(asOf, limit, room?.full());
      const projects = await projectsOf(found);
      // Runs that end their streams have the lowest ranks, so they come first.
      const rows = pauses ? found.filter(({ due }) => isEnding(due)) : found;
      let earliest = Number.POSITIVE_INFINITY;
      inTheWay = 0;
      for (const row of rows) {
        if (ended() || free() <= 0) return earliest;
        const runs = running.has(row.stream);
        const until = runs ? 0 : restUntil(row);
        const project = isEnding(row.due) ? undefined : projects.get(row.stream);
        const hasRoom = project === undefined || room?.lacks(project) === undefined;
        if (!runs && until <= clock() && hasRoom) begin(row, project, room);
        else inTheWay += 1;
        if (until > clock()) earliest = Math.min(earliest, until);
      }
      if (ended() || free() <= 0) return earliest;
      // A full page of streams that cannot run now may hide others behind it.
      if (rows.length >= limit) continue;
      return Math.min(earliest, await nextAfter(asOf, room?.full()));
    }
  };

  /**
   * What the store's bounds leave, counting the Tasks that run on any node and those that begin here. A run that stands
   * aside before it has a claim is not counted: it may be waiting for one that would have no room otherwise.
   */
  const roomBeside = async (): Promise<RunningCount | undefined> => {
    if (store.bounds === undefined || store.running === undefined) return undefined;
    const all = new Map((await store.running()).running);
    for (const [stream, run] of running) if (run.project !== undefined && !aside.has(run)) all.set(stream, run.project);
    return countRunning(store.bounds, all.values());
  };

  const projectsOf = async (rows: readonly DueStream[]): Promise<ReadonlyMap<StreamID, string>> =>
    store.bounds === undefined || rows.length === 0
      ? none
      : ((await store.running?.(rows.map(({ stream }) => stream)))?.projects ?? none);

  /** The next future due time. A stream that pauses is overdue, and would hide the next one in `nextDue`. */
  const nextAfter = async (asOf: Date, full: Full | undefined): Promise<number> => {
    const times =
      inTheWay === 0 && full === undefined
        ? [(await store.nextDue())?.getTime() ?? Number.POSITIVE_INFINITY]
        : (await store.due(new Date(asOf.getTime() + reconcileMs), inTheWay + maxRunning, full)).map(({ due }) =>
            due.at.getTime(),
          );
    return Math.min(...times.filter((time) => time > asOf.getTime()));
  };

  const restUntil = (row: DueStream): number => {
    const rest = rests.get(row.stream);
    return rest !== undefined && (rest.threw || rest.seq === row.seq) ? rest.until : 0;
  };

  const begin = ({ stream, seq }: DueStream, project: string | undefined, room: RunningCount | undefined) => {
    const controller = new AbortController();
    const before = rests.get(stream);
    rests.delete(stream);
    if (project !== undefined) room?.take(project);
    const run: Run = { seq, controller, before, project, done: Promise.resolve() };
    running.set(stream, run);
    run.done = move(stream, run);
  };

  const move = async (stream: StreamID, run: Run): Promise<void> => {
    let threw = false;
    const work = async () => handler?.(stream, run.controller.signal);
    try {
      await (carry === undefined || taken.has(stream) ? work() : carry(stream, work, run.controller.signal));
    } catch (error) {
      // A handler that was asked to stop may do so by throwing.
      threw = !run.controller.signal.aborted;
      const data = { stream, error: messageOf(error), stack: error instanceof Error ? error.stack : undefined };
      if (threw) log.error(data, "a run failed; it will be retried");
      else log.debug(data, "a run was interrupted");
    } finally {
      running.delete(stream);
      aside.delete(run);
      rests.set(stream, restAfter(run, threw));
      freed.resolve();
      freed = Promise.withResolvers();
      ask();
    }
  };

  const restAfter = ({ seq, before }: Run, threw: boolean): Rest => {
    const again = before !== undefined && before.threw === threw && (threw || before.seq === seq);
    const tries = again ? before.tries + 1 : 1;
    const length = Math.min(firstRestMs * 2 ** (tries - 1), longestRestMs);
    return { seq, threw, tries, until: clock() + length * (1 + random() / 10) };
  };

  const forgetOldRests = () => {
    for (const [stream, { until }] of rests) if (until + longestRestMs < clock()) rests.delete(stream);
  };

  return {
    nudge(_stream, due) {
      const at = due.at.getTime();
      if (at <= clock()) ask();
      else if (handler !== undefined) askAt(at);
    },

    start(given) {
      if (handler !== undefined) throw new Error("Expected an engine that was not started yet");
      handler = given;
      ask();
    },

    async take(stream) {
      taken.set(stream, (taken.get(stream) ?? 0) + 1);
      try {
        if (free() <= 0 && !running.has(stream)) await within(freed.promise, placeMs);
        if (ended() || handler === undefined) return;
        if (!running.has(stream)) {
          ask();
          await new Promise(setImmediate);
          await looking;
        }
        await running.get(stream)?.done;
      } finally {
        const others = (taken.get(stream) ?? 1) - 1;
        if (others === 0) taken.delete(stream);
        else taken.set(stream, others);
      }
    },

    async interrupt(stream) {
      const run = running.get(stream);
      run?.controller.abort(new Error("The run was interrupted"));
      await run?.done;
    },

    standAside(stream) {
      const run = running.get(stream);
      if (run === undefined) return { [Symbol.dispose]() {} };
      aside.add(run);
      freed.resolve();
      freed = Promise.withResolvers();
      if (drains) run.controller.abort(drained());
      ask();
      return { [Symbol.dispose]: () => void aside.delete(run) };
    },

    pause(now) {
      pauses = now;
      if (!now) rests.clear();
      ask();
    },

    async drain(until) {
      drains = true;
      clearTimeout(timer);
      const end = (runs: Iterable<Run>) => {
        for (const run of runs) run.controller.abort(drained());
      };
      end(aside);
      await looking;
      const all = () => end(running.values());
      until.addEventListener("abort", all, { once: true });
      if (until.aborted) all();
      await Promise.all([...running.values()].map(({ done }) => done));
      until.removeEventListener("abort", all);
    },

    drains: () => drains,

    betweenSteps(stream) {
      if (drains) running.get(stream)?.controller.abort(drained());
    },

    running: (of) => (of === undefined ? running.size : [...running.keys()].filter(of).length),

    async [Symbol.asyncDispose]() {
      stopped = true;
      clearTimeout(timer);
      for (const run of running.values()) run.controller.abort(new Error("The service is stopping"));
      const ends = [looking ?? Promise.resolve(), ...[...running.values()].map(({ done }) => done)];
      let bound: NodeJS.Timeout | undefined;
      await Promise.race([
        Promise.all(ends),
        new Promise<void>((resolve) => {
          bound = setTimeout(resolve, shutdownMs);
        }),
      ]);
      clearTimeout(bound);
      if (running.size > 0)
        log.warn({ streams: [...running.keys()] }, `runs did not end within ${shutdownMs} ms; they are abandoned`);
    },
  };
};

const within = async (promise: Promise<void>, ms: number): Promise<void> => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, late]);
  clearTimeout(timer);
};
