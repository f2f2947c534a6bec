import { isReviewer, type ModelRef } from "../../domain/agent.ts";
import { mcpPrefix } from "../../tool/mcp/server.ts";
import { tools } from "../../tool/registry.ts";
import { agentHead, packageLimits, manifest, type Manifest, reserved, skillHead } from "./manifest.ts";
import { checkListed, type Issue, type PackageFile } from "./package.ts";
import type { Agent, Scope, Squad, SquadSkill } from "../squad.ts";
import { type ReadResult, readJson, readMarkdown, textOf } from "./file.ts";

/** Parses the files of a package into a squad, or into a list of all issues. Never throws because of the content. */

/**
 * `external`: names of the operator's external agents, which no project's package may name; "any": they are not known.
 * `servers`: the same for the operator's MCP servers; absent: there are none.
 */
export type ParseContext = {
  scope: Scope;
  external: readonly string[] | "any";
  servers?: readonly string[] | "any";
};

export type Parsed = { ok: true; squad: Squad } | { ok: false; issues: Issue[] };

/** Without `around`, accepts a revision that was valid when it was pinned, whatever tools and programs exist now. */
export const parsePackage = (files: readonly PackageFile[], around?: ParseContext): Parsed => {
  const listed = checkListed(files.map(({ path, bytes }) => ({ path, kind: "file", bytes: bytes.length })));
  if (listed.length > 0) return { ok: false, issues: listed };
  const issues: Issue[] = [];
  const known = new Map(files.map((file) => [file.path, file]));
  /** The content of a file if it exists and is valid; otherwise its issues are added. */
  const take = <T>(
    path: string,
    read: (file: PackageFile) => ReadResult<T>,
  ): Extract<ReadResult<T>, { ok: true }> | undefined => {
    const file = known.get(path);
    const result = file === undefined ? missing(path) : read(file);
    if (result.ok) return result;
    issues.push(...result.issues);
    return undefined;
  };

  for (const path of ["README.md", "LICENSE"]) {
    const file = known.get(path);
    const read = file === undefined ? missing(path) : textOf(file);
    if (!read.ok && (file !== undefined || path === "README.md")) issues.push(...read.issues);
  }
  const head = take("squad.json", (file) => readJson(file, manifest));
  // Without a valid list, all files present are read, to find their issues as well.
  const { agents: agentNames, skills: skillNames } = head?.value ?? namesIn(known);
  const agents = ["orchestrator", ...agentNames].flatMap((name) => {
    const read = take(`agents/${name}.md`, (file) => readMarkdown(file, agentHead));
    return read === undefined ? [] : [agentOf(name, read, around, issues)];
  });
  const skills = skillNames.flatMap((name): SquadSkill[] => {
    const read = take(`skills/${name}/SKILL.md`, (file) => readMarkdown(file, skillHead));
    if (read === undefined) return [];
    named(`skills/${name}/SKILL.md`, name, read, issues);
    return [{ name, description: read.value.description, text: read.value.body }];
  });
  if (head !== undefined) {
    checkManifest(head, issues);
    const expected = new Set([
      ...agentNames.map((name) => `agents/${name}.md`),
      ...skillNames.map((name) => `skills/${name}/SKILL.md`),
      "agents/orchestrator.md",
    ]);
    for (const path of known.keys())
      if (path.includes("/") && !expected.has(path))
        issues.push({ file: path, code: "not_listed", message: "Expected its name in squad.json, found none" });
  }
  checkDelegates(agents, new Set(agentNames), issues);
  const [orchestrator, ...others] = agents;
  if (issues.length > 0 || head === undefined || orchestrator === undefined) return { ok: false, issues };
  return {
    ok: true,
    squad: squadOf(
      head.value,
      orchestrator.agent,
      others.map(({ agent }) => agent),
      skills,
    ),
  };
};

const missing = (path: string): { ok: false; issues: Issue[] } => ({
  ok: false,
  issues: [{ file: path, code: "missing", message: "Expected this file, got nothing there" }],
});

const squadOf = (head: Manifest, orchestrator: Agent, agents: Agent[], skills: SquadSkill[]): Squad => {
  const { id, version, name, summary, notFor, pillars, owns } = head;
  const { domains = [], phases = [] } = owns;
  return { id, version, name, summary, notFor, pillars, owns: { domains, phases }, orchestrator, agents, skills };
};

const namesIn = (known: ReadonlyMap<string, unknown>): Pick<Manifest, "agents" | "skills"> => ({
  agents: [...known.keys()].flatMap((path) => /^agents\/(?!orchestrator\.md)(.+)\.md$/.exec(path)?.[1] ?? []),
  skills: [...known.keys()].flatMap((path) => /^skills\/(.+)\/SKILL\.md$/.exec(path)?.[1] ?? []),
});

