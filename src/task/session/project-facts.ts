import { arch, platform } from "node:os";
import { readGuide } from "../../agent/prompt/project-guide.ts";
import { ownChecks } from "../../check/project/own-check.ts";
import { detectProject } from "../../check/project/detect.ts";
import { type HasProgram, installedAt } from "../../check/project/installed.ts";
import { messageOf } from "../../error.ts";
import type { Network } from "../../process/network/allow-list.ts";
import type { Facts } from "../../model/model.ts";
import { causeOf, isRed, isInconclusive } from "../../domain/evidence/check.ts";
import { type CheckSpec, isRun, type RunCheck } from "../../protocol/check.ts";
import type { KeptResult } from "../../store/check-result.ts";
import { WorkspaceLost } from "../../workspace/error.ts";
import { commonDirOf } from "../../repository/repository.ts";
import { findSkills } from "../../tool/task/skill.ts";
import { createFiles, type Files } from "../../workspace/file/files.ts";
import type { Run } from "../run.ts";
import { projectKey } from "./check-key.ts";

/**
 * What is known of a Task's project when a run begins. It is read from the user's directory, which the Task's work does
 * not change before it lands, so that the next run gives the agents the same facts. A Task that lands on a branch which
 * need not be checked out reads the files of the commit at which it begins.
 */
export const projectFactsOf = async (run: Run): Promise<Facts & { own: CheckSpec[]; doubted: string[] }> => {
  const { checks, productPillar: pillar, isolation, unchecked } = run.state();
  const read = await inProject(run, async (root, top, users) => ({
    about: aboutOf(run, users.base),
    facts: await Promise.all([
      // Installed programs are not committed: they are looked up in the user's files, like the Task's dependencies.
      detectProject(root, top, hasProgram(run, users.root, users.top)),
      readGuide(root, top),
      findSkills(root, (why) => run.log.warn({ task: run.stream, why }, "a skill of the project cannot be used")),
      isolation === "worktree" ? installedAt(users.root, run.workspaces.installs) : [],
    ]),
  }));
  if (read === undefined) return { checks, pillar, detected: {}, own: [], doubted: [] };
  const { about, facts } = read;
  const [{ detected, missing, project, named }, guide, skills, installed] = facts;
  const seconds = isolation === "directory" || unchecked ? 0 : run.limits.projectCheckSeconds;
  const own = ownChecks(checks, detected, seconds);
  const before = lastOnBase(run, own);
  return {
    checks,
    pillar,
    about,
    detected,
    blocked: {
      ...wordsOf(before.filter(({ found }) => isInconclusive(found))),
      ...Object.fromEntries(
        Object.entries(missing).map(([kind, program]) => [kind, `${program} is not installed here`]),
      ),
    },
    red: wordsOf(before.filter(({ found }) => isRed(found))),
    named,
    own,
    doubted: before.flatMap(({ spec, found }) => (found.unfinished === true ? [spec.id] : [])),
    project: { ...project, installed, skills, ...(guide === undefined ? {} : { guide }) },
  };
};

/**
 * The commit at which the Task begins. With a branch of its Mission's own, that is not the head of the user's
 * directory.
 */
const baseOf = async (run: Run, head: string | null): Promise<string | null> => {
  const { workspace, landed, onto } = run.state();
  if (workspace?.kind === "worktree" && landed === null) return workspace.snapshot?.head ?? workspace.baseCommit;
  return onto === null ? head : run.workspaces.branches(commonDirOf(run.repositories, run.state())).headOf(onto);
};

/** The project's own conventions, as agents are told them. */
export const guideOf = (run: Run): ReturnType<typeof readGuide> => inProject(run, (root, top) => readGuide(root, top));

/** The user's own files, and the commit at which the Task begins; null: there is none. */
type Users = { root: Files; top: Files; base: string | null };

/**
 * Calls `read` with the project's files as the Task begins with them: `root` is the project's folder, `top` its
 * repository's. Resolves to undefined when the user's directory is gone.
 */
