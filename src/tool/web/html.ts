/**
 * Converts a web page to text with Markdown's headings, lists, links and code. One pass, in time linear in the page.
 */

/** Elements without content for readers. */
const unread = new Set(["script", "style", "template", "svg", "noscript", "iframe", "object", "select", "canvas"]);
const blocks = new Set(
  "address article aside blockquote dd details div dl dt fieldset figcaption figure footer form header hr main nav ol p section summary table tbody thead tr ul".split(
    " ",
  ),
);
/** In characters; a tag that is not closed by then counts as ended there. */
const maxTag = 16_384;

export const htmlToText = (html: string, base: string): { title: string; text: string } => {
  const lower = html.toLowerCase();
  const out: string[] = [];
  const links: string[] = [];
  let title = "";
  let pre = 0;
  let at = 0;
  const say = (raw: string) => {
    const text = entities(raw);
    out.push(pre > 0 ? text : text.replaceAll(/[\t\n\f\r ]+/g, " "));
  };
  while (at < html.length) {
    const start = markupAt(html, at);
    if (start < 0) {
      say(html.slice(at));
      break;
    }
    if (start > at) say(html.slice(at, start));
    const [, slash = "", name = ""] = tagAt(lower, start);
    if (name === "") {
      at = afterMarkup(html, start);
      continue;
    }
    const end = endOfTag(html, start);
    const attributes = html.slice(start + 1 + slash.length + name.length, end - 1);
    at = end;
    const opens = slash === "";
    if (opens && (unread.has(name) || name === "title")) {
      const close = lower.indexOf(`</${name}`, end);
      if (name === "title" && title === "") title = entities(html.slice(end, close < 0 ? end : close)).trim();
      at = close < 0 ? html.length : close;
    } else if (name === "pre") {
      pre = Math.max(0, pre + (opens ? 1 : -1));
      out.push(opens ? "\n\n```\n" : "\n```\n\n");
    } else if (name === "code" && pre === 0) out.push("`");
    else if (/^h[1-6]$/.test(name)) out.push(opens ? `\n\n${"#".repeat(Number(name[1]))} ` : "\n\n");
    else if (name === "br") out.push("\n");
    else if (name === "li") out.push(opens ? "\n- " : "\n");
    else if (name === "td" || name === "th") out.push(opens ? " | " : "");
    else if (name === "a") link(opens, attributes);
    else if (name === "img" && opens) {
      const alt = attribute(attributes, "alt");
      if (alt !== "") out.push(`[image: ${alt}]`);
    } else if (blocks.has(name)) out.push("\n\n");
  }
  return { title: title.replaceAll(/\s+/g, " "), text: tidy(out.join("")) };

  function link(opens: boolean, attributes: string): void {
    if (opens) {
      const href = attribute(attributes, "href");
      const url = href === "" || href.startsWith("#") ? null : URL.parse(href, base);
      links.push(url !== null && /^https?:$/.test(url.protocol) ? url.href : "");
      if (links.at(-1) !== "") out.push("[");
      return;
    }
    const target = links.pop() ?? "";
    if (target !== "") out.push(`](${target})`);
  }
};

const tagName = /<(\/?)([a-z][a-z0-9-]{0,30})(?![a-z0-9-])/y;

const tagAt = (lower: string, start: number): RegExpExecArray | [] => {
  tagName.lastIndex = start;
  return tagName.exec(lower) ?? [];
};

const begins = /[!?/a-z]/i;

/** The offset of the next `<` that begins markup; -1: there is none. */
const markupAt = (html: string, from: number): number => {
  let at = html.indexOf("<", from);
  while (at >= 0 && !begins.test(html[at + 1] ?? "")) at = html.indexOf("<", at + 1);
  return at;
};

/** The offset after a comment, a declaration, or a nameless tag. */
const afterMarkup = (html: string, start: number): number => {
  const mark = html.startsWith("<!--", start) ? "-->" : ">";
  const end = html.indexOf(mark, start + 1);
  return end < 0 ? html.length : end + mark.length;
};

/**
 * The offset after the tag's `>`, ignoring any inside quotes. A tag that is too long is skipped and never scanned
 * twice.
 */
const endOfTag = (html: string, start: number): number => {
  const bound = Math.min(html.length, start + maxTag);
  let quote = "";
  for (let at = start + 1; at < bound; at += 1) {
    const char = html[at] ?? "";
    if (quote !== "") quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === ">") return at + 1;
  }
  return bound;
};

const patterns = {
  href: /(?:^|[\s"'/])href\s{0,20}=\s{0,20}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i,
  alt: /(?:^|[\s"'/])alt\s{0,20}=\s{0,20}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i,
};

const attribute = (attributes: string, name: keyof typeof patterns): string => {
  const found = patterns[name].exec(attributes.slice(0, 4000));
  return entities(found?.[1] ?? found?.[2] ?? found?.[3] ?? "").trim();
};

const named: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: " ",
  copy: "©",
  reg: "®",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
  laquo: "«",
  raquo: "»",
  bull: "•",
  middot: "·",
  times: "×",
  rarr: "→",
  larr: "←",
  para: "¶",
  euro: "€",
};

const entities = (text: string): string =>
  text.replaceAll(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,8}));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return named[String(name)] ?? whole;
    const code = decimal === undefined ? Number.parseInt(String(hex), 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "";
  });

/** Removes empty links, trailing white space and repeated empty lines; code stays unchanged. */
const tidy = (text: string): string => {
  const lines: string[] = [];
  let code = false;
  for (const raw of text.split("\n")) {
    if (raw.startsWith("```")) code = !code;
    const line = code ? raw.trimEnd() : raw.trim();
    if (line !== "" || (lines.at(-1) ?? "") !== "") lines.push(line);
  }
  return lines.join("\n").trim();
};
