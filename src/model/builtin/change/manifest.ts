/** Finds where a project's manifests state a dependency. Pure: takes the lines of a file. */

export type Kind = "npm" | "python" | "cargo" | "go";

export type Stated = {
  /** `devDependencies`, `dev-dependencies`, `project.dependencies`; empty for go. */
  section: string;
  /** The version as written: `^1.2.0`, `requests[socks]>=2.1`. */
  spec: string;
};

export const kinds: Readonly<Record<string, Kind>> = {
  "package.json": "npm",
  "pyproject.toml": "python",
  "Cargo.toml": "cargo",
  "go.mod": "go",
};

export const statedIn = (kind: Kind, lines: readonly string[], name: string): Stated[] => {
  switch (kind) {
    case "npm":
      return inPackage(lines.join("\n"), name);
    case "python":
      return inPyproject(lines, name);
    case "cargo":
      return inCargo(lines, name);
    case "go":
      return inGo(lines, name);
  }
};

const npmSections = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

const inPackage = (text: string, name: string): Stated[] => {
  const manifest = jsonOf(text);
  return npmSections.flatMap((section) => {
    const entries = manifest[section];
    if (typeof entries !== "object" || entries === null || !Object.hasOwn(entries, name)) return [];
    const spec = (entries as Record<string, unknown>)[name];
    return typeof spec === "string" ? [{ section, spec }] : [];
  });
};

/** The object that a JSON text holds; empty when the text holds none. */
export const jsonOf = (text: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text.replace(/^\uFEFF/, ""));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
};

/** PyPI treats `A_b` and `a-B` as one name. */
const pythonName = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, "-");

const inPyproject = (lines: readonly string[], name: string): Stated[] => {
  const found: Stated[] = [];
  let section = "";
  let list = "";
  for (const line of lines) {
    const header = /^\s*\[([^[\]]+)\]\s*(?:#.*)?$/.exec(line)?.[1];
    if (header !== undefined) {
      section = header.trim();
      list = "";
      continue;
    }
    const opened = /^\s*([\w.-]+)\s*=\s*\[/.exec(line)?.[1];
    if (opened !== undefined) list = opened;
    const place = `${section}.${list}`;
    const listed =
      place === "project.dependencies" ||
      place === "tool.uv.dev-dependencies" ||
      section === "project.optional-dependencies" ||
      section === "dependency-groups";
    if (listed && list !== "" && !/^\s*#/.test(line))
      for (const [, double, single] of line.matchAll(/"([^"]*)"|'([^']*)'/g)) {
        const spec = double ?? single ?? "";
        const named = /^\s*([A-Za-z0-9][\w.-]*?)\s*(?=$|[[\s<>=!~;@])/.exec(spec)?.[1];
        if (named !== undefined && pythonName(named) === pythonName(name)) found.push({ section: place, spec });
      }
    if (line.trimEnd().endsWith("]") || /\]\s{0,40}#/.test(line)) list = "";
  }
  return found;
};

const inCargo = (lines: readonly string[], name: string): Stated[] => {
  const found: Stated[] = [];
  let section = "";
  for (const line of lines) {
    const header = /^\s*\[([^[\]]+)\]\s*(?:#.*)?$/.exec(line)?.[1]?.trim();
    if (header !== undefined) {
      section = header;
      continue;
    }
    const own = /^(.*dependencies)\.["']?([\w-]+)["']?$/.exec(section);
    if (own !== null && own[2] === name) {
      const version = /^\s*(?:version|workspace|path|git)\s*=\s*(.*)$/.exec(line);
      if (version !== null)
        found.push({
          section: own[1] ?? "",
          spec: /^\s*version/.test(line) ? unquoted(version[1] ?? "") : line.trim(),
        });
      continue;
    }
    if (!/(?:^|\.)(?:dev-|build-)?dependencies$/.test(section)) continue;
    const entry = /^\s*["']?([\w-]+)["']?(?:\.(\w+))?\s*=\s*(.*)$/.exec(line);
    if (entry?.[1] !== name) continue;
    const value = entry[3] ?? "";
    const version = /\bversion\s*=\s*("[^"]*"|'[^']*')/.exec(value)?.[1] ?? (/^["']/.test(value) ? value : undefined);
    const plain = entry[2] === undefined || entry[2] === "version";
    const elsewhere = /\b(?:path|git|workspace|package)\s*=/.test(value);
    found.push({ section, spec: version !== undefined && plain && !elsewhere ? unquoted(version) : line.trim() });
  }
  return found;
};

const unquoted = (text: string): string =>
  /^\s*(?:"([^"]*)"|'([^']*)')/
    .exec(text)
    ?.slice(1)
    .find((part) => part !== undefined) ?? text.trim();

const inGo = (lines: readonly string[], name: string): Stated[] =>
  lines.flatMap((line) => {
    const [, path, spec] = /^\s*(?:require\s+)?(\S+)\s+(v\d\S*)(?:\s|$)/.exec(line) ?? [];
    return path === name && spec !== undefined && !line.includes("=>") ? [{ section: "", spec }] : [];
  });
