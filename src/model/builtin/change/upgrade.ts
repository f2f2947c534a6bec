import type { Bump } from "../grammar/instruction.ts";
import { bumpWith, type Manager, managers, programs } from "./package-manager.ts";
import { type Kind, kinds, type Stated, statedIn } from "./manifest.ts";
import { type Asking, commandSeconds, done, endOf, failed, firstFailure, linesOf, one, type Step } from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";

/**
 * `bump NAME to VERSION`: finds the manifest that states the dependency and the lock above it, and has the project's
 * package manager set the version. Success is decided by the content of the two files afterwards, not by the exit code
 * alone.
 */

type Place = { manifest: string; folder: string; kind: Kind; stated: Stated };

export function* bump(wish: Bump): Step {
  const found = yield* find(wish);
  if ("why" in found) return failed(found.why);
  const { place, lock, others } = found;
  const lockFolder = folderOf(lock);
  const before = yield* stateOf(place, wish.name, lock, lockFolder);
  if ("why" in before) return failed(before.why);

  const manager: Manager =
    managers[nameOf(lock)] === "yarn" && before.berry ? "berry" : (managers[nameOf(lock)] ?? "npm");
  const member = place.folder === lockFolder ? "" : place.folder.slice(lockFolder === "" ? 0 : lockFolder.length + 1);
  const { root, installed } = before;
  const { name, version } = wish;
  const made = bumpWith(manager, { name, version, stated: place.stated, member, root, installed });
  if ("why" in made) return failed(made.why);
  if (place.stated.spec === made.spec)
    return failed(`${place.manifest} says "${made.spec}" already, so nothing would change`);

  const program = programs[manager];
  const there = yield* one({ tool: "shell", input: { command: `command -v ${program}`, timeoutSeconds: 60 } });
  if (there.outcome !== "ok")
    return failed(
      `${lock} is kept by ${program}, and the commands of this service find no ${program}; install it there`,
    );

  const runs = [lockFolder, made.folder].filter((part) => part !== "").join("/");
  const ran = yield* one({
    tool: "shell",
    input: { command: guarded(made.command, runs, [place.manifest, lock]), timeoutSeconds: commandSeconds },
  });
  if (ran.outcome !== "ok")
    return failed(`\`${made.command}\`, ${endOf(ran)} (${firstFailure(ran.output)})${remedy(ran.output)}`);

  const after = yield* stateOf(place, name, lock, lockFolder);
  if ("why" in after) return failed(after.why);
  const now = after.stated.find(({ section }) => section === place.stated.section)?.spec;
  if (now === undefined || !sameSpec(now, made.spec))
    return failed(
      `\`${made.command}\` ended well, but ${place.manifest} says "${now ?? "nothing"}" where "${made.spec}" was expected`,
    );
  if (after.sum === before.sum) return failed(`\`${made.command}\` ended well, but ${lock} did not change`);
  const left = others.length === 0 ? "" : ` Left as they are: ${others.join(", ")}.`;
  return done(
    `${name} in ${place.manifest} from "${place.stated.spec}" to "${now}"; ${lock} changed (\`${made.command}\`, ${endOf(ran)}).${left}`,
  );
}

const sameSpec = (left: string, right: string): boolean =>
  left.replaceAll(/\s+/g, "").replaceAll("'", '"') === right.replaceAll(/\s+/g, "").replaceAll("'", '"');

// ---- which manifest, which lock ------------------------------------------------------------------------------------

const nameOf = (path: string): string => path.split("/").at(-1) ?? path;
const folderOf = (path: string): string => path.split("/").slice(0, -1).join("/");
const within = (folder: string, path: string): boolean =>
  folder === "" || path === folder || path.startsWith(`${folder}/`);

/** `others`: statements of the same dependency that stay unchanged. */
type Found = { place: Place; lock: string; others: string[] } | { why: string };

const most = 20;

function* find({ name, folder }: Bump): Asking<Found> {
  const names = [...Object.keys(kinds), ...Object.keys(managers)];
  const listing = yield* linesOf(
    `if git rev-parse --is-inside-work-tree >/dev/null 2>&1\n` +
      `then git -c core.quotePath=false ls-files -co --exclude-standard -- ${names.map((file) => shellQuote(`:(glob)**/${file}`)).join(" ")}\n` +
      `else find . \\( -name node_modules -o -name .venv -o -name target -o -name .git \\) -prune -o -type f \\( ${names.map((file) => `-name ${file}`).join(" -o ")} \\) -print | sed 's|^\\./||'\n` +
      `fi | sort -u | while IFS= read -r file; do if [ -f "$file" ] && [ ! -h "$file" ]; then case "$file" in\n` +
      `${Object.keys(kinds)
        .map((file) => `${file}|*/${file}`)
        .join("|")}) if grep -qiF -e ${shellQuote(longest(name))} -- "$file"; then printf 'm\\t%s\\n' "$file"; fi;;\n` +
      `*) printf 'l\\t%s\\n' "$file";; esac; fi; done`,
  );
  if ("why" in listing) return listing;
  if (!listing.whole) return { why: "the project has too many manifests to look through; name one with `in FOLDER`" };
  const of = (mark: string) => listing.lines.flatMap((line) => (line.startsWith(`${mark}\t`) ? [line.slice(2)] : []));
  const locks = of("l");
  const asked = of("m").filter((path) => folder === undefined || folderOf(path) === folder);
  if (asked.length > most) return { why: `${asked.length} manifests may name ${name}; name one with \`in FOLDER\`` };

  const places: Place[] = [];
  for (const manifest of asked) {
    const kind = kinds[nameOf(manifest)];
    if (kind === undefined) continue;
    const read = yield* linesOf(`cat -- ${shellQuote(`./${manifest}`)}`);
    if ("why" in read) return read;
    for (const stated of statedIn(kind, read.lines, name))
      places.push({ manifest, folder: folderOf(manifest), kind, stated });
  }
  return choose(name, folder, places, locks);
}

