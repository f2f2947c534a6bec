import { arch, platform } from "node:os";
import { readGuide } from "../../agent/prompt/project-guide.ts";
import { ownChecks } from "../../check/project/own-check.ts";
import { detectProject } from "../../check/project/detect.ts";
import { messageOf } from "../../error.ts";
import type { Facts } from "../../model/model.ts";
import type { CheckSpec } from "../../protocol/check.ts";
import { findSkills } from "../../tool/task/skill.ts";
import { createFiles, type Files } from "../../workspace/file/files.ts";
import type { Run } from "../run.ts";

/**
 * What is known of a Task's project when a run begins. It is read in the user's directory, which the Task's work does
 * not change before it lands, so that the next run gives the agents the same facts.
 */
export const factsOf = async (run: Run): Promise<Facts & { own: CheckSpec[] }> => {
  const { checks, directory, productPillar: pillar, isolation, unchecked } = run.state();
  const root = filesAt(run, directory);
  if (root === undefined) return { checks, pillar, detected: {}, own: [] };
  const { git } = await run.workspaces.inspect(directory).catch(() => ({ git: undefined }));
  const about = aboutOf(run, git?.head ?? null);
  const top = filesAt(run, git?.toplevel) ?? root;
  const [{ detected, project, named }, guide, skills] = await Promise.all([
    detectProject(root, top),
    readGuide(root, top),
    findSkills(root, (why) => run.log.warn({ task: run.stream, why }, "a skill of the project cannot be used")),
  ]);
  const seconds = isolation === "directory" || unchecked ? 0 : run.limits.projectCheckSeconds;
  const own = ownChecks(checks, detected, seconds);
  return {
    checks,
    pillar,
    about,
    detected,
    named,
    own,
    project: { ...project, skills, ...(guide === undefined ? {} : { guide }) },
  };
};

/** What agents would else find out by trying. */
const aboutOf = ({ state, limits, sandbox }: Run, head: string | null): string[] => {
  const { createdAt, isolation } = state();
  const { commandSeconds, commandMaxSeconds } = limits;
  return [
    `Begun on ${createdAt.slice(0, 10)}, on ${platform()} (${arch()}). A command is run by bash, ${sandbox.network ? "with" : "without"} a network, and may take ${commandSeconds} s; \`timeoutSeconds\` gives it up to ${commandMaxSeconds} s.`,
    ...(isolation === "worktree" && head !== null
      ? [`It begins at commit ${head.slice(0, 12)}, with what the user had not committed.`]
      : []),
    "Of several calls in one reply, those that only read run side by side, the others one after another in your order.",
  ];
};

const filesAt = (run: Run, path: string | undefined): Files | undefined => {
  try {
    return path === undefined ? undefined : createFiles(path);
  } catch (error) {
    run.log.debug({ task: run.stream, error: messageOf(error) }, "the project's files are not there");
    return undefined;
  }
};
