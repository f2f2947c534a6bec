/** Decides which commands the exit code of a shell text covers. */

/**
 * `last`: the code is that of the last command only. `masked`: an earlier command may have failed although the code is
 * 0.
 */
export type ExitCode = { last: boolean; masked: boolean };

/** First words of commands that prepare others; their failure says nothing about the work. */
const preparing = new Set(
  ": cd pushd popd export set shopt unset alias local declare readonly source . echo printf true mkdir trap ulimit umask".split(
    " ",
  ),
);

/** Keywords that precede a command (`openers`), and keywords that are no command themselves (`closers`). */
const openers = new Set("if then elif else do while until ! { ( time".split(" "));
const closers = new Set("done fi esac } ) ;; for case select function in".split(" "));

export const exitCodeOf = (text: string): ExitCode => {
  const parts = partsOf(text);
  const commands = parts.map(({ words }) => commandIn(words)).filter((word) => word !== undefined);
  // `set -e` ends the shell at the first command that fails.
  const strict = parts.some(({ words }) => /^set\b.* -\w*e|^set -o errexit/.test(words));
  const last = !strict && commands.slice(0, -1).some((word) => !preparing.has(word) && !/^\w+\+?=/.test(word));
  return { last, masked: last || parts.some(({ or }) => or) };
};

/** The first word of a command; undefined: the words are no command. */
const commandIn = (words: string): string | undefined => {
  const all = words.split(/\s+/);
  const at = all.findIndex((word) => !openers.has(word));
  const word = at < 0 ? "" : (all[at] ?? "");
  return word === "" || closers.has(word) ? undefined : word.replace(/^\(+/, "");
};

type Part = { words: string /** An alternative (`||`) follows if it fails. */; or: boolean };

/** The parts between semicolons, line ends and single `&`, without comments, quoted text and here-documents. */
const partsOf = (text: string): Part[] => {
  const parts: Part[] = [];
  const ends: string[] = [];
  let words = "";
  let or = false;
  const end = () => {
    if (words.trim() !== "") parts.push({ words: words.trim(), or });
    [words, or] = ["", false];
  };
  for (let at = 0; at < text.length; at += 1) {
    const [one = "", two = ""] = [text[at], text[at + 1]];
    if (one === "\\") {
      if (two !== "\n") words += "x";
      at += 1;
    } else if (one === "'" || one === '"' || one === "`") {
      at = closing(text, at);
      words += "x";
    } else if (one === "$" && two === "(") {
      at = closing(text, at + 1);
      words += "x";
    } else if (one === "#" && /(^|\s)$/.test(words.slice(-1))) at = lineEnd(text, at) - 1;
    else if (one === "<" && two === "<" && text[at + 2] !== "<") {
      const word = /^<<-?\s*["'\\]?([A-Za-z_]\w*)["']?/.exec(text.slice(at, at + 100));
      if (word !== null) ends.push(word[1] ?? "");
      at += (word?.[0].length ?? 2) - 1;
    } else if (one === "\n") {
      end();
      for (const marker of ends.splice(0)) at = afterDocument(text, at, marker);
    } else if (one === ";") end();
    else if (one === "|" && two === "|") {
      or = true;
      words += " ";
      at += 1;
    } else if (one === "&" && two === "&") {
      words += " ";
      at += 1;
    } else if (one === "&" && two !== ">" && !/[<>]$/.test(words)) end();
    else words += one;
  }
  end();
  return parts;
};

/** The position at which the quote or bracket that opens at `from` closes; the end of the text if it does not. */
const closing = (text: string, from: number): number => {
  const open = text[from] ?? "";
  let depth = 0;
  for (let at = from + 1; at < text.length; at += 1) {
    const one = text[at] ?? "";
    if (one === "\\" && open !== "'") at += 1;
    else if (open === "(") {
      if (one === "(") depth += 1;
      else if (one === ")" && (depth -= 1) < 0) return at;
      else if (one === "'" || one === '"') at = closing(text, at);
    } else if (one === open) return at;
  }
  return text.length;
};

const lineEnd = (text: string, from: number): number => {
  const at = text.indexOf("\n", from);
  return at < 0 ? text.length : at;
};

/** The end of the closing line of a here-document that begins after the line end at `from`. */
const afterDocument = (text: string, from: number, marker: string): number => {
  for (let at = from; at < text.length; ) {
    const to = lineEnd(text, at + 1);
    if (text.slice(at + 1, to).trim() === marker) return to - 1;
    at = to;
  }
  return text.length;
};
