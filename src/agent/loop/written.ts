/**
 * What a model writes into the arguments of a call, while they arrive: which file, and how many lines so far. Told with
 * each line, because nobody sees less.
 */

/** Characters of a path that are kept; a longer one is not told. */
const longestPath = 400;

const words: Readonly<Record<string, string>> = {
  write: "Writing",
  edit: "Editing",
};

const [quote, backslash, colon, comma, brace, bracket, letterN] = ['"', "\\", ":", ",", "{", "[", "n"].map(
  (character) => character.charCodeAt(0),
);

/**
 * Reads JSON that may end anywhere. Tells the first `path`, and how many ends of lines its strings have.
 */
export const createArgumentReader = () => {
  let lines = 0;
  let path: string | undefined;
  let within = false;
  let escaped = false;
  /** The string that is being read, as it is written, up to this piece; undefined: it is of no interest. */
  let text: string | undefined;
  let key = "";
  /** Whether the string before this place may be a key. */
  let named: string | undefined;

  const close = (): void => {
    within = false;
    if (key === "path" && path === undefined && text !== undefined) path = decoded(text);
    named = key === "" ? text : undefined;
    key = "";
  };

  const take = (piece: string): void => {
    let from = 0;
    const keep = (to: number): void => {
      if (text === undefined) return;
      text = text.length + to - from > longestPath ? undefined : text + piece.slice(from, to);
    };
    for (let at = 0; at < piece.length; at += 1) {
      const code = piece.charCodeAt(at);
      if (!within) {
        if (code === quote) {
          within = true;
          text = "";
          from = at + 1;
        } else if (code === colon) key = named ?? "";
        else if (code === comma || code === brace || code === bracket) key = "";
      } else if (escaped) {
        escaped = false;
        if (code === letterN) lines += 1;
      } else if (code === backslash) escaped = true;
      else if (code === quote) {
        keep(at);
        close();
      }
    }
    if (within) keep(piece.length);
  };

  return { take, path: () => path, lines: () => lines };
};

const decoded = (text: string): string | undefined => {
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    return undefined;
  }
};

/** Characters. Where more come at once there is nothing to wait for, and reading them would hold up the service. */
const longestPiece = 64 * 1024;

/** `tell` is called when there is another line. */
export const createWritten = (tell: (text: string, lines: number) => void) => {
  /** undefined: nothing more is told of it. */
  const calls = new Map<string, ReturnType<typeof createArgumentReader> | undefined>();
  return ({ id, tool }: { id: string; tool: string }, delta: string): void => {
    if (!calls.has(id)) calls.set(id, createArgumentReader());
    if (delta.length > longestPiece) calls.set(id, undefined);
    const reader = calls.get(id);
    if (reader === undefined) return;
    const before = reader.lines();
    reader.take(delta);
    const lines = reader.lines();
    if (lines === before) return;
    const path = reader.path();
    const verb = words[tool];
    if (tool === "apply_patch") tell("Writing a patch", lines);
    else if (verb !== undefined && path !== undefined) tell(`${verb} \`${path}\``, lines);
    else tell(`Writing a call of \`${tool}\``, lines);
  };
};
