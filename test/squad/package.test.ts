import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { hiddenIn } from "../../src/squad/package/hidden.ts";
import { packageLimits, manifestSchema } from "../../src/squad/package/manifest.ts";
import { checkListed, decode, digestOf, encode, placeOf } from "../../src/squad/package/package.ts";
import { parsePackage } from "../../src/squad/package/parse.ts";
import { agentOf, filesOf, manifestOf, textsOf } from "../harness/double/squads.ts";

const around = { scope: "user", external: ["small"] } as const;

const problems = (
  changes: Record<string, string | undefined>,
  fields: object = {},
  scope: "user" | "project" = "user",
) => {
  const parsed = parsePackage(filesOf(textsOf(changes, fields)), { ...around, scope });
  return parsed.ok ? [] : parsed.issues.map((issue) => `${placeOf(issue)} ${issue.code}: ${issue.message}`);
};

test("an agent names MCP servers that are configured; where they are not known, any", () => {
  const qa = agentOf("qa").replace("[read, shell]", "[read, mcp__docs]");
  const parse = (servers: readonly string[] | "any" | undefined) => {
    const parsed = parsePackage(filesOf(textsOf({ "agents/qa.md": qa })), {
      ...around,
      ...(servers === undefined ? {} : { servers }),
    });
    return parsed.ok ? parsed.squad.agents[0]?.tools : parsed.issues.map(({ code, message }) => [code, message]);
  };
  expect([parse(["docs"]), parse("any")]).toEqual([
    ["read", "mcp__docs"],
    ["read", "mcp__docs"],
  ]);
  const wrong = (known: string) => [
    ["unknown_tool", `tools: Expected an MCP server of the configuration (${known}), got "docs"`],
  ];
  expect([parse(["mail"]), parse(undefined)]).toEqual([wrong("mail"), wrong("it has none")]);
  // Whoever judges has none, so its file does not say otherwise.
  const judge = agentOf("reviewer").replace("[read, shell]", "[read, mcp__docs]");
  const parsed = parsePackage(
    filesOf(
      textsOf(
        { "agents/qa.md": undefined, "agents/orchestrator.md": agentOf("orchestrator"), "agents/reviewer.md": judge },
        { agents: ["reviewer"] },
      ),
    ),
    { ...around, servers: ["docs"] },
  );
  expect(parsed.ok ? [] : parsed.issues.map(({ file, message }) => [file, message])).toEqual([
    ["agents/reviewer.md", 'tools: Expected no MCP server for a reviewer, got "docs"'],
  ]);
});

test("control: a package in order is a squad", () => {
  const parsed = parsePackage(filesOf(textsOf()), around);
  expect(parsed).toEqual({
    ok: true,
    squad: {
      id: "api",
      version: "1.0.0",
      name: "API",
      summary: "Builds HTTP interfaces.",
      notFor: "Front ends.",
      pillars: ["code"],
      owns: { domains: ["backend-api"], phases: ["payments/checkout"] },
      orchestrator: {
        name: "orchestrator",
        description: "Does what orchestrator does.",
        instructions: "You are orchestrator.",
        tools: ["read", "shell"],
        delegates: ["qa"],
      },
      agents: [
        {
          name: "qa",
          description: "Does what qa does.",
          instructions: "You are qa.",
          tools: ["read", "shell"],
          delegates: [],
        },
      ],
      skills: [{ name: "routes", description: "How routes are written here.", text: "One file each." }],
    },
  });
});

