import type { Frame } from "../../protocol/event/frame.ts";
import { connect, dataOf, type Service, type Target } from "../connection.ts";
import type { Context } from "../context.ts";
import { resolveMission } from "../resolve-id.ts";
import { exit } from "../terminal/exit.ts";
import type { Screen } from "../terminal/screen.ts";
import { createStory, type Told } from "./story.ts";

/** `sortie mission log`: what has happened so far, one line per event, in the words of the Mission's story. */

export const log = async (given: string, { target, screen, emit }: Context): Promise<number> => {
  const service = connect(target);
  const missionID = await resolveMission(service, target, given);
  const story = createStory();
  let day = "";
  for await (const event of eventsOf(service, target, missionID)) {
    const told = story(event);
    if (told === undefined) continue;
    const text = textOf(told);
    if (emit !== undefined) emit({ id: event.id, at: event.at, type: event.type, text });
    // Each line is complete in itself, so that lines can be searched and sorted.
    else if (!screen.rich) screen.say(`${event.at.slice(0, 19)}Z  ${text}`);
    else {
      if (event.at.slice(0, 10) !== day) screen.say(screen.colors.bold(`${(day = event.at.slice(0, 10))} UTC`));
      screen.say(`${screen.colors.dim(event.at.slice(11, 16))}  ${cut(told, screen)}`);
    }
  }
  return exit.completed;
};

type Durable = Extract<Frame, { id: number }>;

/** All events of the Mission's log, oldest first. */
async function* eventsOf(service: Service, target: Target, missionID: string): AsyncGenerator<Durable> {
  for (let after = 0; ; ) {
    const asked = await service.mission.eventPage({ path: { missionID }, query: { after, limit: pageSize } });
    const { events, nextAfter } = dataOf(asked, target.url);
    if (events.length === 0) return;
    for (const event of events) if ("id" in event) yield event;
    after = nextAfter;
  }
}

const pageSize = 1000;

const textOf = ({ lead, rest }: Told): string => (rest === "" ? lead : `${lead}: ${rest}`);

/** Columns that the time takes up. */
const timeColumns = 7;

/** As much of the text as fits into a line; its lead is coloured by the outcome. */
const cut = (told: Told, { colors, width }: Pick<Screen, "colors" | "width">): string => {
  const text = textOf(told);
  const room = Math.max(20, width - timeColumns);
  const shown = text.length <= room ? text : `${text.slice(0, room - 1)}…`;
  const at = Math.min(told.lead.length, shown.length);
  const paint = { plain: colors.bold, good: colors.green, bad: colors.red, need: colors.yellow, quiet: colors.dim };
  return paint[told.tone](shown.slice(0, at)) + shown.slice(at);
};
