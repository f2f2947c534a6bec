/**
 * A Task's title: the first line of the request, without Markdown decoration, at most 80 characters. A request that
 * begins with a code block naming a file is titled after that file.
 */
export const titleOf = (request: string): string => {
  const lines = request.split("\n").filter((line) => line.trim() !== "");
  const file = isFence(lines[0] ?? "") ? named.exec(lines[0] ?? "")?.[1] : undefined;
  const first = file === undefined ? (lines.find((line) => !isFence(line)) ?? "Task") : `Write ${file}`;
  const words = first.replace(/^[\s#>*-]+/, "").replace(/^\d{1,3}[.)]\s/, "");
  const plain = words.replace(/^\s*\[[ xX]\]/, "").trim() || first.trim();
  return Array.from(plain).length <= longest ? plain : `${inWords(plain, longest - 1)}…`;
};

const isFence = (line: string): boolean => /^\s*(?:```|~~~)/.test(line);
/** The file name on a fence, read as `builtin/rules-1` reads it. */
const named = /\b(?:file|path|title)=["']?([^\s"']+)/;

const longest = 80;

/** The first whole words of a text, at most `most` characters, without a code span that would stay open. */
export const inWords = (text: string, most: number): string => {
  const characters = Array.from(text);
  if (characters.length <= most) return text;
  const cut = characters.slice(0, most).join("");
  // The next character tells whether the last word is whole.
  const end = characters[most] === " " ? cut.length : cut.lastIndexOf(" ");
  const words = withoutEnd(end > 0 ? cut.slice(0, end) : cut);
  const opened = words.split("`").length % 2 === 0 ? words.lastIndexOf("`") : -1;
  const before = opened > 0 ? withoutEnd(words.slice(0, opened)) : "";
  return before === "" ? words : before;
};

/** Removes trailing spaces and punctuation that cannot end a phrase. */
const withoutEnd = (text: string): string => {
  let end = text.length;
  while (end > 0 && " ,;:(–-".includes(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end);
};
