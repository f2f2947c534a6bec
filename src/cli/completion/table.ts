/** The commands as data; types only. */

/** What comes in a place: words with what they mean, or something that only the moment of typing can tell. */
export type Source = "files" | "folders" | "tasks" | "missions" | "squads" | readonly Word[];

export type Word = readonly [name: string, meaning: string];

export type Table = {
  /** Paths of commands as they are typed, such as `task show`; the program itself is not among them. */
  commands: readonly string[];
  /** Options that take a value, each with what it can be; null: anything. */
  values: readonly { flags: readonly string[]; source: Source | null }[];
  /** Of each command, "" being the program. */
  options: readonly { at: string; words: readonly Word[] }[];
  /** The n-th word of a command that is no option, from 0. */
  places: readonly { at: string; n: number; source: Source }[];
};