test.each<[string, Record<string, string | undefined>, object, string[]]>([
  [
    "a file that is not there",
    { "README.md": undefined },
    {},
    ["README.md missing: Expected this file, got nothing there"],
  ],
  [
    "no JSON",
    { "squad.json": '{\n  "id": "api",,\n}' },
    {},
    ["squad.json:2:15 invalid_json: Expected valid JSON, got PropertyNameExpected"],
  ],
  [
    "a comment",
    { "squad.json": manifestOf().replace("{", "{ // mine\n") },
    {},
    ["squad.json:1:3 invalid_json: Expected valid JSON, got InvalidCommentToken"],
  ],
  [
    "a key twice",
    { "squad.json": manifestOf().replace("{", '{\n  "id": "x",') },
    {},
    ['squad.json:3:3 invalid_json: Expected the key "id" once, got it twice'],
  ],
  [
    "no version",
    {},
    { version: "1.0" },
    ['squad.json:3:3 invalid_format: version: Expected a semantic version (semver.org), such as 1.0.0, got "1.0"'],
  ],
  ["an unknown field", {}, { hooks: [] }, ["squad.json:24:3 unrecognized_key: hooks: Expected one of the fields"]],
  ["an id of the configuration", {}, { id: "acp-x" }, ["squad.json:2:3 reserved"]],
  ["an agent that is not there", {}, { agents: ["qa", "dev"] }, ["agents/dev.md missing"]],
  ["an agent that is not listed", { "agents/dev.md": agentOf("dev") }, {}, ["agents/dev.md not_listed"]],
  [
    "another name than its path",
    { "agents/qa.md": agentOf("tester") },
    {},
    ['agents/qa.md:2:1 name_mismatch: name: Expected the name in its path, "qa", got "tester"'],
  ],
  [
    "an unknown tool",
    { "agents/qa.md": agentOf("qa").replace("[read, shell]", "\n  - read\n  - sudo") },
    {},
    ["agents/qa.md:6:5 unknown_tool: tools: Expected some of read, list,"],
  ],
  ["no front matter", { "agents/qa.md": "You are qa.\n" }, {}, ["agents/qa.md:1:1 no_front_matter"]],
  [
    "long front matter",
    { "agents/qa.md": agentOf("qa", "# a comment\n".repeat(800)) },
    {},
    ["agents/qa.md:1:1 front_matter_too_long: Expected front matter of at most 8192 bytes, got "],
  ],
  ["broken YAML", { "agents/qa.md": "---\nname: qa\ntools: [read\n---\nx" }, {}, ["agents/qa.md:3:13 invalid_yaml"]],
  [
    "an alias",
    { "agents/qa.md": "---\nname: &a qa\ndescription: *a\ntools: []\n---\nx" },
    {},
    ["agents/qa.md:1:1 invalid_yaml"],
  ],
  ["an empty handbook", { "agents/qa.md": agentOf("qa", "", "") }, {}, ["agents/qa.md:8:1 empty"]],
  [
    "a delegate that is not there",
    { "agents/qa.md": agentOf("qa", "delegates: [dev]\n") },
    {},
    ['agents/qa.md:5:13 delegate: delegates: Expected agents of this squad, got "dev"'],
  ],
  [
    "a circle",
    { "agents/dev.md": agentOf("dev", "delegates: [qa]\n"), "agents/qa.md": agentOf("qa", "delegates: [dev]\n") },
    { agents: ["qa", "dev"] },
    ["agents/qa.md:5:13 delegate_circle", "agents/dev.md:5:13 delegate_circle"],
  ],
  [
    "a program that nobody configured",
    { "agents/qa.md": agentOf("qa", "runtime: acp:big\n") },
    {},
    ['agents/qa.md:5:1 runtime_not_allowed: runtime: Expected an agent of the configuration (small), got "big"'],
  ],
  [
    "an effort for a program, which has a model of its own",
    { "agents/qa.md": agentOf("qa", "runtime: acp:small\neffort: high\n") },
    {},
    ["agents/qa.md:6:1 runtime_not_allowed: effort: Expected none with a runtime, which brings its own model"],
  ],
  [
    "hidden text",
    { "skills/routes/SKILL.md": "---\nname: routes\ndescription: x\n---\na\u202eb" },
    {},
    ["skills/routes/SKILL.md:5:2 hidden_character: Expected visible text, got U+202E"],
  ],
  [
    "hidden text by an escape in JSON",
    { "squad.json": manifestOf().replace("Builds HTTP", "Builds\\u{HTTP").replace("\\u{", "\\u200b") },
    {},
    ["hidden_character: Expected visible text, got U+200B by an escape"],
  ],
  [
    "hidden text by an escape in YAML",
    { "skills/routes/SKILL.md": '---\nname: routes\ndescription: "x\\u2063y"\n---\nx' },
    {},
    ["skills/routes/SKILL.md:3:1 hidden_character: Expected visible text, got U+2063 by an escape"],
  ],
  ["lists in lists", { "squad.json": "[".repeat(30_000) + "]".repeat(30_000) }, {}, ["squad.json"]],
  [
    "permissions of a skill's own",
    { "skills/routes/SKILL.md": "---\nname: routes\ndescription: x\nallowed-tools: Bash\n---\nx" },
    {},
    ["skills/routes/SKILL.md:4:1"],
  ],
  ["a file of another kind", { "bin/run.sh": "x" }, {}, ["bin/run.sh unexpected_file: Expected only squad.json"]],
  ["a path that leads out", { "../squad.json": "x" }, {}, ["../squad.json unexpected_file"]],
  [
    "paths that differ in case",
    { "agents/QA.md": agentOf("qa") },
    {},
    ["agents/QA.md case_clash: Expected paths that differ in more than case, got agents/qa.md too"],
  ],
  [
    "a large file",
    { "README.md": "x".repeat(packageLimits.fileBytes + 1) },
    {},
    [`README.md too_large: Expected at most ${packageLimits.fileBytes} bytes, got ${packageLimits.fileBytes + 1}`],
  ],
  ["nesting", { "squad.json": "[".repeat(packageLimits.fileBytes) }, {}, ["squad.json:1:1 invalid_json"]],
  ["nesting in YAML", { "agents/qa.md": `---\nname: ${"[".repeat(60_000)}\n---\nx` }, {}, ["agents/qa.md"]],
])("control: %s is an issue with its place", (_name, changes, fields, expected) => {
  const found = problems(changes, fields);
  expect(found).toHaveLength(expected.length);
  for (const [index, text] of expected.entries()) expect(found[index]).toContain(text);
});

