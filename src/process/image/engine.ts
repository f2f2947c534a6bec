import type { Machine } from "../sandbox/sandbox.ts";
import { findProgram } from "../sandbox/sandbox.ts";

/** podman or docker, as a source of images; for that, no container is started. */

export type Engine = { name: "podman" | "docker"; file: string };

/** Runs a program on this machine. `error` is empty if the program exited with 0. */
export type RunEngine = (
  argv: readonly string[],
  env: Record<string, string>,
) => Promise<{ output: string; error: string }>;

/**
 * The variables of the service's environment that an engine uses: where it keeps its images, and where its daemon is.
 */
const names =
  /^(?:HOME|USER|LOGNAME|PATH|LANG|TMPDIR|XDG_.*|DOCKER_.*|CONTAINERS?_.*|REGISTRY_AUTH_FILE|DBUS_SESSION_BUS_ADDRESS)$/;

export const engineEnv = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => names.test(entry[0]) && entry[1] !== undefined),
  );

const engines = ["podman", "docker"] as const;

/** The first engine that answers; or why there is none, with the remedy. */
export const findEngine = async (
  env: NonNullable<Machine["env"]>,
  run: RunEngine,
): Promise<Engine | { why: string }> => {
  const problems: string[] = [];
  for (const name of engines) {
    const file = findProgram(name, env["PATH"] ?? "");
    if (file === undefined) continue;
    const { error } = await run([file, "image", "ls", "--quiet"], engineEnv(env));
    if (error === "") return { name, file };
    problems.push(`${file} does not answer (${error.split("\n").at(-1)?.slice(0, 300)})`);
  }
  const why = problems.length === 0 ? "neither podman nor docker is on PATH" : problems.join("; ");
  return { why: `${why}. Install podman (Debian, Ubuntu: apt install podman), or start docker` };
};

/** For all variables of an image together: each command is started with them. */
const mostCharacters = 64 * 1024;
/** Each program is searched for in all folders of the PATH. */
const mostFolders = 64;

const problemOf = (given: readonly string[]): string | undefined => {
  const all = given.join("\n");
  if (all.length > mostCharacters) return `sets variables of more than ${mostCharacters} characters`;
  if (all.includes("\0")) return "sets a variable with the character NUL, which no program can be given";
  const path = given.find((line) => line.startsWith("PATH=")) ?? "";
  return path.split(":").length > mostFolders ? `has more than ${mostFolders} folders on its PATH` : undefined;
};

export type Inspected = { id: string; env: string[]; bytes: number };

/** The engine's image of this name; or why there is none, or none for this machine. */
export const inspectImage = async (
  { file }: Engine,
  reference: string,
  env: NonNullable<Machine["env"]>,
  run: RunEngine,
): Promise<Inspected | { why: string }> => {
  const { output, error } = await run([file, "image", "inspect", reference], engineEnv(env));
  if (error !== "") return { why: `there is no image ${reference} on this machine: ${file} pull ${reference}` };
  try {
    const [{ Id: id, Config: config, Os: os, Architecture: arch, Size: bytes }] = JSON.parse(output) as [
      { Id: string; Config?: { Env?: string[] | null } | null; Os: string; Architecture: string; Size: number },
    ];
    const here = { x64: "amd64", arm64: "arm64" }[process.arch as string] ?? process.arch;
    if (os !== "linux" || arch !== here)
      return { why: `the image ${reference} is for ${os}/${arch}, not linux/${here}` };
    const [, hex] = /^(?:sha256:)?([0-9a-f]{64})$/.exec(id) ?? [];
    if (hex === undefined) return { why: `the id of the image ${reference} is no SHA-256 (${id.slice(0, 100)})` };
    const given = config?.Env ?? [];
    const problem = problemOf(given);
    return problem === undefined ? { id: hex, env: given, bytes } : { why: `the image ${reference} ${problem}` };
  } catch {
    return { why: `${file} says of the image ${reference} what cannot be read` };
  }
};
