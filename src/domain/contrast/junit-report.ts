import type { Report } from "./report.ts";

/** Reads JUnit's XML as pytest writes it, in one pass over its tags. */

export const readJunitReport = (text: string): Report | undefined => {
  if (!text.includes("<testsuite")) return undefined;
  const report: Report = { tests: [], broken: [] };
  for (const part of text.split("<testcase ").slice(1)) {
    const { fields, end } = attributesOf(part, 0);
    const body = part[end - 1] === "/" ? "" : part.slice(end + 1, endOf(part, "</testcase>"));
    const name = [fields.get("classname") ?? "", fields.get("name") ?? ""].filter((word) => word !== "").join("::");
    const failure = body.indexOf("<failure");
    const error = body.indexOf("<error");
    const failed = failure >= 0 ? failure : error;
    const { fields: why, end: opened } =
      failed < 0 ? { fields: new Map<string, string>(), end: 0 } : attributesOf(body, failed);
    const told =
      failed < 0 ? "" : `${why.get("message") ?? ""}\n${unescaped(body.slice(opened + 1, body.indexOf("</", opened)))}`;
    if (error >= 0 && failure < 0) report.broken.push(`${name}: ${told}`);
    else
      report.tests.push({
        file: fields.get("file") ?? null,
        name,
        outcome: failure >= 0 ? "failed" : body.includes("<skipped") ? "skipped" : "passed",
        message: why.get("message") ?? "",
      });
  }
  return report;
};

const endOf = (text: string, mark: string): number => {
  const at = text.indexOf(mark);
  return at < 0 ? text.length : at;
};

/** The attributes of the tag that is open at `from`, and the position where the tag ends. */
const attributesOf = (text: string, from: number): { fields: Map<string, string>; end: number } => {
  const fields = new Map<string, string>();
  let at = from;
  for (;;) {
    const close = text.indexOf(">", at);
    const equals = text.indexOf('="', at);
    if (equals < 0 || (close >= 0 && close < equals)) return { fields, end: close < 0 ? text.length : close };
    const before = text.slice(at, equals);
    const end = endOf(text.slice(equals + 2), '"') + equals + 2;
    fields.set(before.slice(before.lastIndexOf(" ") + 1), unescaped(text.slice(equals + 2, end)));
    at = end + 1;
  }
};

const named: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

const unescaped = (text: string): string =>
  text.replaceAll(/&(#x?[0-9a-fA-F]{1,6}|[a-z]{1,5});/g, (whole, name: string) => {
    if (!name.startsWith("#")) return named[name] ?? whole;
    const code = name.startsWith("#x") ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return code >= 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
