/**
 * Splits a shell text into the commands it would run, for permission rules. One pass, no regular expression over the
 * text. A convenience and not a security boundary: a program can do anything, whatever its command line says.
 */

export type ShellCommand = {
  /** The command's words without quotes, assignments and redirections, separated by single spaces. */
  text: string;
  /**
   * The command runs others named by its words (`sh -c`, `xargs`, `$x`), or could not be parsed: rules that forbid
   * search all of its text.
   */
  opaque: boolean;
};

const maxDepth = 16;

/** Words that may precede a command without being one. */
const keywords = new Set(["if", "then", "elif", "else", "do", "while", "until", "!", "{", "}", "time", "coproc"]);

/** Commands that run other commands. */
const runners = new Set(
  `sh bash zsh dash ksh ash fish eval source . exec command builtin env sudo doas su nohup nice ionice stdbuf timeout
   xargs find fd parallel watch setsid script ssh chroot unshare nsenter busybox trap npx flock strace`.split(/\s+/),
);

/** The text cannot be parsed. */
class Unclear extends Error {}

/** The newest result: the text of a call is parsed for its permission, and again for its evidence. */
let parsed: { text: string; commands: readonly ShellCommand[] } | undefined;

/** Never throws: a text that cannot be parsed is one opaque command. */
export const parseShell = (text: string): readonly ShellCommand[] => {
  if (parsed?.text !== text) parsed = { text, commands: commandsIn(text) };
  return parsed.commands;
};

const commandsIn = (text: string): ShellCommand[] => {
  const found: ShellCommand[] = [];
  try {
    const end = scan(text, 0, undefined, 0, found);
    if (end < text.length) throw new Unclear();
    return found;
  } catch (error) {
    if (!(error instanceof Unclear)) throw error;
    return [{ text: text.replaceAll(/\s+/g, " ").trim(), opaque: true }];
  }
};

/** Reads commands from `at` to the closing character or the end of the text. Returns the index after it. */
const scan = (text: string, at: number, close: ")" | "`" | undefined, depth: number, found: ShellCommand[]): number => {
  if (depth > maxDepth) throw new Unclear();
  let words: string[] = [];
  let word: string | undefined;
  let target = false;
  const endWord = () => {
    if (word !== undefined && !target) words.push(word);
    if (word !== undefined) target = false;
    word = undefined;
  };
  const endCommand = () => {
    endWord();
    target = false;
    const command = commandOf(words);
    if (command !== undefined) found.push(command);
    words = [];
  };
  /** Reads a substitution: its commands are collected, and a `$` stands for it in the word. */
  const inner = (from: number, end: ")" | "`"): number => {
    word = `${word ?? ""}$`;
    return scan(text, from, end, depth + 1, found);
  };

  let open = 0;
  let index = at;
  while (index < text.length) {
    const character = text[index] ?? "";
    const following = text[index + 1] ?? "";
    index += 1;
    if (character === close && open === 0) {
      endCommand();
      return index;
    }
    switch (character) {
      case " ":
      case "\t":
      case "\r":
        endWord();
        break;
      case "\n":
      case ";":
      case "|":
        endCommand();
        break;
      case "&":
        // `&>file` and `2>&1` are redirections.
        if (following !== ">" && !(target && word === undefined)) endCommand();
        break;
      case "(":
        open += 1;
        endCommand();
        break;
      case ")":
        open -= 1;
        if (open < 0) throw new Unclear();
        endCommand();
        break;
      case "#":
        if (word !== undefined) word += character;
        else while (index < text.length && text[index] !== "\n") index += 1;
        break;
      case "\\":
        if (following !== "\n") word = (word ?? "") + following;
        index += 1;
        break;
      case "'": {
        const end = text.indexOf("'", index);
        if (end < 0) throw new Unclear();
        word = (word ?? "") + text.slice(index, end);
        index = end + 1;
        break;
      }
      case '"':
        word ??= "";
        for (;;) {
          if (index >= text.length) throw new Unclear();
          const quoted = text[index] ?? "";
          index += 1;
          if (quoted === '"') break;
          if (quoted === "\\") {
            if (text[index] !== "\n") word += text[index] ?? "";
            index += 1;
          } else if (quoted === "`") index = inner(index, "`");
          else if (quoted === "$" && text[index] === "(") index = inner(index + 1, ")");
          else word += quoted;
        }
        break;
      case "`":
        index = inner(index, "`");
        break;
      case "$":
        if (following === "(") index = inner(index + 1, ")");
        else word = `${word ?? ""}$`;
        break;
      case "<":
      case ">":
        if (following === "(") index = inner(index + 1, ")");
        else {
          // The number of a file descriptor is not an argument.
          if (word !== undefined && /^\d+$/.test(word)) word = undefined;
          endWord();
          target = true;
        }
        break;
      default:
        word = (word ?? "") + character;
    }
  }
  if (close !== undefined || open !== 0) throw new Unclear();
  endCommand();
  return index;
};

const commandOf = (words: readonly string[]): ShellCommand | undefined => {
  let first = 0;
  while (first < words.length && (keywords.has(words[first] ?? "") || /^\w+\+?=/.test(words[first] ?? ""))) first += 1;
  const [name, ...rest] = words.slice(first);
  if (name === undefined) return undefined;
  // A program is identified by its base name, wherever it is and however it was quoted.
  const program = name.slice(name.lastIndexOf("/") + 1);
  const args = program === "git" ? withoutGlobals(rest) : rest;
  return { text: [program, ...args].join(" "), opaque: runners.has(program) || name.includes("$") };
};

/** `git -C folder -c name=value push` counts as `git push`. */
const withoutGlobals = (args: readonly string[]): readonly string[] => {
  let at = 0;
  while ((args[at] ?? "").startsWith("-"))
    at += /^-[Cc]$|^--(git-dir|work-tree|namespace)$/.test(args[at] ?? "") ? 2 : 1;
  return args.slice(at);
};
