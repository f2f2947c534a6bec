import type { Facts } from "../../model.ts";
import { digest } from "./digest.ts";
import type { Inventory } from "../grammar/instruction.ts";
import { changelog, history } from "./history.ts";
import { licences } from "./licence.ts";
import { links } from "./link.ts";
import type { Listed } from "./markdown.ts";
import { type Asking, done, failed, firstLine, one, type Step, type World } from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";
import { todos } from "./todo.ts";

/**
 * Hands over lists as Markdown: in the file that the request names; for knowledge work, where the result is a document,
 * in a file with a default name; else in the report itself.
 */

type What = Inventory["what"];

const usual: Record<What, string> = {
  todos: "reports/todos.md",
  licences: "reports/licences.md",
  links: "reports/dead-links.md",
  log: "reports/git-log.md",
  changelog: "reports/changelog.md",
  digest: "reports/log-summary.md",
};

export const targetOf = ({ what, into }: Inventory, facts: Facts): string | undefined =>
  into ?? (facts.pillar === "work" ? usual[what] : undefined);

export function* inventory(wish: Inventory, { facts }: World): Step {
  const target = targetOf(wish, facts);
  const mark = `<!-- sortie: ${wish.what} -->`;
  if (target !== undefined) {
    const why = yield* taken(target, mark);
    if (why !== undefined) return failed(why);
  }
  const listed = yield* listOf(wish, target);
  if ("why" in listed) return failed(listed.why);
  const text = `${listed.lines.join("\n")}\n`;
  if (target === undefined) return done(text.trimEnd());
  const wrote = yield* one({ tool: "write", input: { path: target, content: `${mark}\n\n${text}` } });
  return wrote.outcome === "ok" ? done(`${firstLine(wrote.output)} ${listed.summary}`) : failed(wrote.output);
}

function listOf(wish: Inventory, target: string | undefined): Asking<Listed | { why: string }> {
  const of = wish.of ?? "";
  switch (wish.what) {
    case "todos":
      return todos(target);
    case "licences":
      return licences();
    case "links":
      return links(target);
    case "log":
      return history(of);
    case "changelog":
      return changelog(of);
    case "digest":
      return digest(of);
  }
}

/** Why a file may not be written: it exists and is no report of the same kind. A report of the same kind is updated. */
function* taken(path: string, mark: string): Asking<string | undefined> {
  const file = shellQuote(`./${path}`);
  const result = yield* one({
    tool: "shell",
    input: {
      command: `if [ ! -e ${file} ] && [ ! -h ${file} ]; then echo @free; elif [ -f ${file} ] && [ ! -h ${file} ] && head -n 1 -- ${file} | grep -qxF -e ${shellQuote(mark)}; then echo @own; else echo @taken; fi`,
      timeoutSeconds: 60,
    },
  });
  if (result.outcome !== "ok") return result.output;
  return /^@(?:free|own)$/m.test(result.output)
    ? undefined
    : `expected ${path} to be free, or a report that the same instruction wrote before; something else is there`;
}
