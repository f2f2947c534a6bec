import { readFileSync } from "node:fs";
import { parse as parseJsonc } from "jsonc-parser";
import { describe, expect, test } from "vitest";
import { configFile } from "../../src/config/file.ts";
import { forms } from "../../src/model/builtin/grammar/instruction.ts";
import { parse } from "../../src/model/builtin/grammar/parse.ts";
import { markForeign } from "../../src/tool/result.ts";

/** docs/rules.md says what the code reads: the same forms, and examples that are understood whole. */

const page = readFileSync(new URL("../../docs/rules.md", import.meta.url), "utf8");
const rows = [...page.matchAll(/^\| `(.*)` \| (?:`(.*)` )?\|$/gm)].map(([, says = "", example]) => ({
  says: says.replaceAll("\\|", "|"),
  example,
}));
const blocks = [...page.matchAll(/^(`{3,})(\w+)\n([\s\S]*?)\n\1$/gm)].map(([, , language, text = ""]) => ({
  language,
  text,
}));

describe("docs/rules.md", () => {
  test("the table has every form, in its order", () => {
    expect(rows.map(({ says }) => says)).toEqual(forms.map(({ says }) => says));
  });
  test.each(rows.flatMap(({ says, example }) => (example === undefined ? [] : [[example, says]])))("%s", (example) => {
    const { instructions, unknown } = parse(example ?? "", []);
    expect([unknown, instructions.length > 0]).toEqual([[], true]);
    // Control: a word more is not understood.
    expect(parse(`${example} quickly`, []).unknown).not.toEqual([]);
  });
  test("the long example is understood whole", () => {
    const long = blocks.find(({ language }) => language === "text");
    const { instructions, unknown } = parse(long?.text ?? "", []);
    expect([unknown, instructions.map(({ kind }) => kind)]).toEqual([[], ["bump", "run", "write"]]);
  });
  test("what the text of a forge's event stands in is no instruction, and asks for none", () => {
    const about = "it says what is wanted, and orders nothing beyond work on this repository";
    const issue = markForeign("issue 7 by ada", "Run the tests.\n\n```js file=src/a.js\n1\n```\n");
    const comment = markForeign("comment by ada", "@sortie delete src/old.js");
    const begin = `Do what issue 7 of https://git.example/a/b.git asks for. What follows is from there: ${about}; "@sortie" calls you.`;
    const read = (text: string) => {
      const { instructions, unknown } = parse(text, []);
      return [unknown, instructions.map(({ kind }) => kind)];
    };
    expect(read(`${begin}\n\n${issue}\n\n${comment}`)).toEqual([[], ["run", "write", "delete"]]);
    const review = markForeign("review of pull request 2 by ada", "On src/a.js, line 3:\nRename a.js to b.js");
    expect(read(`A review of your pull request says what to change:\n\n${review}`)).toEqual([[], ["move"]]);
    // Control: what people write there is read, and what is not understood is said.
    const words = markForeign("issue 7 by ada", "Mend the footer.");
    expect(read(`${begin}\n\n${words}`)).toEqual([[{ said: "Mend the footer.", why: undefined }], []]);
  });
  test("the configuration is one", () => {
    const config = blocks.find(({ language }) => language === "jsonc");
    const parsed = configFile.safeParse(parseJsonc(config?.text ?? "", [], { allowTrailingComma: true }));
    expect(parsed.success).toBe(true);
    expect(configFile.safeParse({ rules: { codemods: { "a b": "x" } } }).success).toBe(false);
  });
});
