import type { EventData } from "../../protocol/event/event.ts";
import { readRules } from "../../task/worker/project-rules.ts";
import { NoFiles } from "../../tool/tool.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { taskDirectory } from "../repository.ts";
import type { MissionRun } from "../run.ts";
import { isLook } from "../tool/read-tools.ts";

/** What the calls of a Mission's agent can see of the project's files. */

type ProjectRules = Pick<EventData["permissions.read"], "deny" | "ask">;

/** A placeholder: most tools of a Mission touch no files. */
const nowhere = { root: "", inside: "", files: { inside: (path: string) => path } } as unknown as Workspace;

/** `rules`: what the project's own file denies agents or has them ask for, as read when the agent begins to work. */
export const projectFiles = async (
  run: MissionRun,
): Promise<{ rules: ProjectRules | null; workspace: (tool?: string) => Promise<Workspace> }> => {
  const read = await readRules(taskDirectory(run));
  const problem = "problem" in read ? read.problem : undefined;
  const [event] = "problem" in read ? [] : read;
  return {
    rules: event?.type === "permissions.read" ? event.data : null,
    async workspace(tool) {
      if (!isLook(tool)) return nowhere;
      // What the unreadable file would forbid is unknown, so nothing is shown.
      if (problem !== undefined) throw new NoFiles(problem);
      return { ...nowhere, ...(await run.head()).files };
    },
  };
};
