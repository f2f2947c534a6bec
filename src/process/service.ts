import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../error.ts";
import type { Log } from "../log.ts";
import { isFull } from "../store/disk/full.ts";
import { startInteractive } from "./command/interactive.ts";
import { exportsOf, createLifeline, lineScript } from "./command/lifeline.ts";
import { createHold } from "./command/hold.ts";
import { killMarked, type MarkFiles, markFileOf, statOf, wait } from "./command/kill.ts";
import { createGroupRecord, endRecordedGroups } from "./command/group-record.ts";
import { createOwnPrograms } from "./command/own.ts";
import { stalledMs } from "./command/progress.ts";
import { type LiveCommand, runCommand } from "./command/run.ts";
import { createSuspects, type Suspects } from "./command/suspects.ts";
import type {
  Command,
  CommandResult,
  InteractiveCommand,
  InteractiveProcess,
  Processes,
  TaskEnvironment,
} from "./process.ts";
import type { Network } from "./network/allow-list.ts";
import { createProxies } from "./network/proxy.ts";
import { createRunnerClient } from "./runner/client.ts";
import { closeOthers } from "./runner/init-script.ts";
import { createSandboxPool } from "./runner/pool.ts";
import { type CommandLimits, limitsOf } from "./runner/ulimit.ts";
import { createImages, type RemoveTree } from "./image/images.ts";
import { runThrough } from "./image/program.ts";
import { withoutProxies } from "./sandbox/container.ts";
import { hasProgram } from "./sandbox/image-root.ts";
import { selfTest, tryList } from "./sandbox/self-test.ts";
import { insideOf, type SandboxPlace } from "./sandbox/place.ts";
import { findProgram, processGroupSandbox, loopbackCommand, proxyEnv, type Sandbox } from "./sandbox/sandbox.ts";

/**
 * Composes the process room: every command runs in its own process group, recorded from spawn to death, in the
 * service's sandbox.
 */

/** Whether `other` is the Task, a helper of it (`task_x~`) or one of its forks (`task_x-name`). */
const isOf = (taskID: string, other: string): boolean =>
  other === taskID || other.startsWith(`${taskID}~`) || other.startsWith(`${taskID}-`);

export type ProcessOptions = {
  /** Folder for the records of process groups; one per data folder. */
  folder: string;
  /**
   * Identifies the data folder in every child's SERVICE_RUN_ID, so that a later service recognises its own processes.
   */
  runID?: string;
  /** The service's environment. Only PATH, LANG, LC_ALL and TZ are taken from it. */
  keepEnv: Readonly<Record<string, string | undefined>>;
  /** Tier 3 by default. */
  sandbox?: Sandbox;
  /** Further variables to take from the service's environment, named by the operator. */
  envNames?: readonly string[];
  limits?: CommandLimits;
  /** Lets commands run in images; off by default. */
  images?: { removeTree: RemoveTree } | undefined;
  /**
   * Called when a sandbox found no space on the disk. If all commands are then held, this command is started again
   * afterwards.
   */
  full?: (error: unknown) => void;
  /** For tests that inspect it. */
  suspects?: Suspects;
  log: Log;
};

const keptNames = ["PATH", "LANG", "LC_ALL", "TZ"] as const;

/** undefined: mark files cannot be kept or read here. */
const markFiles = (folder: string, runID: string): MarkFiles | undefined => {
  const own = statOf("self");
  if (own === undefined) return undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return { folder: realpathSync(folder), runID, since: Number(own.started) };
  } catch {
    return undefined;
  }
};