const inProject = async <T>(
  run: Run,
  read: (root: Files, top: Files, users: Users) => Promise<T>,
): Promise<T | undefined> => {
  const { directory, onto, sessions } = run.state();
  const root = filesAt(run, directory);
  if (root === undefined) return undefined;
  const { git } = await run.workspaces.inspect(directory).catch(() => ({ git: undefined }));
  const top = filesAt(run, git?.toplevel) ?? root;
  const base = await baseOf(run, git?.head ?? null);
  const users = { root, top, base };
  const key = sessions[0]?.sessionID;
  if (onto === null || git === undefined || base === null || key === undefined) return read(root, top, users);
  try {
    // The branch may be gone by now. The next step that needs the Task's files reports that.
    const head = await run.workspaces.openHead({ key, directory, commit: base }).catch((error: unknown) => {
      if (error instanceof WorkspaceLost) return undefined;
      throw error;
    });
    if (head === undefined) return await read(root, top, users);
    const { files } = head;
    const below = git.prefix === "" ? 0 : git.prefix.length + 1;
    const above = filesAt(run, files.root.slice(0, files.root.length - below));
    const folder = filesAt(run, files.root);
    if (folder === undefined) return await read(root, top, users);
    return await read(folder, above ?? folder, users);
  } finally {
    await run.workspaces.closeHead(key);
  }
};

/** `stream`: the Task whose commands are meant; absent: none yet. */
export type Machine = { setup: Run["setup"]; processes: Pick<Run["processes"], "finds">; stream?: Run["stream"] };

/**
 * Whether a program is on the commands' PATH or among the project's own tools. With an operator's setup every program
 * counts as present, because what the setup installs is not known beforehand.
 */
export const hasProgram =
  ({ setup, processes, stream = "" }: Machine, root: Files, top: Files): HasProgram =>
  async (name) => {
    if (setup !== undefined || processes.finds(stream, name)) return true;
    const places = [`node_modules/.bin/${name}`, `.venv/bin/${name}`];
    const found = await Promise.all(
      [...new Set([root, top])].flatMap((files) =>
        places.map((path) =>
          files.stat(path).then(
            (entry) => entry !== undefined,
            // A link counts as present; its target is not examined.
            () => true,
          ),
        ),
      ),
    );
    return found.includes(true);
  };

type Before = { spec: RunCheck; found: KeptResult };

/**
 * The last results of these checks on this project before a change, found by any Task. Nothing is kept of checks that
 * passed.
 */
const lastOnBase = (run: Run, own: readonly CheckSpec[]): Before[] =>
  own.filter(isRun).flatMap((spec) => {
    const found = run.checkResults.find(projectKey(run, spec));
    return found === undefined ? [] : [{ spec, found }];
  });

const wordsOf = (before: readonly Before[]): Record<string, string> =>
  Object.fromEntries(
    before.map(({ spec, found }) => [spec.kind, `${causeOf(found)} when it last ran here, before a change`]),
  );

/** Facts that agents would otherwise find out by trying. */
const aboutOf = (
  { state, limits, sandbox, environment: { network = sandbox.network } }: Run,
  head: string | null,
): NonNullable<Facts["about"]> => {
  const { createdAt, isolation } = state();
  const { commandSeconds, commandMaxSeconds } = limits;
  return [
    {
      all: `Begun on ${createdAt.slice(0, 10)}, on ${platform()} (${arch()}).`,
      commands: `Commands run in bash, ${networkWords(network)}, for ${commandSeconds} s; \`timeoutSeconds\` gives one up to ${commandMaxSeconds} s.`,
    },
    ...(isolation === "worktree" && head !== null ? [{ all: `It begins at commit ${head.slice(0, 12)}.` }] : []),
    { all: "Calls of one reply that only read run side by side, the others in your order." },
  ];
};

const networkWords = (network: Network): string =>
  typeof network === "boolean"
    ? `${network ? "with" : "without"} a network`
    : `with a network of these hosts only, by http and https through the proxy that HTTPS_PROXY names: ${network.join(", ")}`;

export const filesAt = (run: Pick<Run, "stream" | "log">, path: string | undefined): Files | undefined => {
  try {
    return path === undefined ? undefined : createFiles(path);
  } catch (error) {
    run.log.debug({ task: run.stream, error: messageOf(error) }, "the project's files are not there");
    return undefined;
  }
};
