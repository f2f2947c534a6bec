/** Parses a git configuration file as git does (git-config(1), "Syntax"). Included files are not read. */

/** `name`: section and key in lower case, with the subsection unchanged in between: `remote.origin.url`. */
export type Setting = { name: string; value: string };

/** A setting without a value is true. */
const noValue = "true";

/** White space as git defines it. */
const space = /[ \t\n\r]/;

const isKeyCharacter = (character: string): boolean => /^[a-zA-Z0-9-]$/.test(character);

/** The settings of a file; undefined: git refuses the file. Bytes are decoded as Latin-1. */
export const parseConfig = (bytes: Buffer): Setting[] | undefined => {
  const text = bytes
    .toString("latin1")
    .replace(/^\u00ef\u00bb\u00bf/, "")
    .replaceAll("\r\n", "\n");
  const settings: Setting[] = [];
  let at = 0;
  let section: string | undefined;

  const peek = (): string => text[at] ?? "\n";
  const skip = (pattern: RegExp): void => {
    while (at < text.length && pattern.test(peek())) at += 1;
  };
  const skipLine = (): void => {
    const end = text.indexOf("\n", at);
    at = end === -1 ? text.length : end;
  };

  /** Reads from behind `[` up to and including `]`. */
  const readSection = (): string | undefined => {
    const begun = at;
    while (isKeyCharacter(peek()) || peek() === ".") at += 1;
    const name = text.slice(begun, at).toLowerCase();
    if (peek() === "]") {
      at += 1;
      return name;
    }
    if (!/[ \t]/.test(peek())) return undefined;
    skip(/[ \t]/);
    if (peek() !== '"') return undefined;
    let sub = "";
    for (at += 1; peek() !== '"'; at += 1) {
      if (peek() === "\\") at += 1;
      if (peek() === "\n") return undefined;
      sub += peek();
    }
    at += 1;
    if (peek() !== "]") return undefined;
    at += 1;
    return `${name}.${sub}`;
  };

  /** Reads from behind `=` up to the end of the line. */
  const readValue = (): string | undefined => {
    let value = "";
    /** The length of the value without white space at its end. */
    let kept = 0;
    let quoted = false;
    skip(/[ \t]/);
    for (; peek() !== "\n"; at += 1) {
      const character = peek();
      if (character === "\\") {
        at += 1;
        const escaped = { "\n": "", "\\": "\\", '"': '"', t: "\t", b: "\b", n: "\n" }[at < text.length ? peek() : ""];
        if (escaped === undefined) return undefined;
        value += escaped;
        kept = value.length;
      } else if (character === '"') {
        quoted = !quoted;
        kept = value.length;
      } else if (!quoted && (character === "#" || character === ";")) {
        skipLine();
        break;
      } else {
        value += character;
        if (quoted || !space.test(character)) kept = value.length;
      }
    }
    return quoted ? undefined : value.slice(0, kept);
  };

  while (at < text.length) {
    skip(space);
    if (at >= text.length) break;
    const character = peek();
    if (character === "#" || character === ";") skipLine();
    else if (character === "[") {
      at += 1;
      section = readSection();
      if (section === undefined || section === "") return undefined;
    } else {
      if (!/[a-zA-Z]/.test(character)) return undefined;
      const begun = at;
      while (isKeyCharacter(peek())) at += 1;
      const key = text.slice(begun, at).toLowerCase();
      skip(/[ \t]/);
      let value: string | undefined = noValue;
      if (peek() === "=") {
        at += 1;
        value = readValue();
      } else if (peek() !== "\n") return undefined;
      if (value === undefined) return undefined;
      settings.push({ name: section === undefined ? key : `${section}.${key}`, value });
    }
  }
  return settings;
};

/** The parts of a setting's name; `sub` is undefined where there is no subsection. */
export const partsOf = (name: string): { section: string; sub: string | undefined; key: string } => {
  const [first, last] = [name.indexOf("."), name.lastIndexOf(".")];
  return {
    section: name.slice(0, Math.max(first, 0)),
    sub: first === last ? undefined : name.slice(first + 1, last),
    key: name.slice(last + 1),
  };
};
