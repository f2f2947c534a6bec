import { expect, test } from "vitest";
import { isCommandRule, isWholly, plainWords } from "../../src/domain/permission/plain-command.ts";

/**
 * A secret is given to a command that is wholly what the operator named: one program with its words, and nothing else.
 */

const rules = ["npm test", "npm run migrate *", "psql -c *"];
const matches = (command: string) => rules.filter((rule) => isWholly(rule, command));

test("a command that is what a rule says matches it, however its words are quoted", () => {
  expect(matches("npm test")).toEqual(["npm test"]);
  expect(matches("  npm\ttest ")).toEqual(["npm test"]);
  expect(matches("npm 'test'")).toEqual(["npm test"]);
  expect(matches('npm run migrate "up to 5"')).toEqual(["npm run migrate *"]);
  expect(matches("psql -c 'select 1; select $1'")).toEqual(["psql -c *"]);
});

test.each([
  "npm test; env",
  "npm test && env",
  "npm test | cat",
  "npm test & env",
  "npm test\nenv",
  "npm test > out",
  "npm test 2>&1",
  "npm test < in",
  "npm test $(env)",
  "npm test `env`",
  "npm $X",
  'npm "$X"',
  "npm test # it",
  "npm run migrate *",
  "npm run migrate {a,b}",
  "npm run migrate ~",
  "npm run migrate a\\ b",
  "(npm test)",
  "{ npm test; }",
  "! npm test",
  "PATH=. npm test",
  "FOO=1 npm test",
  "./npm test",
  "node_modules/.bin/npm test",
  "/tmp/npm test",
  "npm test more",
  "npm",
  "npm run migrate",
  "npm run migrate up down",
  "env npm test",
  "bash -c 'npm test'",
  "npm 'test",
  "",
])("%j matches none", (command) => {
  expect(matches(command)).toEqual([]);
});

test("a rule that could say nothing is none", () => {
  expect(["npm test", "psql -c *", "make e2e"].map(isCommandRule)).toEqual([true, true, true]);
  expect(["env", "* test", "bash *", "./run", "npm test; ls", "time *", "npm t*"].map(isCommandRule)).toEqual(
    Array.from({ length: 7 }, () => false),
  );
  expect(plainWords("a b")).toEqual(["a", "b"]);
});