const skill = (text: string) =>
  problems({ "skills/routes/SKILL.md": `---\nname: routes\ndescription: x\n---\n${text}` });

test("no character of Unicode that is ignored in display is accepted between two letters", () => {
  const accepted = [];
  for (let point = 0x80; point < 0x11_0000; point += 1) {
    const char = String.fromCodePoint(point);
    if (/\p{Default_Ignorable_Code_Point}|[\p{Cc}\p{Zl}\p{Zp}]/u.test(char) && hiddenIn(`a${char}b`) === undefined)
      accepted.push(point.toString(16));
  }
  expect(accepted).toEqual([]);
});

test.each([
  ["a variation selector, of those that carry any text", "a\u{e0141}"],
  ["two variation selectors", "\u26a0\ufe0f\ufe0f"],
  ["a variation selector after a letter", "a\ufe0f"],
  ["a joiner between Latin letters", "a\u200db"],
  ["two non-joiners", "\u0645\u200c\u200c\u06cc"],
  ["a joiner after an emoji and before a letter", "\u{1f469}\u200da"],
  ["a filler of Hangul", "\u3164"],
  ["a soft hyphen", "a\u00adb"],
  ["a line separator", "a\u2028b"],
  ["an empty braille pattern", "a\u2800b"],
])("not shown and refused: %s", (_name, text) => expect(skill(text)).toHaveLength(1));

test.each([
  ["Persian with a non-joiner", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"],
  ["Sinhala with a joiner", "\u0dc1\u0dca\u200d\u0dbb\u0dd3"],
  ["Bengali with a joiner", "\u09b0\u200d\u09cd\u09af"],
  ["a Mongolian letter's form", "\u1820\u180b"],
  ["a family", "\u{1f469}\u200d\u{1f469}\u200d\u{1f467}"],
  ["an astronaut with a tone of skin", "\u{1f469}\u{1f3fd}\u200d\u{1f680}"],
  ["a flag of two emoji", "\u{1f3f3}\ufe0f\u200d\u{1f308}"],
  ["a warning as a picture, a digit on a key", "\u26a0\ufe0f 1\ufe0f\u20e3"],
  ["a flag of two letters, umlauts, Han, Hangul, a no-break space", "\u{1f1e9}\u{1f1ea} \u00fc \u65e5 \ud55c\u00a0x"],
])("control: what scripts and emoji need: %s", (_name, text) => expect(skill(text)).toEqual([]));

test("a program of the configuration is for the operator's packages, never for a project's", () => {
  const changes = { "agents/qa.md": agentOf("qa", "runtime: acp:small\n") };
  expect(problems(changes)).toEqual([]);
  expect(problems(changes, {}, "project")).toEqual([
    "agents/qa.md:5:1 runtime_not_allowed: runtime: Expected none in a project's squad: only the operator chooses programs",
  ]);
});

test("links and more files than may be are refused before anything is read", () => {
  expect(checkListed([{ path: "README.md", kind: "link", bytes: 1 }])).toMatchObject([
    { file: "README.md", code: "link" },
  ]);
  const many = Array.from({ length: packageLimits.files + 1 }, (_, at) => ({
    path: `${at}`,
    kind: "file" as const,
    bytes: 0,
  }));
  expect(checkListed(many)).toMatchObject([{ code: "too_many_files" }]);
});

describe("the digest", () => {
  // Computed with Python's hashlib from the words of docs/squads.md.
  test.each<[Record<string, string>, string]>([
    [{}, "e33fef05b203af572fbfe79aa77dee67f8560db3b9596c3bd059e9ff4f3027ce"],
    [{ "squad.json": "{}" }, "4232d9199fa4e42f0c7ce6b4ba63085c5674b6d6c1b13f6366575214323d2fe3"],
    [
      { "squad.json": "{}", "README.md": "", "agents/a.md": "ä\n" },
      "2e1087d66123fde50f84226d1afb09f4d7a64e834d59ac0b043770eff6498061",
    ],
  ])("%j", (texts, digest) => {
    expect(digestOf(filesOf(texts))).toBe(digest);
    expect(digestOf(filesOf(texts).toReversed())).toBe(digest);
  });

  test("differs where bytes move between path and content", () => {
    expect(digestOf(filesOf({ ab: "c" }))).not.toBe(digestOf(filesOf({ a: "bc" })));
  });

  test("is of bytes that give the files back", () => {
    const files = filesOf(textsOf()).toSorted((one, other) => (one.path < other.path ? -1 : 1));
    expect(decode(encode(files))).toEqual(files);
    expect(decode(Buffer.from("sortie squad 1\n{}"))).toBeUndefined();
  });
});

test("schemas/squad.json is what the schema says; node scripts/openapi.ts writes it", () => {
  expect(readFileSync(join(import.meta.dirname, "../../schemas/squad.json"), "utf8")).toBe(manifestSchema());
});
