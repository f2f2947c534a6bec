import type { Frame } from "../../protocol/event/frame.ts";
import { beginsStage, type Stage } from "../../protocol/stage.ts";
import type { Screen } from "../terminal/screen.ts";

/** Draws the lines of a Task as a tree on a terminal: stages, the events in each, and delegated work indented. */

const names: Record<Stage, string> = { queue: "Queue", work: "Work", checks: "Checks", review: "Review", land: "Land" };

/** Characters before the text of a line: the stem and the time. */
const before = 13;

/** The text in lines of at most `width` characters, broken between words. Colour codes do not count. */
const wrapped = (text: string, width: number): string[] => {
  // oxlint-disable-next-line no-control-regex -- colours
  const lengthOf = (part: string) => part.replaceAll(/\u001b\[[0-9;]*m/g, "").length;
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines.at(-1) ?? "";
    if (last === "") lines[lines.length - 1] = word;
    else if (lengthOf(last) + 1 + lengthOf(word) <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
};

/** Like `wrapped`, for a line that is indented or an item of a list: continuation lines align with its first word. */
const hanging = (text: string, width: number): string[] => {
  const [lead = ""] = /^ *(?:(?:[-*+]|\d+\.) +)?/.exec(text) ?? [];
  return wrapped(text.slice(lead.length), width - lead.length).map(
    (line, at) => (at === 0 ? lead : " ".repeat(lead.length)) + line,
  );
};

export const createTree = ({ colors, width }: Pick<Screen, "colors" | "width">) => {
  const reviewers = new Set<string>();
  /** How many sessions are above each session. */
  const depths = new Map<string, number>();
  let at: Stage = "queue";
  let named: Stage | undefined;

  const depthOf = (event: Frame): number => {
    if (event.type === "session.started" && event.data.purpose !== "review") {
      const above = depths.get(event.data.parentSessionID) ?? 0;
      depths.set(event.data.sessionID, above + 1);
      return above;
    }
    return "sessionID" in event.data && typeof event.data.sessionID === "string"
      ? (depths.get(event.data.sessionID) ?? 0)
      : 0;
  };

  /** Must be called with every event in order. The returned function draws the event's text under its stage. */
  return (event: Frame): ((text: string, time: string) => string) => {
    at = beginsStage(event, at, reviewers) ?? at;
    const depth = depthOf(event);
    const stage = at;
    return (text, time) => {
      const { bold, dim, cyan } = colors;
      const head = stage === named ? "" : `${cyan("●")} ${bold(names[stage])}\n`;
      named = stage;
      const inset = `${dim("│")} ${`${dim("│")} `.repeat(depth)}`;
      const [first = "", ...more] = text.split("\n").flatMap((each) => hanging(each, width - before - 2 * depth - 1));
      const rest = more.map((each) => `\n${inset}${" ".repeat(11)}${each}`).join("");
      return `${head}${inset}${dim(time)}  ${first}${rest}`;
    };
  };
};
