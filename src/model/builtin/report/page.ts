/** Finds links and anchors of Markdown pages, from the lines that can hold them. Pure. */

export type Link = { line: number; target: string };
/** `anchors`: in lower case. */
export type Page = { links: Link[]; anchors: Set<string> };

/** Takes lines `./PATH TAB NUMBER TAB TEXT`; returns pages by path from the root. A line may occur twice. */
export const pagesOf = (lines: readonly string[]): Map<string, Page> => {
  const texts = new Map<string, Map<number, string>>();
  for (const line of lines) {
    const [, path, number, text] = /^\.\/(.+?)\t(\d+)\t(.*)$/.exec(line) ?? [];
    if (path === undefined || text === undefined) continue;
    const page = texts.get(path) ?? new Map<number, string>();
    page.set(Number(number), text.replace(/\r$/, ""));
    texts.set(path, page);
  }
  return new Map([...texts].map(([path, page]) => [path, pageOf([...page].toSorted(([a], [b]) => a - b))]));
};

const pageOf = (lines: readonly [number, string][]): Page => {
  const page: Page = { links: [], anchors: new Set() };
  const slugs = new Map<string, number>();
  const heading = (text: string) => {
    const slug = slugOf(text);
    const before = slugs.get(slug) ?? 0;
    slugs.set(slug, before + 1);
    page.anchors.add(before === 0 ? slug : `${slug}-${before}`);
  };
  let fence = "";
  let comment = false;
  for (const [at, [number, whole]] of lines.entries()) {
    const mark = /^[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*(`{3,}|~{3,})(.*)$/s.exec(whole);
    if (fence !== "") {
      if (mark?.[1]?.startsWith(fence) === true && (mark[2] ?? "").trim() === "") fence = "";
      continue;
    }
    if (mark?.[1] !== undefined && !(mark[1].startsWith("`") && (mark[2] ?? "").includes("`"))) {
      fence = mark[1];
      continue;
    }
    let text = whole;
    if (comment) {
      const close = text.indexOf("-->");
      if (close < 0) continue;
      text = text.slice(close + 3);
      comment = false;
    }
    text = withoutComments(withoutCode(text));
    const open = text.indexOf("<!--");
    if (open >= 0) {
      text = text.slice(0, open);
      comment = true;
    }
    const sharps = /^ {0,3}#{1,6}(?=[ \t]|$)/.exec(whole)?.[0];
    const title = sharps === undefined ? undefined : withoutSharps(whole.slice(sharps.length).trim());
    if (title !== undefined) heading(title);
    const under = lines[at + 1];
    if (
      title === undefined &&
      under?.[0] === number + 1 &&
      /^ {0,3}(?:=+|-+)[ \t]*$/.test(under[1]) &&
      text.trim() !== ""
    )
      heading(whole);
    for (const [name, value] of attributesIn(text))
      if (name === "id" || name === "name") page.anchors.add(value.toLowerCase());
    for (const target of targetsIn(text)) page.links.push({ line: number, target });
  }
  return page;
};

/** Removes inline code, which holds no links; a span ends with as many backticks as it begins with. */
const withoutCode = (text: string): string => {
  const parts = text.split(/(`+)/);
  let rest = "";
  for (let at = 0; at < parts.length; at += 1) {
    const part = parts[at] ?? "";
    const close = part.startsWith("`") ? parts.indexOf(part, at + 1) : -1;
    if (close < 0) rest += part;
    else at = close;
  }
  return rest;
};

const withoutComments = (text: string): string => {
  let rest = "";
  for (let at = 0; ; ) {
    const open = text.indexOf("<!--", at);
    const close = open < 0 ? -1 : text.indexOf("-->", open);
    if (close < 0) return rest + text.slice(at);
    rest += text.slice(at, open);
    at = close + 3;
  }
};

/** Removes the closing `#` signs of a heading. */
const withoutSharps = (text: string): string => {
  let end = text.length;
  while (text[end - 1] === "#") end -= 1;
  return end === 0 || /[ \t]/.test(text[end - 1] ?? "") ? text.slice(0, end).trim() : text;
};

const tags = /<[a-z][^<>]*>/gi;
const attribute = /\s(id|name|href|src)\s{0,8}=\s{0,8}(?:"([^"]{0,2000})"|'([^']{0,2000})'|([^"'\s>]{1,2000}))/gi;

const attributesIn = (text: string): [name: string, value: string][] =>
  [...text.matchAll(tags)].flatMap(([tag]) =>
    [...tag.matchAll(attribute)].map(([, name = "", double, single, bare = ""]): [string, string] => [
      name.toLowerCase(),
      double ?? single ?? bare,
    ]),
  );

const inline =
  /\]\([ \t]{0,8}(?:<([^<>]{0,2000})>|((?:[^\s()<\\]|\\.|\((?:[^\s()\\]|\\.){0,2000}\)){0,2000}))(?:[ \t]{1,8}(?:"[^"]{0,500}"|'[^']{0,500}'|\([^()]{0,500}\)))?[ \t]{0,8}\)/g;
const definition = /^ {0,3}\[(?!\^)[^\]]+\]:[ \t]*(?:<([^<>]*)>|(\S+))/;

const targetsIn = (text: string): string[] => {
  const defined = definition.exec(text);
  const found = [...text.matchAll(inline), ...(defined === null ? [] : [defined])];
  const linked = attributesIn(text).flatMap(([name, value]) => (name === "href" || name === "src" ? [value] : []));
  return [...found.map(([, first, second]) => first ?? second ?? ""), ...linked]
    .map((target) => target.replaceAll(/\\([!-/:-@[-`{-~])/g, "$1").replaceAll("&amp;", "&"))
    .filter((target) => target !== "");
};

/** The anchor of a heading, as GitHub and GitLab generate it. */
const slugOf = (heading: string): string =>
  heading
    .replaceAll(/!?\[([^[\]]*)\]\([^()]*\)/g, "$1")
    .replaceAll(/<[^<>]*>/g, "")
    .replaceAll(/(?<![\p{L}\p{N}_])(_{1,2})(?=[^\s_])([^_]*[^\s_])\1(?![\p{L}\p{N}_])/gu, "$2")
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "")
    .replaceAll(" ", "-");
