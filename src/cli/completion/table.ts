/** The completions for a place: fixed words with their meaning, or something that is looked up while the user types. */
export type Source = "files" | "folders" | "tasks" | "missions" | "squads" | readonly Word[];

export type Word = readonly [name: string, meaning: string];

/** The commands of the program as data, for the completion scripts. */
export type Table = {
  /** Paths of commands as typed, such as `task show`, without the program's own name. */
  commands: readonly string[];
  /**
   * Options that take a value, with its completions; null: any value. `at`: the command, for an option that differs in
   * it.
   */
  values: readonly { at?: string; flags: readonly string[]; source: Source | null }[];
  /** Options by command; "" is the program. */
  options: readonly { at: string; words: readonly Word[] }[];
  /** Arguments by command and index, from 0. */
  places: readonly { at: string; n: number; source: Source }[];
};
