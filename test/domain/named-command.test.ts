import { describe, expect, test } from "vitest";
import { commandKeys, isNamed, shownCommand } from "../../src/domain/evidence/named-command.ts";

/** Which commands are evidence: those that a manifest or a check names, whatever stands around them. */

const manifest = [
  "npm run test",
  "vitest",
  "npm run build",
  "rm -rf dist && tsc -p . && node scripts/copy.ts",
  "npm run lint",
  "eslint . && prettier --check .",
  "go test ./...",
  "make check",
  "python3 -m pytest",
  "node --test test/*.js",
  "cross-env CI=1 mocha -r ts-node/register",
];
const keys = new Set(manifest.flatMap(commandKeys));

describe("commands that the manifest names", () => {
  test.each([
    "npm test",
    "npm t",
    "npm run lint -- --fix",
    "pnpm build",
    "NO_COLOR=1 npx vitest --run x | tail -5",
    "cd packages/a && CI=1 timeout 60 npx --no-install vitest --run 2>&1 | grep -v '^$' | head -20",
    "./node_modules/.bin/tsc --noEmit",
    "git status; npx prettier --check src",
    "node ./scripts/copy.ts --dry",
    "go test -run TestA ./pkg",
    "make -j4 check",
    "uv run pytest -q tests/test_a.py",
    "python -m pytest",
    "node --import tsx --test a.test.ts",
    'bash -c "npx vitest run"',
    "cat >> math.js <<'X'\nexport const a = 1;\nX\nnpm test",
    "if npx mocha; then echo ok; fi",
    "out=$(npx eslint .); echo $out",
  ])("%s", (command) => expect(isNamed(command, keys)).toBe(true));

  test.each([
    "git log --oneline | head -5; ls .tool-versions",
    "ls -la",
    "rm -rf dist",
    "cat vitest.config.ts",
    "grep -rn 'vitest|tsc' src",
    'grep "npm test" README.md',
    "cat >> notes.md <<'X'\nnpm test\nX",
    "cat > run.sh <<-EOF\n\tnpx vitest\n\tEOF",
    "echo npm test",
    "node -e 'console.log(1)'",
    "node other.ts",
    "go version",
    "make clean",
    "npm install",
    "npm run deploy",
    "python3 tool.py",
    "find . -name vitest",
    "# npx vitest",
    "",
  ])("not: %s", (command) => expect(isNamed(command, keys)).toBe(false));
});

test("a command is shown on one line with both of its ends, whole where it is short", () => {
  expect(shownCommand("cat <<X\n  a\nX\n\nnpm test\n")).toBe("cat <<X ⏎ a ⏎ X ⏎ npm test");
  const long = shownCommand(`${"a".repeat(1000)} | tail -15`);
  expect(long.length).toBeGreaterThan(400);
  expect([long.startsWith("aaaa"), long.endsWith("| tail -15"), long.length < 700]).toEqual([true, true, true]);
});
