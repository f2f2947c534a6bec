import { resolve } from "node:path";
import { connect, dataOf } from "../connection.ts";
import type { Context } from "../context.ts";
import { resolveMission } from "../resolve-id.ts";
import { exit } from "../terminal/exit.ts";
import { openInDesktop, pageAt } from "../terminal/open.ts";

/** `sortie mission open`: prints the address of the Mission's page, and opens it in the browser. */
export const open = async (
  given: string,
  options: { print?: true },
  { target, screen, emit, display }: Context & { display: boolean },
): Promise<number> => {
  const service = connect(target);
  const missionID = await resolveMission(service, target, given);
  // Also checks that the Mission exists; the page would only say that it does not.
  dataOf(await service.mission.status({ path: { missionID } }), target.url);
  const url = pageAt(target.url, `ui/mission/${encodeURIComponent(missionID)}`);
  url.searchParams.set("project", target.repository ?? resolve(target.directory));
  if (emit !== undefined) emit({ missionID, url: url.href });
  else screen.say(url.href);
  if (display && options.print !== true && emit === undefined) await openInDesktop(url.href);
  return exit.completed;
};
