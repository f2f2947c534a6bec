import type { Screen } from "./screen.ts";

/** One line of a command that examines something, such as `doctor` and `verify`. */

export type Finding = {
  name: string;
  /** `note`: not an error, but worth knowing. */
  state: "ok" | "note" | "bad";
  text: string;
  remedy?: string;
};

export const ok = (name: string, text: string): Finding => ({ name, state: "ok", text });
export const note = (name: string, text: string, remedy?: string): Finding => ({
  name,
  state: "note",
  text,
  ...(remedy === undefined ? {} : { remedy }),
});
export const bad = (name: string, text: string, remedy?: string): Finding => ({
  name,
  state: "bad",
  text,
  ...(remedy === undefined ? {} : { remedy }),
});

export const markOf = ({ state }: Finding, { colors: { green, red, yellow } }: Screen): string =>
  ({ ok: green("ok  "), note: yellow("note"), bad: red("bad ") })[state];
