/**
 * Bounds how deep a value from elsewhere is nested: what walks it later (JSON, schemas, redaction, copies) calls itself
 * once for each level, and some thousands end the stack.
 */

/** Levels of what models and programs pass as arguments. */
export const deepest = 64;

/** Whether a value is nested at most so deep; a text or number is no level. Takes no stack and one look at each part. */
export const isNestedWithin = (value: unknown, levels = deepest): boolean => {
  let level: unknown[] = [value];
  for (let depth = 0; ; depth += 1) {
    const nested = level.filter((part): part is object => typeof part === "object" && part !== null);
    if (nested.length === 0) return true;
    if (depth === levels) return false;
    level = nested.flatMap((part) => Object.values(part) as unknown[]);
  }
};

/** The same of a JSON text, before anything is built from it. Brackets within strings do not count. */
export const isTextNestedWithin = (text: string, levels: number): boolean => {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (quoted) {
      if (character === "\\") at += 1;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{" || character === "[") {
      depth += 1;
      if (depth > levels) return false;
    } else if (character === "}" || character === "]") depth -= 1;
  }
  return true;
};

/** What may be walked and kept of a value from elsewhere. */
export const withBoundedNesting = (value: unknown): unknown =>
  isNestedWithin(value) ? value : `[more than ${deepest} levels of nesting are not kept]`;
