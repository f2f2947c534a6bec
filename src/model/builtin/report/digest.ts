import { type Listed, place, plain, table } from "./markdown.ts";
import { type Asking, counted, linesOf, one } from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";

/**
 * `summarise PATH` of a log: how many lines of each level, where the first and last are, and which messages are most
 * frequent.
 */

const levels = ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", ""];

/**
 * One pass in bounded memory: at most 20,000 distinct messages are counted. The level is a JSON `level`, else the first
 * level word in the first 300 characters; messages are compared without numbers and ids.
 */
const program = `
BEGIN {
  split("FATAL FATAL CRITICAL FATAL EMERG FATAL PANIC FATAL ERROR ERROR ERR ERROR SEVERE ERROR WARN WARN WARNING WARN INFO INFO NOTICE INFO DEBUG DEBUG TRACE TRACE", pair, " ")
  for (i = 1; i in pair; i += 2) level[pair[i]] = pair[i + 1]
  level["60"] = "FATAL"; level["50"] = "ERROR"; level["40"] = "WARN"; level["30"] = "INFO"; level["20"] = "DEBUG"; level["10"] = "TRACE"
}
{
  sub(/\\r$/, "")
  if ($0 ~ /^[ \\t]*$/) { blank++; next }
  found = ""
  head = substr($0, 1, 300)
  if (match(head, /"(level|severity|levelname)"[ ]*:[ ]*"?[A-Za-z0-9]+/)) {
    word = substr(head, RSTART, RLENGTH); sub(/^.*[ :"]/, "", word); word = toupper(word)
    if (word in level) found = level[word]
  }
  if (found == "") {
    n = split(head, words, /[^A-Za-z]+/)
    for (i = 1; i <= n; i++) { word = toupper(words[i]); if (words[i] != "" && word in level) { found = level[word]; break } }
  }
  seen[found]++; if (!(found in first)) first[found] = NR; last[found] = NR
  key = head
  gsub(/[0-9a-fA-F]*[0-9][0-9a-fA-F]*/, "#", key)
  if (key in times) { times[key]++; until[key] = NR }
  else if (kinds < 20000) { kinds++; times[key] = 1; from[key] = NR; until[key] = NR; said[key] = head }
  else rest++
}
END {
  printf "lines\\t%d\\t%d\\t%d\\n", NR, blank, rest
  for (f in seen) printf "level\\t%d\\t%d\\t%d\\t%s\\n", seen[f], first[f], last[f], f
  for (k in times) if (times[k] > 1) printf "said\\t%d\\t%d\\t%d\\t%s\\n", times[k], from[k], until[k], said[k]
}`;

export function* digest(path: string): Asking<Listed | { why: string }> {
  const there = yield* one({ tool: "list", input: { path } });
  if (there.outcome !== "ok") return { why: there.output };
  const read = yield* linesOf(
    `file=${shellQuote(`./${path}`)}\n` +
      `if [ -h "$file" ] || [ ! -f "$file" ]; then echo "error: expected a file"; exit 3; fi\n` +
      `if [ "$(head -c 8000 -- "$file" | tr -d '\\000' | wc -c)" -eq "$(head -c 8000 -- "$file" | wc -c)" ]; then :; else echo "error: expected a text"; exit 3; fi\n` +
      `awk ${shellQuote(program)} "$file" | sort -t "$(printf '\\t')" -k1,1 -k2,2nr -k3,3n | awk -F '\\t' '$1 != "said" || ++n <= 20'`,
  );
  if ("why" in read)
    return { why: read.why.replace(/^exit 3 after [\d.]+ s \(error: (.*)\)$/, `$1, got something else at ${path}`) };
  const rows = read.lines.map((line) => line.split("\t"));
  const [, all = "0", blank = "0", rest = "0"] = rows.find(([kind]) => kind === "lines") ?? [];
  const row = ([, count = "", first = "", last = "", ...text]: string[], name: (text: string) => string) => [
    name(text.join("\t")),
    count,
    place(path, Number(first)),
    place(path, Number(last)),
  ];
  const found = rows
    .filter(([kind]) => kind === "level")
    .toSorted((left, right) => levels.indexOf(left[4] ?? "") - levels.indexOf(right[4] ?? ""));
  const said = rows.filter(([kind]) => kind === "said");
  const told = found.map((cells) => `${cells[4] === "" ? "without a level" : cells[4]} ${cells[1]}`).join(", ");
  const summary = `${counted(Number(all), "line")} in ${place(path, undefined)}${blank === "0" ? "" : ` (${blank} blank)`}${told === "" ? "" : `: ${told}`}.`;
  const lines = [`# Summary of ${place(path, undefined)}`, "", summary];
  if (found.length > 0)
    lines.push(
      "",
      "## By level",
      "",
      ...table(
        ["Level", "Lines", "First", "Last"],
        found.map((cells) => row(cells, (text) => (text === "" ? "none" : text))),
      ),
    );
  if (said.length > 0)
    lines.push(
      "",
      "## Said most often",
      "",
      "Lines that differ in numbers and ids alone count as one; the first of each is shown.",
      "",
      ...table(
        ["Message", "Times", "First", "Last"],
        said.map((cells) => row(cells, plain)),
      ),
    );
  if (rest !== "0") lines.push("", `${rest} lines were not compared: more than 20,000 different ones came before.`);
  return { lines, summary };
}
