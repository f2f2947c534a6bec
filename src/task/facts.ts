import { readGuide } from "../agent/guide.ts";
import { detectProject } from "../check/detect.ts";
import { messageOf } from "../errors.ts";
import type { Facts } from "../model/model.ts";
import { findSkills } from "../tool/skill.ts";
import { createFiles, type Files } from "../workspace/files.ts";
import type { Run } from "./open.ts";

/** What is found out about a Task's project when a run begins: of its own tree, or of what that will be made from. */
export const factsOf = async (run: Run): Promise<Facts> => {
  const { checks, directory, workspace } = run.state();
  const inTree = workspace?.worktree ?? undefined;
  const root = (inTree === undefined ? undefined : open(workspace?.root)) ?? open(directory);
  if (root === undefined) return { checks, detected: {} };
  const { git } = await run.workspaces.inspect(directory).catch(() => ({ git: undefined }));
  const top = (root.root === directory ? open(git?.toplevel) : open(inTree)) ?? root;
  const [{ detected, project }, guide, skills] = await Promise.all([
    detectProject(root, top),
    readGuide(root, top),
    findSkills(root, (why) => run.log.warn({ task: run.stream, why }, "a skill of the project cannot be used")),
  ]);
  return {
    checks,
    detected,
    project: { ...project, skills, ...(guide === undefined ? {} : { guide }) },
  };

  function open(path: string | undefined): Files | undefined {
    try {
      return path === undefined ? undefined : createFiles(path);
    } catch (error) {
      run.log.debug({ task: run.stream, error: messageOf(error) }, "not there");
      return undefined;
    }
  }
};
