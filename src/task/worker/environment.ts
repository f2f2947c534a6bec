import type { DomainEvent } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import { parseJsonc } from "../../json.ts";
import type { Network } from "../../process/network/allow-list.ts";
import {
  devcontainerFile,
  environmentFile,
  type EnvironmentSettings,
  environmentSettings,
  type NetworkSetting,
} from "../../protocol/task/environment.ts";
import { keepText, loadJSON } from "../../store/blob/text.ts";
import { EnvironmentLost } from "../../workspace/error.ts";
import type { Environment, Setup } from "../environment.ts";
import type { Run, RunDeps } from "../run.ts";
import { readDevcontainer } from "./devcontainer.ts";
import { readProjectFile } from "./project-request.ts";

/**
 * What a project's commands get in addition to its files: what the operator has configured, otherwise what the
 * project's own file asks for, if the operator has granted exactly that file.
 */

/** The settings that a file asks for, or why they are invalid. */
export const readEnvironment = (text: string): EnvironmentSettings | { problem: string } => {
  const { value, problem } = parseJsonc(text);
  if (problem !== undefined) return { problem: `it is no JSON: ${problem}` };
  const read = environmentSettings.safeParse(value);
  if (!read.success) {
    const [issue] = read.error.issues;
    return { problem: `${issue?.path.join(".") || "the file"}: ${issue?.message}` };
  }
  const twice = (read.data.secrets ?? []).find((name) => Object.hasOwn(read.data.variables ?? {}, name));
  return twice === undefined ? read.data : { problem: `${twice} is both a variable and a secret` };
};

type Given = (DomainEvent & { type: "environment.given" })["data"];

/** The event to record at the beginning of an attempt; none when the log has it already. */
export const environmentEvents = async (
  deps: Pick<RunDeps, "store" | "granted" | "environments">,
  state: TaskState,
): Promise<DomainEvent[]> => {
  if (state.attemptStartedAt !== null || state.cancel !== null) return [];
  const data = await look(deps, state);
  return data === null ? [] : [{ type: "environment.given", data }];
};

const look = async (
  { store, granted, environments }: Pick<RunDeps, "store" | "granted" | "environments">,
  { directory, project, repository, environment: before }: TaskState,
): Promise<Given | null> => {
  const own = environments.of(directory);
  const none = { variables: [], secrets: [], network: null, setup: null, settings: "{}" };
  const told = async (
    settings: EnvironmentSettings,
    about: Pick<Given, "from" | "digest" | "granted">,
  ): Promise<Given | null> => {
    const kept = await keepText(store.blobs, JSON.stringify(settings));
    if (
      before?.from === about.from &&
      before.digest === about.digest &&
      before.granted === about.granted &&
      JSON.stringify(before.settings) === JSON.stringify(kept)
    )
      return null;
    return {
      ...about,
      settings: kept,
      variables: Object.keys(settings.variables ?? {}),
      secrets: [...(settings.secrets ?? [])],
      network: settings.network ?? null,
      setup: settings.setup ?? null,
      ...(settings.image === undefined ? {} : { image: settings.image }),
      problem: null,
    };
  };
  if (own !== undefined) return told(own, { from: "operator", digest: "", granted: true });
  let problem: string | undefined;
  // Anyone with push access can change the files of a repository by address, so there is no file to grant.
  const found =
    repository !== null
      ? undefined
      : await readAsked(directory, environments).catch((error: unknown) => {
          problem = messageOf(error);
          return undefined;
        });
  if (found === undefined && problem === undefined)
    return before === null || !before.granted
      ? null
      : { ...none, from: before.from, digest: "", granted: false, problem: "it no longer exists" };
  const { digest, file } = found ?? { digest: "", file: environmentFile };
  const settings = found === undefined ? { problem: problem ?? "" } : found.asked;
  if ("problem" in settings) {
    if (before?.digest === digest && !before.granted) return null;
    return { ...none, from: "project", digest, granted: false, problem: settings.problem };
  }
  return told(settings, { from: "project", digest, granted: granted(project, digest, file) });
};

/**
 * The file with which a project asks for an environment, and its settings; undefined: it has no such file. Rejects with
 * `FileRefused`.
 */
export const readAsked = async (
  directory: string,
  { containers }: Pick<RunDeps["environments"], "containers">,
): Promise<
  | {
      file: typeof environmentFile | typeof devcontainerFile;
      digest: string;
      asked: ReturnType<typeof readEnvironment>;
    }
  | undefined
> => {
  const own = await readProjectFile(directory, environmentFile);
  if (own !== undefined) return { file: environmentFile, digest: own.digest, asked: readEnvironment(own.text) };
  const others = containers ? await readProjectFile(directory, devcontainerFile) : undefined;
  return others && { file: devcontainerFile, digest: others.digest, asked: readDevcontainer(others.text) };
};

