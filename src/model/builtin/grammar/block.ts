/** Splits a request's text into lines and fenced blocks, without interpreting them. Never throws. */

type Line = { kind: "line"; text: string };
export type Block = { kind: "block"; info: string; content: string; closed: boolean };

/** A fence may follow list markers, as in `1. ```diff`. */
const opening = /^([ \t]*(?:(?:[-*+•]|\d{1,4}[.)])[ \t]+)*)(`{3,}|~{3,})(.*)$/s;

export const scan = (request: string): (Line | Block)[] => {
  // With CRLF throughout, the sender added the CR; a single CRLF belongs to the content.
  const text = request.replace(/^\uFEFF/, "");
  const windows = /\r\n/.test(text) && !/(?:^|[^\r])\n/.test(text);
  const lines = (windows ? text.replaceAll("\r\n", "\n") : text).split("\n");
  const found: (Line | Block)[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const line = (lines[at] ?? "").replace(/\r$/, "");
    const [, prefix = "", fence = "", info = ""] = opening.exec(line) ?? [];
    // CommonMark: the info of a backtick fence holds no backtick; such a line is inline code.
    if (fence === "" || (fence.startsWith("`") && info.includes("`"))) {
      found.push({ kind: "line", text: line });
      continue;
    }
    const content: string[] = [];
    let closed = false;
    for (at += 1; at < lines.length; at += 1) {
      const inner = lines[at] ?? "";
      if (closes(inner, fence, prefix.length)) {
        closed = true;
        break;
      }
      content.push(outdented(inner, prefix.length));
    }
    found.push({ kind: "block", info: info.trim(), content: content.map((inner) => `${inner}\n`).join(""), closed });
  }
  return found;
};

const closes = (line: string, fence: string, indent: number): boolean => {
  const bare = line.trim();
  return (
    bare.length >= fence.length &&
    bare === (fence[0] ?? "").repeat(bare.length) &&
    line.length - line.trimStart().length <= indent + 3
  );
};

/** Removes at most the indentation of the fence. */
const outdented = (line: string, indent: number): string => {
  let at = 0;
  while (at < indent && (line[at] === " " || line[at] === "\t")) at += 1;
  return line.slice(at);
};

type Info = { language: string; attributes: Map<string, string>; extra: string[] };

const token = /([A-Za-z][\w-]*)=(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^\s"'`]+))|(\S+)/g;

/** Parses the words after a fence: a language, `name=value` pairs (in braces or not), and the rest. */
export const infoOf = (info: string): Info => {
  const bare = /^([^\s{]*)\s*\{(.*)\}$/s.exec(info);
  const text = bare === null ? info : `${bare[1]} ${bare[2]}`;
  const attributes = new Map<string, string>();
  const words: string[] = [];
  const extra: string[] = [];
  for (const [whole, name, double, single, tick, plain] of text.matchAll(token)) {
    const value = double ?? single ?? tick ?? plain;
    if (name === undefined || value === undefined) words.push(whole);
    else if (attributes.has(name.toLowerCase())) extra.push(whole);
    else attributes.set(name.toLowerCase(), value);
  }
  const [language = "", ...more] = text.startsWith(words[0] ?? "\0") ? words : ["", ...words];
  return { language: language.toLowerCase(), attributes, extra: [...extra, ...more] };
};
