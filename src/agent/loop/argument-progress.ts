/**
 * Reports what a model is writing into the arguments of a call while they arrive: which file, and how many lines so
 * far. Once per line, because nobody notices finer steps.
 */

/** Longest path that is kept, in characters; a longer one is not reported. */
const longestPath = 400;

const words: Readonly<Record<string, string>> = {
  write: "Writing",
  edit: "Editing",
};

const [quote, backslash, colon, comma, brace, bracket, letterN] = ['"', "\\", ":", ",", "{", "[", "n"].map(
  (character) => character.charCodeAt(0),
);

/** Reads JSON that may end anywhere. Returns its first `path`, and the number of line ends in its strings. */
export const createArgumentReader = () => {
  let lines = 0;
  let path: string | undefined;
  let within = false;
  let escaped = false;
  /** The string that is being read, in its escaped form, up to this piece; undefined: its value is not needed. */
  let text: string | undefined;
  let key = "";
  /** The string before this place if it may be a key. */
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

/**
 * Longest piece that is read, in characters. When more arrives at once nobody is waiting for progress, and reading it
 * would hold up the service.
 */
const longestPiece = 64 * 1024;

/** `tell` is called for each further line. */
export const createArgumentProgress = (tell: (text: string, lines: number) => void) => {
  /** By call id; undefined: nothing more is reported for this call. */
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
