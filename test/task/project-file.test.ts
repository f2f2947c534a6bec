import { expect, test } from "vitest";
import { readDevcontainer } from "../../src/task/worker/devcontainer.ts";
import { readEnvironment } from "../../src/task/worker/environment.ts";
import { readRules } from "../../src/task/worker/project-rules.ts";
import { parseJsonc } from "../../src/json.ts";
import { temporary, writeFiles } from "../harness/project.ts";

/** Files of a project in which something is nested so deep that reading it would end the stack. */

const deep = 10_000;
const nested: [string, string][] = [
  ["lists", "[".repeat(deep)],
  ["objects", '{"a":'.repeat(deep)],
  ["both, closed", `${'[{"a":'.repeat(deep / 2)}1${"}]".repeat(deep / 2)}`],
  ["behind a quote in a comment", `// "\n${"[".repeat(deep)}`],
  ["behind a comment that is not closed", `/* " */ ${"[".repeat(deep)}`],
];

const rulesOf = async (text: string) => {
  using temp = temporary();
  writeFiles(temp.path, { ".sortie/permissions.jsonc": text });
  return await readRules(temp.path);
};

test.each(nested)("%s: said to be so", async (_what, text) => {
  const problem = expect.stringMatching(/nested more than 64 levels deep/) as string;
  expect(readEnvironment(text)).toEqual({ problem });
  expect(readDevcontainer(text)).toEqual({ problem });
  expect(await rulesOf(text)).toEqual({ problem });
});

test("control: what is nested less is read, and brackets in words and comments do not count", async () => {
  expect(parseJsonc(`${"[".repeat(64)}${"]".repeat(64)}`).problem).toBeUndefined();
  expect(parseJsonc(`{ /* ${"[".repeat(deep)} */ "a": "${"[".repeat(deep)}", }`).problem).toBeUndefined();
  expect(readEnvironment('{ "variables": { "A": "[[[[" } } // "')).toEqual({ variables: { A: "[[[[" } });
  expect(await rulesOf('{ "deny": ["write(a)"] }')).toMatchObject([{ type: "permissions.read" }]);
});
