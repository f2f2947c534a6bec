import { expect, test } from "vitest";
import { inThread } from "../../src/thread.ts";
import { outputReading, schemaReading } from "../../src/tool/output/schema.ts";

/** Which schemas may be sent, and what is said of an output that does not meet one. */

const read = (schema: object) => inThread(schemaReading, JSON.stringify(schema));
const nested = (levels: number): object => (levels === 0 ? {} : { items: nested(levels - 1) });
const doubling = {
  $defs: Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [
      `a${at}`,
      at === 39 ? {} : { allOf: [ref(`a${at + 1}`), ref(`a${at + 1}`)] },
    ]),
  ),
  ...ref("a0"),
};
function ref(name: string) {
  return { $ref: `#/$defs/${name}` };
}

test.each<[string, object]>([
  ["plain", { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false }],
  [
    "draft-07",
    {
      $schema: "http://json-schema.org/draft-07/schema#",
      definitions: { a: { type: "null" } },
      items: { $ref: "#/definitions/a" },
    },
  ],
  [
    "2020-12 that refers to itself with an end",
    { $schema: "https://json-schema.org/draft/2020-12/schema", properties: { next: { $ref: "#" } } },
  ],
  ["a repeated group with a mark between", { pattern: "^[a-z0-9]+(?:-[a-z0-9]+)*$" }],
  ["annotations and formats", { format: "email", "x-mine": 1, title: "T", examples: [{ $ref: "http://a.example/b" }] }],
])("taken: %s", async (_name, schema) => {
  expect(await read(schema)).toBeNull();
});

test.each<[string, object, RegExp]>([
  ["nested deeply", nested(25), /at most 24 levels/],
  ["with a catastrophic pattern", { pattern: "^(a+)+$" }, /exponential time/],
  ["with one among its properties", { patternProperties: { "^(x|xx)+y$": true } }, /exponential time/],
  [
    "with very many patterns",
    { anyOf: Array.from({ length: 201 }, (_, at) => ({ pattern: `a${at}` })) },
    /at most 200 patterns/,
  ],
  ["with a long pattern", { pattern: "a".repeat(1001) }, /at most 1000 characters/],
  ["with a remote $ref", { $ref: "https://example.com/schema.json" }, /\$ref only to what is in the schema itself/],
  ["with an unknown draft", { $schema: "http://json-schema.org/draft-04/schema#" }, /\$schema to be absent/],
  ["without an end", { allOf: [{ $ref: "#" }] }, /comes to an end/],
  ["that doubles at each level", doubling, /at once/],
  ["that is none", { type: "nothing" }, /valid JSON Schema/],
  ["with a pattern that is none", { pattern: "(" }, /valid JSON Schema/],
  ["asynchronous", { $async: true }, /without \$async/],
])("refused: %s", async (_name, schema, why) => {
  expect(await read(schema)).toMatch(why);
});

test("what is wrong with an output is said by its place; one that meets the schema has nothing wrong", async () => {
  const schema = JSON.stringify({
    type: "object",
    properties: { kind: { enum: ["a", "b"] }, n: { type: "integer", minimum: 1 } },
    required: ["kind"],
    additionalProperties: false,
  });
  const wrong = (output: unknown) => inThread(outputReading, { schema, output: JSON.stringify(output) });
  expect(await wrong({ kind: "a", n: 1 })).toEqual([]);
  expect(await wrong({ kind: "c", n: 0, more: 1 })).toEqual([
    'the whole must NOT have additional properties: "more"',
    '/kind must be equal to one of the allowed values: ["a","b"]',
    "/n must be >= 1",
  ]);
  expect((await wrong(Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, 1])))).length).toBe(11);
});
