import { describe, expect, test } from "vitest";
import { parseShell } from "../../src/domain/permission/shell-command.ts";
import {
  compileRules,
  decide,
  forbiddenWrite,
  forbidsWrites,
  parseRule,
  protectedBy,
  type RuleTexts,
  type PermissionSubject,
} from "../../src/domain/permission/rule.ts";
import { isSecret } from "../../src/domain/permission/secret-path.ts";

/** What a text of rules means for what an agent wants to do. */

const none: RuleTexts = { deny: [], ask: [], allow: [] };
const verdict = (
  given: Partial<RuleTexts>,
  tool: string,
  subject: PermissionSubject,
  project?: { deny: string[]; ask: string[] },
) => {
  const found = decide(compileRules({ ...none, ...given }, project ?? null), { tool, subjects: [subject] });
  return found.rule === null ? "plain" : `${found.decision} by ${found.origin}`;
};
const path = (name: string, kind: "read" | "write" = "write"): PermissionSubject => ({ kind, path: name });
const shell = (command: string): PermissionSubject => ({ kind: "shell", command });

describe("who wins", () => {
  test.each<[string, Partial<RuleTexts>, { deny: string[]; ask: string[] } | undefined, string]>([
    ["nobody speaks", {}, undefined, "plain"],
    [
      "deny beats ask and allow",
      { allow: ["write(a)"], ask: ["write(a)"], deny: ["write(a)"] },
      undefined,
      "deny by operator",
    ],
    ["ask beats allow", { allow: ["write(a)"], ask: ["write(a)"] }, undefined, "ask by operator"],
    ["a project narrows", { allow: ["write(a)"] }, { deny: ["write(a)"], ask: [] }, "deny by project"],
    [
      "a project's ask does not weaken a deny",
      { deny: ["write(a)"] },
      { deny: [], ask: ["write(a)"] },
      "deny by operator",
    ],
    [
      "a project's deny beats an operator's ask",
      { ask: ["write(a)"] },
      { deny: ["write(a)"], ask: [] },
      "deny by project",
    ],
    ["an allow alone is said", { allow: ["write(a)"] }, undefined, "allow by operator"],
  ])("%s", (_name, operator, project, wanted) => {
    expect(verdict(operator, "write", path("a"), project)).toBe(wanted);
  });

  test("what is said of commands forbids no path of that name", () => {
    const git = compileRules({ ...none, deny: ["shell(make)"] }, null);
    expect(
      decide(git, { tool: "git", subjects: [{ kind: "git", command: "add config/x" }, path("config/x")] }).rule,
    ).toBe(null);
    expect(decide(git, { tool: "shell", subjects: [shell("ls"), path("make", "read")] }).rule).toBe(null);
    // The controls: the commands themselves.
    expect(decide(git, { tool: "git", subjects: [{ kind: "git", command: "config x" }] }).decision).toBe("deny");
    expect(decide(git, { tool: "shell", subjects: [shell("make")] }).decision).toBe("deny");
  });

  test("the strictest of several subjects counts, in any order", () => {
    const rules = compileRules({ deny: ["write(b)"], ask: ["write(a)"], allow: ["write(c)"] }, null);
    const subjects = [path("c"), path("a"), path("b"), path("d")];
    for (const order of [subjects, subjects.toReversed()])
      expect(decide(rules, { tool: "apply_patch", subjects: order })).toMatchObject({
        decision: "deny",
        rule: "write(b)",
      });
    expect(decide(rules, { tool: "x", subjects: [path("d"), path("c"), path("a")] })).toMatchObject({
      decision: "ask",
    });
    expect(decide(rules, { tool: "x", subjects: [path("d")] })).toEqual({ decision: "allow", rule: null });
  });

  test("defaults: secrets and the rules' own file, unless the operator says otherwise; a project cannot", () => {
    for (const name of [".env", "x/.env.local", ".ENV", "tls/server.key", "a.pem", "id_rsa", ".ssh/id_ed25519"])
      expect([name, verdict({}, "read", path(name, "read"))]).toEqual([name, "deny by default"]);
    for (const name of [".env.example", "env", "id_table.sql", "id_rsa.pub", "monkey", "keys.ts"])
      expect([name, isSecret(name)]).toEqual([name, false]);
    expect(verdict({ allow: ["read(.env)"] }, "read", path(".env", "read"))).toBe("allow by operator");
    expect(verdict({ allow: ["read(.env)"] }, "write", path(".env"))).toBe("deny by default");
    expect(verdict({}, "write", path(".sortie/permissions.jsonc"))).toBe("deny by default");
    expect(verdict({}, "edit", path(".sortie/squads/api/agents/qa.md"))).toBe("deny by default");
    expect(verdict({ allow: ["write(.sortie/squads/**)"] }, "edit", path(".sortie/squads/api/squad.json"))).toBe(
      "allow by operator",
    );
    expect(verdict({}, "write", path("docs/squads/a.md"))).toBe("plain");
    for (const action of ["push origin", "fetch", "remote add x y", "config a b", "submodule update"])
      expect(verdict({}, "git", { kind: "git", command: action })).toBe("deny by default");
    expect(verdict({}, "git", { kind: "git", command: "commit" })).toBe("plain");
    const open = protectedBy({ ...none, allow: ["read(.env.test)"] });
    expect([".env", ".env.test", "a.txt"].map(open)).toEqual([true, false, false]);
  });
});

