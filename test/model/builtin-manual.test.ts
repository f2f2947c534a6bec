import { readFileSync } from "node:fs";
import { parse as parseJsonc } from "jsonc-parser";
import { describe, expect, test } from "vitest";
import { configFile } from "../../src/config/file.ts";
import { forms } from "../../src/model/builtin/grammar/instruction.ts";
import { parse } from "../../src/model/builtin/grammar/parse.ts";

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
  test("the configuration is one", () => {
    const config = blocks.find(({ language }) => language === "jsonc");
    const parsed = configFile.safeParse(parseJsonc(config?.text ?? "", [], { allowTrailingComma: true }));
    expect(parsed.success).toBe(true);
    expect(configFile.safeParse({ rules: { codemods: { "a b": "x" } } }).success).toBe(false);
  });
});
