import { counts, type Listed, order, place, plain, table } from "./markdown.ts";
import { type Asking, counted, linesOf } from "../step.ts";

/**
 * `licence report`: the project's own licence and those of its dependencies, which are the packages that locks name, as
 * the lock or the installed package states them. Nothing is looked up elsewhere; packages without a stated licence are
 * listed.
 */

type Package = { name: string; version: string; where: string; licence: string | undefined };

/** Prints lines of manifests, locks and installed packages, each `GROUP TAB FILE TAB NUMBER TAB TEXT`. */
const looking = `
show() { group=$1; pattern=$2; shift 2; for file in "$@"; do if [ -f "$file" ]; then awk -v group="$group" -v pattern="$pattern" '$0 ~ pattern { sub(/\\r$/, ""); printf "%s\\t%s\\t%d\\t%s\\n", group, FILENAME, FNR, substr($0, 1, 500) }' "$file"; fi; done; }
show own '^[ \\t]*"?license"?[ \\t]*[:=]' ./package.json ./pyproject.toml ./Cargo.toml
for file in ./LICENSE* ./LICENCE* ./COPYING*; do if [ -f "$file" ]; then awk '/[^ \\t\\r]/ { printf "own\\t%s\\t%d\\t%s\\n", FILENAME, FNR, substr($0, 1, 200); exit }' "$file"; fi; done
show npm '^    "[^"]*": [{]|^      "(version|license|link)":' ./package-lock.json ./npm-shrinkwrap.json
show pnpm "^packages:|^snapshots:|^  [^ ]*@[^ ]*:$" ./pnpm-lock.yaml
show yarn '^"?@?[^ #:"]+@|^  version:? ' ./yarn.lock
show toml '^(\\[\\[package\\]\\]|name = |version = |source = )' ./uv.lock ./poetry.lock ./Cargo.lock
show go '^[ \\t]*(require[ \\t]+)?[A-Za-z0-9][^ \\t]*\\.[^ \\t]+[ \\t]+v[0-9]' ./go.mod
show js '^  "(name|version|license)":' ./node_modules/*/package.json ./node_modules/@*/*/package.json
show py '^(Name|Version|License|License-Expression|Classifier: License ::.*):? ' ./.venv/lib/python*/site-packages/*.dist-info/METADATA
show crate '^(name|version|license) *=' ./vendor/*/Cargo.toml
for file in ./vendor/*/*/LICENSE ./vendor/*/*/*/LICENSE ./vendor/*/*/LICENSE.txt ./vendor/*/*/*/LICENSE.txt; do if [ -f "$file" ]; then awk '/[^ \\t\\r]/ { printf "gomod\\t%s\\t%d\\t%s\\n", FILENAME, FNR, substr($0, 1, 200); exit }' "$file"; fi; done
:`;

type Row = { group: string; file: string; line: number; text: string };

export function* licences(): Asking<Listed | { why: string }> {
  const read = yield* linesOf(looking);
  if ("why" in read) return read;
  if (!read.whole) return { why: "the project's locks and installed packages state more than could be read" };
  const rows = read.lines.flatMap((line): Row[] => {
    const [, group = "", file = "", number, text = ""] = /^(\w+)\t\.\/(.+?)\t(\d+)\t(.*)$/.exec(line) ?? [];
    return group === "" ? [] : [{ group, file, line: Number(number), text }];
  });
  const of = (group: string) => rows.filter((row) => row.group === group);
  const installed = installedOf(rows);
  const packages = [...npm(of("npm")), ...pnpm(of("pnpm")), ...yarn(of("yarn")), ...toml(of("toml")), ...go(of("go"))]
    .map((found) => ({
      ...found,
      licence: found.licence ?? installed.get(`${found.name}@${found.version}`) ?? installed.get(found.name),
    }))
    .toSorted((left, right) => order(left.name, right.name) || order(left.version, right.version));
  const own = of("own").map(({ file, line, text }) => [place(file, line), plain(valueOf(text))]);
  const named = packages.map(({ licence = "not stated" }) => licence);
  const kinds = counts(named).map(([name, count]) => `${plain(name)} ${count}`);
  const summary = `${counted(packages.length, "dependency").replace(/ys$/, "ies")}${packages.length === 0 ? " in a lock" : `: ${kinds.slice(0, 12).join(", ")}${kinds.length > 12 ? ` and ${kinds.length - 12} kinds more` : ""}`}.`;
  const lines = ["# Licences", "", summary, "", "## This project", ""];
  lines.push(
    ...(own.length === 0
      ? ["No licence is stated in its manifest or in a file of its own."]
      : table(["Where", "Licence"], own)),
  );
  if (packages.length > 0)
    lines.push(
      "",
      "## Dependencies",
      "",
      "As the lock or the installed package states it; nothing was looked up elsewhere.",
      "",
      ...table(
        ["Package", "Version", "Licence", "Where"],
        packages.map(({ name, version, licence = "not stated", where }) => [
          plain(name),
          plain(version),
          plain(licence),
          where,
        ]),
      ),
    );
  return { lines, summary };
}

