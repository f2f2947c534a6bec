import { expect, test } from "vitest";
import { titleOf } from "../../src/domain/task/title.ts";

test.each([
  ["```txt file=hello.txt\nhello\n```\nrun the tests", "Write hello.txt"],
  ['~~~ts title="src/a.ts"\nexport {};\n~~~', "Write src/a.ts"],
  ["```\nfix the parser\n```", "fix the parser"],
  ["```\n```", "Task"],
  ["## Add a flag\n```txt file=hello.txt\nhello\n```", "Add a flag"],
])("%j is titled %j", (request, title) => {
  expect(titleOf(request)).toBe(title);
});