test.each<[rule: string, yes: string[], no: string[]]>([
  ["write", ["a", "b/c"], []],
  ["write(*.sql)", ["a.sql", "db/b.SQL"], ["a.sqlx", "sql"]],
  ["write(migrations)", ["migrations", "migrations/1", "db/migrations/1/x"], ["migrations2/x", "a.migrations"]],
  ["write(/migrations)", ["migrations/1"], ["db/migrations/1"]],
  ["write(src/*.ts)", ["src/a.ts"], ["src/b/a.ts", "lib/src/a.ts"]],
  ["write(src/**/*.ts)", ["src/a.ts", "src/b/c/a.ts"], ["src/a.js", "a.ts"]],
  ["write(**/gen/**)", ["gen/a", "x/y/gen/z"], ["regen/a"]],
  ["write(a/**/b/**/c)", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c/c/d"], ["a/c/b", "b/c"]],
])("paths: %s", (rule, yes, no) => {
  for (const name of yes)
    expect([name, verdict({ deny: [rule] }, "edit", path(name))]).toEqual([name, "deny by operator"]);
  for (const name of no) expect([name, verdict({ deny: [rule] }, "edit", path(name))]).toEqual([name, "plain"]);
  expect(verdict({ deny: [rule] }, "read", path(yes[0] ?? "", "read"))).toBe("plain");
});

describe("commands", () => {
  test.each([
    "git push",
    "git push origin main",
    "cd x && git push",
    "true;git push",
    "true|git push",
    "true & git push",
    "true\ngit push",
    "(git push)",
    "{ git push; }",
    "if true; then git push; fi",
    "f() { git push; }; f",
    "echo $(git push)",
    "echo `git push`",
    'echo "now $(git push) and"',
    "cat <(git push)",
    "A=1 B='x y' git push",
    "git 'push'",
    'g"it" pu\\sh',
    "git \\\n push",
    "/usr/bin/git push",
    "git -C /tmp -c a=b --no-pager push",
    "git 2>/dev/null push",
    ">log git push",
    "git&>log push",
    "! git push",
    "sh -c 'git push'",
    'bash -c "cd x;git push"',
    'eval "git push"',
    "env A=1 git push",
    "xargs -n1 git push",
    "timeout 5 git push",
    "sudo -u x git push",
    "find . -exec git push ;",
    "echo 'unclosed; git push",
    "echo $((1+1)); git push",
    "cat <<E\nx\nE\ngit push",
  ])("git push is found in %j", (command) => {
    for (const rule of ["shell(git push)", "shell(git push:*)", "shell(git push *)", "shell"])
      expect([rule, verdict({ deny: [rule] }, "shell", shell(command))]).toEqual([rule, "deny by operator"]);
  });

  test.each([
    "git pushx",
    "git status",
    "echo git push",
    "echo 'a; git push'",
    'echo "git push"',
    "git log # then git push",
    "git commit -m 'do not git push'",
    "echo x>git push",
    "make git\\ push",
  ])("and not in %j", (command) => {
    expect(verdict({ deny: ["shell(git push)"] }, "shell", shell(command))).toBe("plain");
    // Control: the text is read, not skipped.
    expect(verdict({ deny: ["shell"] }, "shell", shell(command))).toBe("deny by operator");
  });

  test("what is not promised: a name put together while it runs, a script, another program", () => {
    for (const command of ["g=git; $g push", "./push.sh", "python3 -c \"run(['git','push'])\""])
      expect(verdict({ deny: ["shell(git push)"] }, "shell", shell(command))).toBe("plain");
  });

  test("an allow covers only what it can be sure of", () => {
    const given = { allow: ["shell(make)"] };
    expect(verdict(given, "shell", shell("make all"))).toBe("allow by operator");
    expect(verdict(given, "shell", shell("sh -c 'make all'"))).toBe("plain");
  });

  test("stars within, hosts, the git tool's arguments", () => {
    expect(verdict({ deny: ["shell(npm * --force)"] }, "shell", shell("npm publish x --force"))).toBe(
      "deny by operator",
    );
    expect(verdict({ deny: ["shell(npm * --force)"] }, "shell", shell("npm publish x"))).toBe("plain");
    const fetch = (host: string): PermissionSubject => ({ kind: "web", host });
    expect(verdict({ deny: ["web_fetch(*.example.com)"] }, "web_fetch", fetch("a.Example.com"))).toBe(
      "deny by operator",
    );
    expect(verdict({ deny: ["web_fetch(domain:example.com)"] }, "web_fetch", fetch("example.com"))).toBe(
      "deny by operator",
    );
    expect(verdict({ deny: ["web_fetch(example.com)"] }, "web_fetch", fetch("notexample.com"))).toBe("plain");
    expect(verdict({ ask: ["git(commit)"] }, "git", { kind: "git", command: "commit a.txt" })).toBe("ask by operator");
  });

  test("hostile texts are quick, and never an error", () => {
    const pieces = ["$(", "`", "'", '"', "\\", "((((", "a ", "; ", "\n", "<<", "${", "git push ", "<(", "&", ")"];
    const rules = compileRules(
      { ...none, deny: Array.from({ length: 100 }, (_, at) => `shell(*a*a*a*a*b${at})`) },
      null,
    );
    const started = performance.now();
    for (const piece of pieces) {
      const text = piece.repeat(Math.floor(65_536 / piece.length));
      expect(parseShell(text).length).toBeGreaterThanOrEqual(0);
      decide(rules, { tool: "shell", subjects: [shell(text)] });
    }
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

test("rules that are none are told apart, with what was expected", () => {
  const names = ["shell", "read", "write"];
  for (const text of [
    "",
    "Shell",
    "shell(",
    "shell()",
    "shell(a",
    "x y",
    "write(../a)",
    "web(a)",
    `shell(${"x".repeat(201)})`,
    "shell(a\u0007)",
  ])
    expect([text, parseRule(text, names)]).toEqual([text, { problem: expect.stringMatching(/^Expected .*got/s) }]);
  for (const text of ["shell", "shell(cd ../x)", "write(a (b).txt)", "read(**)"])
    expect([text, parseRule(text, names)]).toEqual([text, expect.objectContaining({ text })]);
});

describe("what may not land, whatever wrote it", () => {
  const found = (given: Partial<RuleTexts>, name: string, project: { deny: string[]; ask: string[] } | null = null) => {
    const rules = compileRules({ ...none, ...given }, project);
    const verdict = forbiddenWrite(rules, name);
    if (verdict !== undefined) expect(forbidsWrites(rules)).toBe(true);
    return verdict === undefined ? "free" : `${verdict.rule} of ${verdict.origin}`;
  };

  test("is what the operator or the project denies to write, in any case of letters", () => {
    const given = { deny: ["write(migrations/)", "write(/a/**/*.sql)"], allow: ["write(migrations/ok.sql)"] };
    expect(found(given, "migrations/1.sql")).toBe("write(migrations/) of operator");
    expect(found(given, "x/Migrations/1.SQL")).toBe("write(migrations/) of operator");
    expect(found(given, "../elsewhere/migrations/1.sql")).toBe("write(migrations/) of operator");
    // Deny beats allow here, too.
    expect(found(given, "migrations/ok.sql")).toBe("write(migrations/) of operator");
    expect(found(given, "a/b/c.sql")).toBe("write(/a/**/*.sql) of operator");
    expect(found(given, "b/a/c.sql")).toBe("free");
    expect(found({}, "lock.json", { deny: ["write(lock.json)"], ask: [] })).toBe("write(lock.json) of project");
    expect(found({ deny: ["write"] }, "anything")).toBe("write of operator");
  });

  test("is not what is asked about, read, denied to single tools, or kept by the defaults", () => {
    const given = { deny: ["read(a)", "edit(a)", "shell(rm a)", "git(rm a)"], ask: ["write(a)"] };
    expect(found(given, "a")).toBe("free");
    expect(forbidsWrites(compileRules({ ...none, ...given }, null))).toBe(false);
    for (const name of [".env", "server.key", ".sortie/permissions.jsonc"]) expect(found({}, name)).toBe("free");
    // Control: the tools are kept from them.
    expect(verdict({}, "write", path(".env"))).toBe("deny by default");
  });
});