type Good<T> = Extract<ReadResult<T>, { ok: true }>;

const named = (file: string, name: string, read: Good<{ name: string }>, issues: Issue[]): void => {
  if (read.value.name === name) return;
  const message = `name: Expected the name in its path, "${name}", got "${read.value.name}"`;
  issues.push({ file, ...read.lineOf(["name"]), code: "name_mismatch", message });
};

type FoundAgent = { agent: Agent; file: string; lineOf: Good<unknown>["lineOf"] };

const agentOf = (
  name: string,
  read: Good<ReturnType<(typeof agentHead)["parse"]> & { body: string }>,
  around: ParseContext | undefined,
  issues: Issue[],
): FoundAgent => {
  const file = `agents/${name}.md`;
  const { description, tools: wanted, delegates = [], model, effort, runtime, body } = read.value;
  const add = (path: PropertyKey[], code: string, message: string) =>
    issues.push({ file, ...read.lineOf(path), code, message });
  named(file, name, read, issues);
  if (around !== undefined) {
    for (const [index, tool] of wanted.entries())
      if (tool.startsWith(mcpPrefix)) {
        const { servers = [] } = around;
        const server = tool.slice(mcpPrefix.length);
        if (isReviewer({ name }))
          add(["tools", index], "unknown_tool", `tools: Expected no MCP server for a reviewer, got "${server}"`);
        else if (servers !== "any" && !servers.includes(server))
          add(
            ["tools", index],
            "unknown_tool",
            `tools: Expected an MCP server of the configuration (${servers.join(", ") || "it has none"}), got "${server}"`,
          );
      } else if (!Object.hasOwn(tools, tool))
        add(
          ["tools", index],
          "unknown_tool",
          `tools: Expected some of ${Object.keys(tools).join(", ")}, got "${tool}"`,
        );
    const wrong = runtime === undefined ? undefined : runtimeProblem(runtime.slice("acp:".length), around);
    if (wrong !== undefined) add(["runtime"], "runtime_not_allowed", `runtime: ${wrong}`);
    if (runtime !== undefined && effort !== undefined)
      add(["effort"], "runtime_not_allowed", "effort: Expected none with a runtime, which brings its own model");
  }
  const agent: Agent = {
    name,
    description,
    instructions: body,
    tools: wanted,
    delegates,
    ...(model === undefined ? {} : { model: model as ModelRef }),
    ...(effort === undefined ? {} : { effort }),
    ...(runtime === undefined ? {} : { runtime: runtime as `acp:${string}` }),
  };
  return { agent, file, lineOf: read.lineOf };
};

const runtimeProblem = (program: string, { scope, external }: ParseContext): string | undefined => {
  if (scope === "project") return "Expected none in a project's squad: only the operator chooses programs";
  if (external === "any" || external.includes(program)) return undefined;
  return `Expected an agent of the configuration (${external.join(", ") || "it has none"}), got "${program}"`;
};

const checkManifest = (head: Good<Manifest>, issues: Issue[]): void => {
  const { id, agents } = head.value;
  const add = (path: PropertyKey[], code: string, message: string) =>
    issues.push({ file: "squad.json", ...head.lineOf(path), code, message });
  if (reserved.test(id))
    add(
      ["id"],
      "reserved",
      `id: Expected one that does not begin with acp-, which is reserved for external agents; got "${id}"`,
    );
  if (agents.includes("orchestrator"))
    add(["agents"], "listed", "agents: Expected the agents besides the orchestrator, which every squad has");
};

/**
 * Delegates must exist, not be the agent itself, and form no cycle, in which two agents could start each other forever.
 */
const checkDelegates = (agents: readonly FoundAgent[], names: ReadonlySet<string>, issues: Issue[]): void => {
  const byName = new Map(agents.map((found) => [found.agent.name, found]));
  for (const { agent, file, lineOf } of agents)
    for (const [index, to] of agent.delegates.entries()) {
      const add = (code: string, message: string) =>
        issues.push({ file, ...lineOf(["delegates", index]), code, message: `delegates: ${message}` });
      if (to === "orchestrator") add("delegate", "Expected agents other than the orchestrator, got it");
      else if (!names.has(to)) add("delegate", `Expected agents of this squad, got "${to}"`);
      else if (reaches(byName, to, agent.name, new Set()))
        add("delegate_circle", `Expected no cycle, got one through "${to}"`);
    }
};

const reaches = (byName: ReadonlyMap<string, FoundAgent>, from: string, to: string, seen: Set<string>): boolean => {
  if (from === to) return true;
  if (seen.has(from) || seen.size > packageLimits.agents) return false;
  seen.add(from);
  return (byName.get(from)?.agent.delegates ?? []).some((next) => reaches(byName, next, to, seen));
};