export const createProcesses = (options: ProcessOptions): Processes => {
  const { folder, runID = folder, keepEnv, sandbox = processGroupSandbox, envNames = [], limits, log } = options;
  const record = createGroupRecord(folder, log);
  const spawner = createRunnerClient(log);
  const programs = createOwnPrograms(spawner, record);
  const bounds = limits === undefined ? "" : limitsOf(limits);
  const ownEnv: Record<string, string> = {
    HOME: "/tmp",
    TERM: "dumb",
    CI: "1",
    // Otherwise `npm install` would set core.hooksPath of the repository.
    HUSKY: "0",
  };
  const { container } = sandbox;
  const baseEnv: Record<string, string> = {
    ...container?.image.env,
    PATH: container?.image.path ?? "/usr/local/bin:/usr/bin:/bin",
    ...ownEnv,
    ...sandbox.env,
  };
  for (const name of [...keptNames, ...envNames]) {
    if (name === "PATH" && container !== undefined) continue;
    const value = keepEnv[name];
    if (value === undefined || value === "") continue;
    baseEnv[name] = value;
    if (name !== "PATH") ownEnv[name] = value;
  }
  const bash = container?.image.bash ?? findProgram("bash", baseEnv["PATH"] ?? "") ?? "bash";

  const live = new Set<LiveCommand>();
  const { suspects = createSuspects() } = options;
  const closed = (taskID: string) =>
    suspects.closed(taskID, programs.idleMsOf(taskID).length > 0 || [...live].some((entry) => entry.taskID === taskID));
  let serial = 0;
  const markOf = (taskID: string) => `${runID}/${taskID}/`;
  const files = sandbox.wrap === undefined ? markFiles(join(folder, "..", "marks"), runID) : undefined;
  /** Name of the separate sandbox for the service's own programs, where the Task's commands run in an image. */
  const ownApart = "own";
  const boxMark = "box";
  const ownMark = "own";
  /** Matches the marks that are not held: those of sandboxes' own processes, and of the service's programs. */
  const notHeld = /\/(?:box|own[^/]*)$/;
  /** Parent of a sandbox folder per interactive program, kept until the program ends. */
  const talkFolder = join(folder, "..", "sandbox", "talk");
  const homeOf = (taskID: string) => join(folder, "..", "homes", taskID);

  const environments = new Map<string, TaskEnvironment[]>();
  const environmentOf = (taskID: string): TaskEnvironment | undefined =>
    (environments.get(taskID) ?? [...environments].find(([owner]) => isOf(owner, taskID))?.[1])?.at(-1);
  let lists: ReturnType<typeof tryList> | undefined;
  const proxies = createProxies({ log });
  const boxes = createSandboxPool({
    sandbox,
    spawner,
    folder: join(folder, "..", "sandbox"),
    // Variables of an image are for commands only: this is also bubblewrap's own environment.
    // An engine's programs end with the container they watch, and clean up after it: they carry no mark, because
    // nothing must kill them by it.
    env: (taskID, image) =>
      container === undefined
        ? {
            ...(image === undefined ? baseEnv : { PATH: baseEnv["PATH"] ?? "" }),
            LC_ALL: "C",
            SERVICE_RUN_ID: `${markOf(taskID)}${boxMark}`,
          }
        : { ...container.env },
    prelude: [
      ...(sandbox.tier === 2 && !sandbox.network ? [loopbackCommand] : []),
      ...(container === undefined ? [] : [withoutProxies]),
      bounds,
    ].join("\n"),
    paths: (taskID) => environmentOf(taskID)?.paths ?? [],
    proxy: (list) => proxies.socketFor(list),
    isBusy: (taskID, apart) => [...live].some((entry) => entry.taskID === taskID && entry.apart === apart),
    opened: (pid, taskID) => record.add(pid, taskID),
    closed: (pid) => record.remove(pid),
    log,
  });

  const held = createHold({
    boxes,
    live,
    holds: (mark) => mark.startsWith(`${runID}/`) && !notHeld.test(mark),
  });

  /** What to start and where, or why that is impossible: no command runs without the sandbox. */
  const startOf = (
    taskID: string,
    command: Command,
    mark: string,
    place: SandboxPlace | undefined,
    failed: (error: unknown) => void,
  ) => {
    const given = environmentOf(taskID);
    const image = command.own === true ? undefined : given?.image;
    const network = command.network ?? given?.network;
    const through = typeof network === "object" ? proxyEnv : {};
    const usual = image === undefined ? baseEnv : { ...ownEnv, ...image.env, PATH: image.path };
    const own = { ...usual, ...through, ...given?.variables, ...command.env, SERVICE_RUN_ID: mark };
    // The service's own programs, too, are looked up where the machine has them.
    const env = container === undefined ? own : { ...own, PATH: (image ?? container.image).path };
    const start = {
      file: image?.bash ?? bash,
      args: ["-c", command.run],
      cwd: command.cwd,
      env,
      ...(files === undefined ? {} : { markFile: markFileOf(files, mark) }),
    };
    if (sandbox.wrap === undefined)
      return bounds === "" ? start : { ...start, args: ["-c", `${bounds}\nexec "$0" -c "$1"`, bash, command.run] };
    if (place === undefined) return "Expected the folder of a Task to open its sandbox around, got none.";
    try {
      const real = realpathSync(command.cwd);
      const cwd = sandbox.tier === 1 ? insideOf(place, real) : real;
      if (cwd === undefined) return `Expected a folder inside ${place.at}, got ${real}.`;
      const { apart, unheld, fresh = false } = command;
      return { ...start, cwd, fresh, box: boxes.use(taskID, place, { network, apart, unheld, image }) };
    } catch (error) {
      failed(error);
      return messageOf(error);
    }
  };

  const run = async (taskID: string, asked: Command, place?: SandboxPlace): Promise<CommandResult> => {
    const beside = asked.own === true && asked.apart === undefined && environmentOf(taskID)?.image !== undefined;
    const command = beside ? { ...asked, apart: ownApart } : asked;
    const unheld = command.unheld === true;
    if (!unheld) await held.over(command.signal);
    const mark = `${markOf(taskID)}${unheld ? `${ownMark}-` : ""}${(serial += 1)}`;
    suspects.add(taskID);
    let problem: unknown;
    const start = () => startOf(taskID, command, mark, place, (error) => (problem = error));
    try {
      const ran = await runCommand({ taskID, mark, command, start }, { spawner, record, live, files, log });
      if (ran.ended !== "not-started" || unheld || !isFull(problem)) return ran;
      options.full?.(problem);
      if (!held.isHeld()) return ran;
    } finally {
      const { apart } = command;
      // The service's own programs run often; their sandbox stays open until the Task's is closed.
      if (
        apart !== undefined &&
        apart !== ownApart &&
        ![...live].some((entry) => entry.taskID === taskID && entry.apart === apart)
      )
        await boxes.shut(taskID, apart);
      // No run of the Task will come to forget it.
      if (unheld) closed(taskID);
    }
    return run(taskID, asked, place);
  };

  const canLimit = async (network: Network): Promise<boolean> => {
    if (typeof network === "object") return (await (lists ??= tryList(sandbox, baseEnv["PATH"] ?? ""))).ok;
    return network || sandbox.tier === 1 || !sandbox.network;
  };

  const talk = async (
    taskID: string,
    root: string,
    { run: command, env, home, network, signal }: InteractiveCommand,
    place?: SandboxPlace,
  ): Promise<InteractiveProcess> => {
    await held.over(signal);
    const through = typeof network === "boolean" ? undefined : network;
    if (through !== undefined && !(await canLimit(through)))
      throw new Error(`The sandbox of this machine cannot keep a program to ${through.join(", ")}`);
    const mark = `${markOf(taskID)}${(serial += 1)}`;
    const passing = join(folder, "..", "tmp", mark.slice(runID.length + 1).replaceAll("/", "-"));
    const ownHome = home === "passing" ? passing : (home ?? homeOf(taskID));
    await mkdir(ownHome, { recursive: true, mode: 0o700 });
    suspects.add(taskID);
    const start = {
      file: bash,
      // Standard input is a socket, for which bash would otherwise read ~/.bashrc.
      args: ["--norc", "-c", command],
      cwd: root,
      env: {
        ...baseEnv,
        HOME: ownHome,
        ...(through === undefined ? {} : proxyEnv),
        ...environmentOf(taskID)?.variables,
        ...env,
        SERVICE_RUN_ID: mark,
      },
    };
    const own = join(talkFolder, mark.slice(runID.length + 1).replaceAll("/", "-"));
    if (sandbox.wrap !== undefined) await mkdir(own, { recursive: true, mode: 0o700 });
    const line = container === undefined ? undefined : await createLifeline(own);
    if (container !== undefined) writeFileSync(join(own, "env"), exportsOf(start.env), { mode: 0o600 });
    const seen = place === undefined || sandbox.tier !== 1 ? root : (insideOf(place, root) ?? root);
    const argv = sandbox.wrap?.({
      place: place ?? { tree: root, at: root, under: () => [], over: () => [] },
      folder: own,
      cwd: seen,
      paths: environmentOf(taskID)?.paths ?? [],
      network: typeof network === "boolean" ? network : { socket: proxies.socketFor(network) },
      extra: [{ kind: "rw", from: ownHome, to: ownHome }],
      // The shell does not `exec` the command: as process 1 it must also reap orphaned processes.
      command: (io) =>
        container === undefined
          ? ["-c", `${closeOthers}\n"$0" -c "$1"; exit $?`, bash, command]
          : ["-c", lineScript(io), bash, command],
    });
    const [file = "", ...args] = argv === undefined ? [start.file, ...start.args] : (place?.around?.(argv) ?? argv);
    const markFile = files && markFileOf(files, mark);
    const opened = container === undefined ? start : { ...start, cwd: "/", env: { ...container.env } };
    return startInteractive({ ...opened, file, args, filter: sandbox.filter, markFile, line }, seen, signal, {
      started(pid) {
        suspects.talkBegan(pid, taskID);
        record.add(pid, taskID);
      },
      async ended(pid) {
        await killMarked((found) => found === mark, { files });
        for (const path of [own, passing])
          await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
        if (pid === undefined) return;
        record.remove(pid);
        suspects.talkEnded(pid);
      },
    });
  };

  const interrupt = (taskID: string): void => {
    for (const entry of live) if (isOf(taskID, entry.taskID)) entry.stop();
    programs.end((other) => isOf(taskID, other), false);
  };

  const killAll = async (taskID: string): Promise<number[]> => {
    if (!suspects.has(taskID)) return [];
    programs.end((other) => other === taskID, true);
    const groups = [...live].filter((entry) => entry.taskID === taskID);
    for (const entry of groups) entry.stop();
    await Promise.all(groups.map(({ gone }) => gone));
    const held = groups.length > 0 ? boxes.pidsOf(taskID) : [];
    await boxes.shut(taskID);
    const strays = await killMarked((mark) => mark.startsWith(markOf(taskID)), { files });
    suspects.clear(taskID);
    return [...groups.flatMap(({ pid }) => (pid === undefined ? [] : [pid])), ...held, ...strays];
  };

  const images =
    options.images &&
    createImages({
      folder: join(folder, "..", "images"),
      env: keepEnv,
      runEngine: runThrough(programs.tracker("service", { SERVICE_RUN_ID: `${markOf("service")}${ownMark}` })),
      run: (command, place) => run("images", command, place),
      async test(image) {
        const tried = await selfTest(sandbox, baseEnv["PATH"] ?? "", image);
        return tried.ok ? tried.unfiltered : tried.why;
      },
      log,
      ...options.images,
    });

  return {
    tier: sandbox.tier,
    refusesSetID: sandbox.filter !== undefined,
    run,
    startInteractive: talk,
    prepareSandbox(taskID, place) {
      if (sandbox.wrap === undefined) return;
      suspects.add(taskID);
      try {
        const { network, image } = environmentOf(taskID) ?? {};
        boxes.use(taskID, place, { network, image });
      } catch (error) {
        // The command that needs the sandbox will report the error.
        log.debug({ taskID, error: messageOf(error) }, "no sandbox was made ahead");
      }
    },
    canLimit,
    refusesPath: (path) => sandbox.refuses?.(path),
    setEnvironment(taskID, environment) {
      if (environment !== undefined) environments.set(taskID, [...(environments.get(taskID) ?? []), environment]);
      return {
        [Symbol.dispose]() {
          const left = (environments.get(taskID) ?? []).filter((one) => one !== environment);
          if (left.length === 0) environments.delete(taskID);
          else environments.set(taskID, left);
        },
      };
    },
    program: (name) => sandbox.programs[name],
    finds(taskID, name) {
      const image = environmentOf(taskID)?.image;
      const system = image ?? container?.image;
      return system === undefined ? findProgram(name, baseEnv["PATH"] ?? "") !== undefined : hasProgram(system, name);
    },
    async openImage(reference) {
      if (images === undefined)
        throw new Error(
          `Commands are to run in the image ${reference}, which is an experiment: sandbox.containers in the configuration is not "experimental".`,
        );
      if (sandbox.tier !== 1)
        throw new Error(
          `Commands are to run in the image ${reference}, which takes bubblewrap (tier 1), and this is tier ${sandbox.tier}.`,
        );
      return container === undefined ? images.open(reference) : container.openImage(reference);
    },
    pathInSandbox: (place, path) => (sandbox.tier === 1 ? (insideOf(place, path) ?? path) : path),
    hold: held.set,
    homeOf,
    async closeSandboxes(taskID) {
      await boxes.shut(taskID);
      closed(taskID);
    },
    track(taskID) {
      const tracker = programs.tracker(taskID, { SERVICE_RUN_ID: `${markOf(taskID)}${ownMark}` });
      return {
        start(...what) {
          suspects.add(taskID);
          return tracker.start(...what);
        },
      };
    },
    interrupt,
    isStalled(taskID) {
      const commands = [...live].filter((entry) => entry.taskID === taskID).map(({ idleMs }) => idleMs?.() ?? 0);
      const idle = [...commands, ...programs.idleMsOf(taskID)];
      return idle.length > 0 && idle.every((ms) => ms > stalledMs);
    },
    killAll,
    async endLeftovers() {
      await container?.sweep();
      const killed = await endRecordedGroups(folder, record.name, log);
      const own = new Set([...live].map(({ mark }) => mark));
      const taskOf = (mark: string) => mark.slice(runID.length + 1).split("/")[0] ?? "";
      await killMarked((mark) => mark.startsWith(`${runID}/`) && !own.has(mark), {
        files: files && { ...files, since: 0 },
        onKill: (pid, mark) => killed.set(taskOf(mark), [...(killed.get(taskOf(mark)) ?? []), pid]),
      });
      // The folder holds environments of programs, with their secrets.
      await rm(talkFolder, { recursive: true, force: true, maxRetries: 3 }).catch((error: unknown) => {
        log.warn({ path: talkFolder, error: messageOf(error) }, "leftovers could not be removed");
      });
      return killed;
    },
    async stop() {
      const tasks = new Set([...live].map(({ taskID }) => taskID));
      await Promise.race([Promise.all([...tasks].map(killAll)), wait(5000)]);
      programs.end(() => true, false);
      // Programs that write the user's repository may finish, which takes milliseconds.
      for (const until = performance.now() + 5000; programs.count() > 0 && performance.now() < until; ) await wait(5);
      programs.end(() => true, true);
      await boxes.shutAll();
      proxies.close();
      spawner.close();
      record.close();
    },
  };
};
