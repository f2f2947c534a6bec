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

/** Reads JSON that may end anywhere. Tells the first `path`, and how many ends of lines its strings have. */
export const createArgumentReader = () => {
  let lines = 0;
  let path: string | undefined;
  let within = false;
  let escaped = false;
  /** The string that is being read, as it is written; undefined: it is of no interest. */
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
    for (const character of piece) {
      if (!within) {
        if (character === '"') {
          within = true;
          text = "";
        } else if (character === ":") key = named ?? "";
        else if (character === "," || character === "{" || character === "[") key = "";
        continue;
      }
      if (escaped) {
        escaped = false;
        if (character === "n") lines += 1;
        if (text !== undefined) text += character;
      } else if (character === '"') {
        close();
        continue;
      } else {
        escaped = character === "\\";
        if (text !== undefined) text += character;
      }
      if (text !== undefined && text.length > longestPath) text = undefined;
    }
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

/** `tell` is called when there is another line. */
export const createWritten = (tell: (text: string, lines: number) => void) => {
  const calls = new Map<string, ReturnType<typeof createArgumentReader>>();
  return ({ id, tool }: { id: string; tool: string }, delta: string): void => {
    const reader = calls.get(id) ?? createArgumentReader();
    calls.set(id, reader);
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
