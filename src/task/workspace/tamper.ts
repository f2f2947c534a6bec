import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TaskState } from "../../domain/state/task.ts";
import type { Log } from "../../log.ts";
import { nestedGits } from "../../workspace/git/nested.ts";
import { createTamperGuard, type Tampered } from "../../workspace/tamper/guard.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/** Watches the user's repository while commands run that an agent called, or that run what an agent wrote. */

type Place = Pick<Workspace, "run"> & Partial<Pick<Workspace, "startInteractive">>;

/** Bytes of JSON: the event, and the Task's failure that repeats it, have to stay below 64 KiB. */
const mostTold = 24 * 1024;

/** Lists files that could not be restored first; those that do not fit go to the log. */
const told = (taskID: string, files: readonly Tampered[], log: Log): Tampered[] => {
  const sorted = files.toSorted((one, other) => Number(one.restored) - Number(other.restored));
  let left = mostTold;
  const kept = sorted.filter((file) => (left -= JSON.stringify(file).length) >= 0);
  if (kept.length < files.length)
    log.warn({ task: taskID, files: sorted.slice(kept.length, kept.length + 1000) }, "tampered with, too");
  return kept;
};

/**
 * After each command, compares the files from which git takes orders, and calls `found` with those that changed. In
 * tier 1 these are the files in the directory of a Task that works in place, without the Git directory; in other tiers,
 * all.
 */
export const guardCommands = <P extends Place>(
  place: P,
  { taskID, project, workspace }: Pick<TaskState, "taskID" | "project" | "workspace">,
  { tier, log }: { tier: number; log: Log },
  found: (files: Tampered[]) => unknown,
): P => {
  const inPlace = workspace?.kind === "worktree" ? undefined : workspace?.root;
  if ((tier === 1 && inPlace === undefined) || !existsSync(join(project, "HEAD"))) return place;
  const guard = createTamperGuard({
    commonDir: project,
    taskID,
    nested: inPlace === undefined ? [] : nestedGits(inPlace),
    writable: tier === 1 ? inPlace : undefined,
  });
  const look = async () => {
    const files = await guard.end();
    if (files.length > 0) await found(told(taskID, files, log));
  };
  const runCommand = place.run.bind(place);
  const startTalk = place.startInteractive?.bind(place);
  place.run = async (command) => {
    await guard.begin();
    const ran = await runCommand(command);
    await look();
    return ran;
  };
  if (startTalk !== undefined)
    place.startInteractive = async (talk) => {
      await guard.begin();
      const talking = await startTalk(talk).catch(async (error: unknown) => {
        await look();
        throw error;
      });
      return { ...talking, gone: talking.gone.then(look) };
    };
  return place;
};

/** Guards the commands of a run: records `git.tampered`, which ends the Task. */
export const withTamperGuard = <P extends Place>(run: Run, place: P): P =>
  guardCommands(place, run.state(), { tier: run.sandbox.tier, log: run.log }, (files) =>
    run.record([{ type: "git.tampered", data: { files } }]),
  );