/** The text after the first `:` or `=`, without quotes; the whole line where there is none. */
const valueOf = (text: string): string => {
  const value = text
    .slice(text.search(/[:=]/) + 1)
    .trim()
    .replace(/,$/, "");
  return /^"([^"]*)"/.exec(value)?.[1] ?? /^'([^']*)'/.exec(value)?.[1] ?? value;
};

const npm = (rows: readonly Row[]): Package[] => {
  const found: Package[] = [];
  let skip = true;
  for (const { file, line, text } of rows) {
    const path = /^ {4}"([^"]*)": \{/.exec(text)?.[1];
    if (path !== undefined) {
      const at = path.lastIndexOf("node_modules/");
      skip = at < 0;
      if (!skip) found.push({ name: path.slice(at + 13), version: "", where: place(file, line), licence: undefined });
      continue;
    }
    const last = found.at(-1);
    if (skip || last === undefined) continue;
    if (/^ {6}"link":/.test(text)) {
      found.pop();
      skip = true;
    } else if (/^ {6}"version":/.test(text)) last.version = valueOf(text);
    else last.licence = valueOf(text);
  }
  return found;
};

const pnpm = (rows: readonly Row[]): Package[] => {
  const found: Package[] = [];
  let inside = false;
  for (const { file, line, text } of rows) {
    if (!text.startsWith(" ")) inside = text.startsWith("packages:");
    const named = inside ? /^ {2}'?\/?(@?[^@'\s]+)@([^'():\s]+)/.exec(text) : null;
    if (named?.[1] !== undefined)
      found.push({ name: named[1], version: named[2] ?? "", where: place(file, line), licence: undefined });
  }
  return found;
};

const yarn = (rows: readonly Row[]): Package[] => {
  const found: Package[] = [];
  for (const { file, line, text } of rows) {
    const name = /^"?(@?[^@"\s]+)@/.exec(text)?.[1];
    const last = found.at(-1);
    if (name !== undefined) found.push({ name, version: "", where: place(file, line), licence: undefined });
    else if (last?.version === "")
      last.version = text
        .trim()
        .replace(/^version:? /, "")
        .replaceAll('"', "");
  }
  // Leaves out the project's own workspaces.
  return found.filter(({ version }) => version !== "0.0.0-use.local");
};

const toml = (rows: readonly Row[]): Package[] => {
  const found: (Package & { own: boolean })[] = [];
  for (const { file, line, text } of rows) {
    const last = found.at(-1);
    if (text.startsWith("[["))
      found.push({ name: "", version: "", where: place(file, line), licence: undefined, own: file === "Cargo.lock" });
    else if (last === undefined) continue;
    else if (text.startsWith("name")) last.name = valueOf(text);
    else if (text.startsWith("version")) last.version = valueOf(text);
    else last.own = /\b(?:editable|virtual|directory)\s*=/.test(text);
  }
  return found
    .filter(({ name, own }) => name !== "" && !own)
    .map(({ name, version, where, licence }) => ({ name, version, where, licence }));
};

const go = (rows: readonly Row[]): Package[] =>
  rows.flatMap(({ file, line, text }) => {
    const [, name, version] = /^\s*(?:require\s+)?(\S+)\s+(v\S+)/.exec(text) ?? [];
    return name === undefined || version === undefined || text.includes("=>")
      ? []
      : [{ name, version, where: place(file, line), licence: undefined }];
  });

/** Licences of installed packages, by `name@version`; of Go modules, by name. */
const installedOf = (rows: readonly Row[]): Map<string, string> => {
  const stated = new Map<string, { name: string; version: string; licence: string }>();
  for (const { group, file, text } of rows) {
    if (!["js", "py", "crate", "gomod"].includes(group)) continue;
    const entry = stated.get(file) ?? { name: "", version: "", licence: "" };
    stated.set(file, entry);
    const key = text.trim().toLowerCase();
    if (group === "gomod")
      [entry.name, entry.licence] = [file.replace(/^vendor\/|\/LICENSE(?:\.txt)?$/g, ""), text.trim()];
    else if (key.startsWith("classifier")) entry.licence ||= text.split("::").at(-1)?.trim() ?? "";
    else if (/^"?name/.test(key)) entry.name ||= valueOf(text).trim();
    else if (/^"?version/.test(key)) entry.version ||= valueOf(text).trim();
    else entry.licence ||= valueOf(text).trim();
  }
  return new Map(
    [...stated.values()]
      .filter(({ name, licence }) => name !== "" && licence !== "" && licence !== "{")
      .map(({ name, version, licence }) => [version === "" ? name : `${name}@${version}`, licence]),
  );
};
