import { mkdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../error.ts";
import { connect, dataOf, type Target } from "../connection.ts";
import { resolveID } from "../resolve-id.ts";
import { Exit, exit } from "../terminal/exit.ts";
import { openInDesktop, pageAt } from "../terminal/open.ts";
import { during, type Screen } from "../terminal/screen.ts";

/**
 * `sortie task open`: opens the Task's page in the browser, or saves the pictures of its checks and captures and opens
 * their folder.
 */

type Context = { target: Target; screen: Screen; emit: ((value: object) => void) | undefined; display: boolean };

type Options = { pictures?: true; output?: string; print?: true };

export const open = async (given: string, options: Options, { target, screen, emit, display }: Context) => {
  if (options.output !== undefined && !options.pictures)
    throw new Exit(exit.usage, "Expected --output only with --pictures.");
  const service = connect(target);
  const taskID = await resolveID(service, target, given);
  // Also checks that the Task exists; the page would only say that it does not.
  const board = dataOf(await service.task.board({ path: { taskID } }), target.url);
  const shows = display && options.print !== true && emit === undefined;
  if (options.pictures === undefined) {
    const url = pageAt(target.url, `ui/task/${taskID}`).href;
    if (emit !== undefined) emit({ taskID, url });
    else screen.say(url);
    if (shows) await openInDesktop(url);
    return exit.completed;
  }
  const pictures = board.artifacts.filter(({ mime }) => mime === "image/png");
  if (pictures.length === 0)
    throw new Exit(
      exit.failed,
      "Expected screenshots of visual checks or previews, got none: this Task has no such check, or it has not run yet.",
    );
  const folder = options.output ?? `${taskID}-pictures`;
  const fetchAll = async () => {
    mkdirSync(folder, { recursive: true });
    for (const { artifactID, filename } of pictures) {
      const blob = dataOf(await service.task.artifact({ path: { taskID, artifactID } }), target.url);
      // The id distinguishes pictures with the same name; the name is cleaned so that it cannot lead to another folder.
      const path = join(folder, `${artifactID.slice(-6)}-${filename.replaceAll(/[^A-Za-z0-9._-]/g, "_")}`);
      await writeFile(path, new Uint8Array(await blob.arrayBuffer())).catch((error: unknown) => {
        throw new Exit(exit.failed, `Cannot write ${path}: ${messageOf(error)}`);
      });
      if (emit !== undefined) emit({ taskID, artifactID, path });
      else screen.say(path);
    }
  };
  await during(screen, `Fetching ${pictures.length} pictures`, fetchAll());
  if (shows) await openInDesktop(folder);
  return exit.completed;
};
