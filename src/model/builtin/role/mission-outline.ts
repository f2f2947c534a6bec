import { firstLine } from "../step.ts";

/**
 * Parses a Mission's text into phases, by the grammar of the built-in model: a list with dependencies, squads and
 * rosters.
 */
export type Item = {
  title: string;
  /** The request for its Task, as instructions of the built-in model. */
  request: string;
  /** Numbers of items of the same text that come before this one. */
  after: number[];
  squad: string | undefined;
};

export type Roster = { squad: string; agents: { name: string; duty: string }[] };

export type Outline = { items: Item[]; rosters: Roster[]; problems: string[] };

const numbered = /^(\d{1,3})[.)]\s+(\S.*)$/s;
const box = /^[-*+]\s+\[[ xX]?\]\s+(\S.*)$/s;
const bullet = /^[-*+]\s+/;
const heading = /^#{1,6}\s+(\S.*)$/s;
const fence = /^\s*(`{3,}|~{3,})/;
const rosterHead = /^\s*squad\s+`?([a-z0-9]+(?:-[a-z0-9]+)*)`?\s*:\s*$/i;
const rosterLine = /^\s*[-*+]\s+`?([a-z0-9]+(?:-[a-z0-9]+)*)`?\s*:\s+(\S.*)$/;

export const outlineOf = (text: string): Outline => {
  const { lines, rosters, problems } = withoutRosters(text.replaceAll("\r\n", "\n").split("\n"));
  const bare = outsideFences(lines);
  const isItem = bare.some(({ text: line, inside }) => !inside && (numbered.test(line) || box.test(line)))
    ? (line: string) => numbered.exec(line)?.[2] ?? box.exec(line)?.[1]
    : (line: string) => heading.exec(line)?.[1];
  const found: { head: string; body: string[] }[] = [];
  for (const { text: line, inside } of bare) {
    const head = inside ? undefined : isItem(line);
    if (head !== undefined) found.push({ head, body: [] });
    else found.at(-1)?.body.push(line);
  }
  const items = found.map(({ head, body }) => itemOf(head, body));
  const whole = lines.join("\n").trim();
  if (items.length === 0 && whole !== "") items.push(itemOf(firstLine(whole).replace(bullet, ""), whole.split("\n")));
  for (const [index, { after }] of items.entries())
    for (const number of after)
      if (number < 1 || number > items.length || number === index + 1)
        problems.push(
          `item ${index + 1}: expected (after N) to name another item of 1 to ${items.length}, got ${number}`,
        );
  return { items, rosters, problems };
};

const itemOf = (head: string, body: readonly string[]): Item => {
  const after: number[] = [];
  let squad: string | undefined;
  const title = head
    .replace(/\(\s*after\s([\d,\s]+)\)/gi, (_whole, numbers: string) => {
      after.push(...(numbers.match(/\d+/g) ?? ["0"]).map(Number));
      return "";
    })
    .replace(/\(\s*squad:\s*`?([a-z0-9-]+)`?\s*\)/gi, (_whole, id: string) => {
      squad = id.toLowerCase();
      return "";
    })
    .replaceAll(/\s+/g, " ")
    .trim();
  const content = dedented(body).trim();
  const request = content === "" ? title : content;
  return { title, request, after: [...new Set(after)], squad };
};

const dedented = (lines: readonly string[]): string => {
  const filled = lines.filter((line) => line.trim() !== "");
  const indent = Math.min(...filled.map((line) => line.length - line.trimStart().length), 80);
  return lines.map((line) => line.slice(Math.min(indent, line.length - line.trimStart().length))).join("\n");
};

/** Marks the lines inside fenced blocks, which hold no items. */
const outsideFences = (lines: readonly string[]): { text: string; inside: boolean }[] => {
  let open: string | undefined;
  return lines.map((text) => {
    const [, mark] = fence.exec(text) ?? [];
    if (open !== undefined) {
      if (mark !== undefined && mark.startsWith(open) && text.trim() === mark) open = undefined;
      return { text, inside: true };
    }
    if (mark !== undefined) open = mark;
    return { text, inside: mark !== undefined };
  });
};

/** Separates rosters, which may be anywhere in the text, from the list. */
const withoutRosters = (given: readonly string[]): { lines: string[]; rosters: Roster[]; problems: string[] } => {
  const lines: string[] = [];
  const rosters: Roster[] = [];
  const problems: string[] = [];
  let open: Roster | undefined;
  for (const { text, inside } of outsideFences(given)) {
    const head = inside ? null : rosterHead.exec(text);
    if (head !== null) {
      open = { squad: (head[1] ?? "").toLowerCase(), agents: [] };
      rosters.push(open);
      continue;
    }
    const agent = inside ? null : rosterLine.exec(text);
    if (open !== undefined && agent !== null) open.agents.push({ name: agent[1] ?? "", duty: agent[2] ?? "" });
    else if (text.trim() !== "" || open === undefined) {
      open = undefined;
      lines.push(text);
    }
  }
  for (const { squad, agents } of rosters)
    if (agents.length < 3 || agents.length > 9)
      problems.push(`squad ${squad}: expected 3 to 9 lines \`- agent-name: duty\`, got ${agents.length}`);
  return { lines, rosters, problems };
};