/**
 * The environment that a project has now, for work outside of Tasks; undefined: none. Rejects with `EnvironmentLost`.
 */
export const environmentNow = async (
  deps: Parameters<typeof realize>[0] & Pick<RunDeps, "granted">,
  { directory, project, repository }: Pick<TaskState, "directory" | "project"> & { repository: object | null },
): Promise<Awaited<ReturnType<typeof realize>> | undefined> => {
  const own = deps.environments.of(directory);
  if (own !== undefined) return realize(deps, own);
  if (repository !== null) return undefined;
  const found = await readAsked(directory, deps.environments).catch(() => undefined);
  if (found === undefined || !deps.granted(project, found.digest, found.file)) return undefined;
  return "problem" in found.asked ? undefined : realize(deps, found.asked);
};

export const networkOf = (setting: NetworkSetting | undefined): Network | undefined =>
  setting === undefined ? undefined : setting === "all" ? true : setting === "none" ? false : setting;

export const noEnvironment: Environment = { variables: {}, secrets: {}, paths: [], network: undefined, shell: [] };

/**
 * Turns settings into an environment on this machine. Rejects with `EnvironmentLost` when the machine lacks what they
 * need.
 */
export const realize = async (
  {
    environments,
    processes,
    setup: usual,
  }: Pick<RunDeps, "environments" | "setup"> & {
    processes: Pick<RunDeps["processes"], "canLimit" | "refusesPath" | "openImage">;
  },
  settings: EnvironmentSettings & { shell?: readonly string[] | undefined },
): Promise<{ environment: Environment; setup: Setup | undefined }> => {
  const network = networkOf(settings.network);
  const setupNetwork = networkOf(settings.setupNetwork);
  for (const wanted of [network, setupNetwork])
    if (wanted !== undefined && !(await processes.canLimit(wanted)))
      throw new EnvironmentLost(
        `The project's environment keeps commands to ${typeof wanted === "object" ? wanted.join(", ") : "no network"}, which the sandbox of this machine cannot.`,
      );
  for (const path of settings.paths ?? []) {
    const why = processes.refusesPath(path);
    if (why !== undefined)
      throw new EnvironmentLost(`The project's environment lets commands read ${path}, which they cannot: ${why}.`);
  }
  const secrets = await environments.secrets(settings.secrets ?? []);
  const image =
    settings.image === undefined
      ? undefined
      : await processes.openImage(settings.image).catch((error: unknown) => {
          throw new EnvironmentLost(messageOf(error));
        });
  const { setup: own, variables = {}, shell = [], paths = [], diagnostics } = settings;
  const base: Setup | undefined = own === undefined ? usual : { run: own, network: undefined };
  return {
    environment: { variables, secrets, paths, network, shell, diagnostics, image },
    setup: base && { run: base.run, network: setupNetwork ?? base.network, env: secrets },
  };
};

/**
 * The environment of an active or ended Task's commands, as it was at the beginning of its attempt; undefined: none.
 * Rejects with `EnvironmentLost` when this machine lacks what it needs.
 */
export const environmentOf = async (
  deps: Parameters<typeof realize>[0] & Pick<RunDeps, "granted"> & { store: Pick<RunDeps["store"], "blobs"> },
  { environment: known, project, directory }: Pick<TaskState, "environment" | "project" | "directory">,
): Promise<(Awaited<ReturnType<typeof realize>> & { limits: Partial<Run["limits"]> }) | undefined> => {
  if (known?.granted !== true) return undefined;
  const own = known.from === "operator" ? deps.environments.of(directory) : undefined;
  // A grant that was withdrawn, or an entry that was removed, ends at the next run.
  const isGranted = (file: string) => deps.granted(project, known.digest, file);
  const holds = known.from === "operator" ? own !== undefined : [environmentFile, devcontainerFile].some(isGranted);
  if (!holds) return undefined;
  const settings =
    own ?? (environmentSettings.parse(await loadJSON(deps.store.blobs, known.settings)) satisfies EnvironmentSettings);
  return { ...(await realize(deps, settings)), limits: defined(settings.limits ?? {}) };
};

/** Gives the run its environment, until the result is disposed. Rejects like `environmentOf`. */
export const applyEnvironment = async (run: Run): Promise<Disposable | undefined> => {
  const given = run.state().cancel === null ? await environmentOf(run, run.state()) : undefined;
  if (given === undefined) return undefined;
  run.environment = given.environment;
  run.setup = given.setup;
  run.limits = { ...run.limits, ...given.limits };
  return run.processes.setEnvironment(run.stream, given.environment);
};

/** Leaves out limits that are undefined. */
const defined = (limits: NonNullable<EnvironmentSettings["limits"]>): Partial<Run["limits"]> =>
  Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined));