/** The longest part of a name, which a manifest contains in every spelling: PyPI accepts `a_b` for `a-b`. */
const longest = (name: string): string =>
  name.split(/[-_.]+/).reduce((best, part) => (part.length > best.length ? part : best), "");

/** The place nearest to the root; a peer dependency only where no other section states it. */
const choose = (
  name: string,
  folder: string | undefined,
  places: readonly Place[],
  locks: readonly string[],
): Found => {
  const where = folder === undefined ? "" : ` in ${folder === "" ? "the root" : folder}`;
  if (places.length === 0) return { why: `looked for a manifest${where} that has ${name} as a dependency, found none` };
  const rank = ({ folder: at, stated }: Place) =>
    (at === "" ? 0 : at.split("/").length) * 2 + (stated.section === "peerDependencies" ? 1 : 0);
  const ranked = places.toSorted((left, right) => rank(left) - rank(right));
  const [place, next] = ranked;
  if (place === undefined) return { why: `${name} is in no manifest` };
  const said = ({ manifest, stated }: Place) => `${manifest}${stated.section === "" ? "" : ` (${stated.section})`}`;
  if (next !== undefined && rank(next) === rank(place)) {
    const ties = ranked.filter((other) => rank(other) === rank(place)).map(said);
    return { why: `${name} is a dependency in ${ties.join(" and ")}; name one folder with \`in FOLDER\`` };
  }
  const wanted = Object.entries(managers).flatMap(([file, manager]) => (kindOf[manager] === place.kind ? [file] : []));
  const above = locks.filter((lock) => wanted.includes(nameOf(lock)) && within(folderOf(lock), place.folder));
  const depth = Math.max(...above.map((lock) => folderOf(lock).length));
  const nearest = above.filter((lock) => folderOf(lock).length === depth);
  const [lock] = nearest;
  if (lock === undefined)
    return { why: `expected a lock for ${place.manifest} that Git does not ignore (${wanted.join(", ")}), found none` };
  if (nearest.length > 1) return { why: `expected one lock for ${place.manifest}, found ${nearest.join(" and ")}` };
  return { place, lock, others: ranked.slice(1).map(said) };
};

const kindOf: Readonly<Record<Manager, Kind>> = {
  npm: "npm",
  pnpm: "npm",
  yarn: "npm",
  berry: "npm",
  bun: "npm",
  uv: "python",
  cargo: "cargo",
  go: "go",
};

// ---- before and after ----------------------------------------------------------------------------------------------

type State = { sum: string; stated: Stated[]; berry: boolean; root: boolean; installed: boolean };

/** Reads what manifest and lock say, by one command. */
function* stateOf(
  { manifest, kind }: Place,
  name: string,
  lock: string,
  folder: string,
): Asking<State | { why: string }> {
  const at = (file: string) => shellQuote(`./${folder === "" ? "" : `${folder}/`}${file}`);
  const read = yield* linesOf(
    `cksum < ${shellQuote(`./${lock}`)}\n` +
      `if head -n 20 -- ${shellQuote(`./${lock}`)} | grep -q '^__metadata:'; then echo berry; else echo -; fi\n` +
      `if [ -f ${at("pnpm-workspace.yaml")} ] || grep -qs '"workspaces"' ${at("package.json")}; then echo root; else echo -; fi\n` +
      `if [ -d ${at("node_modules")} ] && [ ! -h ${at("node_modules")} ]; then echo installed; else echo -; fi\n` +
      `cat -- ${shellQuote(`./${manifest}`)}`,
  );
  if ("why" in read) return read;
  const [sum = "", berry, root, installed, ...lines] = read.lines;
  return {
    sum,
    stated: statedIn(kind, lines, name),
    berry: berry === "berry",
    root: root === "root",
    installed: installed === "installed",
  };
}

/** A script that runs a command in a folder, and restores the files when it fails. */
const guarded = (command: string, folder: string, files: readonly string[]): string =>
  [
    "keep=$(mktemp -d) || exit 97",
    ...files.map((file, at) => `cp -p -- ${shellQuote(`./${file}`)} "$keep/${at}" || exit 97`),
    `( ${folder === "" ? "" : `cd -- ${shellQuote(`./${folder}`)} && `}${command} )`,
    "code=$?",
    `if [ "$code" -ne 0 ]; then ${files.map((file, at) => `cp -p -- "$keep/${at}" ${shellQuote(`./${file}`)}`).join("; ")}; fi`,
    'rm -rf -- "$keep"',
    'exit "$code"',
  ].join("\n");

const offline =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ETIMEDOUT|ERR_SOCKET|getaddrinfo|could not resolve host|temporary failure in name resolution|dial tcp|dns error|error sending request|network is unreachable|failed to (?:download|fetch|connect)|spurious network error/i;

const remedy = (output: string): string =>
  offline.test(output)
    ? "; the registry cannot be reached. Commands in the sandbox have no network unless the service's config.jsonc says `sandbox: { network: true }` (sandbox.network: true)"
    : "";
