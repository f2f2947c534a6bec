import type { MissionPhase, PlannedPhase } from "../../../src/protocol/mission/status.ts";

/** A plan while the user edits it. */

export type Row = {
  /** A new phase has an id that only the draft knows (`isNew`), until it gets one from its title. */
  id: string;
  title: string;
  phase: string;
  objective: string;
  /** One criterion per line. */
  acceptance: string;
  after: string[];
};

const newMark = "new ";
export const isNew = ({ id }: Row): boolean => id.startsWith(newMark);

/** States in which a phase cannot be edited any more, because its Task has read the old text. */
export const begun: ReadonlySet<MissionPhase["state"]> = new Set(["running", "producing", "done"]);

export const rowsOf = (plan: readonly PlannedPhase[]): Row[] =>
  plan.map(({ id, title, phase, objective, acceptance, after }) => ({
    id,
    title,
    phase,
    objective,
    acceptance: acceptance.join("\n"),
    after: [...after],
  }));

/** The draft that is kept in this tab; undefined: there is none, or it cannot be read. */
export const rowsFrom = (text: string): Row[] | undefined => {
  try {
    return text === "" ? undefined : (JSON.parse(text) as Row[]);
  } catch {
    return undefined;
  }
};

export const withNew = (rows: readonly Row[]): Row[] => {
  const count = rows.filter(isNew).map(({ id }) => Number(id.slice(newMark.length)));
  const id = `${newMark}${Math.max(0, ...count) + 1}`;
  return [...rows, { id, title: "", phase: "", objective: "", acceptance: "", after: [] }];
};

/** Removes a row, also from the phases that begin after it. */
export const without = (rows: readonly Row[], id: string): Row[] =>
  rows.flatMap((row) => (row.id === id ? [] : [{ ...row, after: row.after.filter((one) => one !== id) }]));

export const moved = (rows: readonly Row[], at: number, by: -1 | 1): Row[] => {
  const [row, other] = [rows[at], rows[at + by]];
  return row === undefined || other === undefined ? [...rows] : rows.with(at, other).with(at + by, row);
};

/** The first row that lacks a title or an objective. */
export const unfinished = (rows: readonly Row[]): Row | undefined =>
  rows.find(({ title, objective }) => title.trim() === "" || objective.trim() === "");

const longestID = 40;

/** The id for a title: "Write the Schema" becomes `write-the-schema`. */
const slugOf = (title: string): string =>
  title
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, longestID)
    .replaceAll(/^-+|-+$/g, "") || "phase";

const freeID = (title: string, taken: ReadonlySet<string>): string => {
  const slug = slugOf(title);
  for (let count = 1; ; count += 1) {
    const mark = count === 1 ? "" : `-${count}`;
    const id = `${slug.slice(0, longestID - mark.length).replace(/-+$/, "")}${mark}`;
    if (!taken.has(id)) return id;
  }
};

/**
 * The draft as the plan of a request. `plan`: the plan it began with; texts that were not edited stay exactly as they
 * were.
 */
export const phasesOf = (rows: readonly Row[], plan: readonly PlannedPhase[]) => {
  const known = new Map(plan.map((phase) => [phase.id, phase]));
  const taken = new Set([...known.keys(), ...rows.map(({ id }) => id)]);
  const ids = new Map<string, string>();
  for (const row of rows) {
    const id = isNew(row) ? freeID(row.title, taken) : row.id;
    taken.add(id);
    ids.set(row.id, id);
  }
  return rows.map(({ id, title, phase, objective, acceptance, after }) => {
    const was = known.get(id)?.acceptance;
    return {
      id: ids.get(id) ?? id,
      title: title.trim(),
      ...(phase.trim() === "" ? {} : { phase: phase.trim() }),
      objective: objective.trim(),
      acceptance: was?.join("\n") === acceptance ? was : linesIn(acceptance),
      after: after.map((one) => ids.get(one) ?? one),
    };
  });
};

const linesIn = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
