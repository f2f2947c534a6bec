import { expect, test } from "vitest";
import { parseRule, compileRules, decide } from "../../src/domain/permission/rule.ts";
import { subjectsOf } from "../../src/agent/permission/subject.ts";
import type { McpConnections } from "../../src/tool/mcp/connections.ts";
import { listingOf } from "../../src/tool/mcp/listing.ts";
import { mcpTools } from "../../src/tool/mcp/tools.ts";
import { toolSpecs } from "../../src/tool/registry.ts";
import { effectOf, type ToolContext } from "../../src/tool/tool.ts";

/** What agents see of servers' tools, and how few words that takes. */

const none = { names: [], end: () => Promise.resolve() } as unknown as McpConnections;
const schema = { $schema: "x", type: "object", properties: { q: { type: "string", description: "d".repeat(900) } } };
const given = (count: number, words = "It finds things. ") =>
  Array.from({ length: count }, (_, at) => ({ name: `tool${at}`, description: words.repeat(60), inputSchema: schema }));

test("names, descriptions and schemas are cut; what is beyond the bounds is counted", () => {
  const { tools, problem } = listingOf("docs", given(250));
  expect([tools.length, problem]).toEqual([200, "it lists 250 tools; the first 200 are shown"]);
  expect(tools[0]).toMatchObject({ name: "mcp__docs__tool0", tool: "tool0" });
  expect(tools[0]?.description.length).toBe(500);
  expect(tools[0]?.parameters).toEqual({
    type: "object",
    properties: { q: { type: "string", description: `${"d".repeat(199)}…` } },
  });
  let deep: object = { type: "string" };
  for (let at = 0; at < 40; at += 1) deep = { type: "object", properties: { a: deep } };
  const odd = listingOf("docs", [
    { name: "a b", inputSchema: deep },
    { name: "a/b", inputSchema: "no" },
    { name: "n".repeat(90) },
  ]).tools;
  expect(odd.map(({ name, parameters }) => [name.length, JSON.stringify(parameters)])).toEqual([
    [14, '{"type":"object","properties":{}}'],
    [16, '{"type":"object","properties":{}}'],
    [64, '{"type":"object","properties":{}}'],
  ]);
});

test("few tools stand by themselves; twenty servers' tools are one tool, found by words and called by name", async () => {
  const few = mcpTools([{ server: "docs", tools: listingOf("docs", given(2)).tools }], none);
  expect(toolSpecs(few.told).map(({ name }) => name)).toEqual(["mcp__docs__tool0", "mcp__docs__tool1"]);

  const servers = Array.from({ length: 20 }, (_, at) => ({
    server: `server${at}`,
    tools: listingOf(`server${at}`, [...given(9), { name: "close-ticket", description: `Closes a ticket of ${at}` }])
      .tools,
  }));
  const { tools, told } = mcpTools(servers, none);
  expect([tools.length, told.length]).toEqual([201, 1]);
  expect(JSON.stringify(toolSpecs(told)).length).toBeLessThan(2000);
  const [finder] = told;
  const found = await finder?.run({ query: "close ticket" }, {} as ToolContext);
  expect(found?.output).toContain("mcp__server7__close-ticket: Closes a ticket of 7");
  expect(found?.output.length).toBeLessThan(13_000);
  const wanted = { tool: "mcp__server7__close-ticket", arguments: { id: 1 } };
  expect(finder?.meant?.(wanted)).toMatchObject({ tool: { name: wanted.tool }, input: { id: 1 } });
  expect(finder?.meant?.({ tool: "mcp__server7__none" })).toBeUndefined();
  expect(finder && [effectOf(finder, wanted), effectOf(finder, { query: "x" })]).toEqual(["unknown", "none"]);
});

test("of more than ten servers with tools none stands by itself, however few words they need", () => {
  const { tools: one } = listingOf("docs", [{ name: "find", description: "Finds." }]);
  const told = (count: number, more: number) =>
    mcpTools(
      Array.from({ length: count + more }, (_, at) => ({ server: `s${at}`, tools: at < count ? one : [] })),
      none,
    ).told.length;
  // Those that have none are not counted.
  expect([told(1, 0), told(10, 0), told(10, 10), told(11, 0), told(20, 0)]).toEqual([1, 10, 10, 1, 1]);
});

test("rules name a tool, or all of a server; paths count for reading and writing", () => {
  const rules = compileRules({ deny: ["mcp__docs"], ask: ["mcp__mail__send"], allow: [] }, null);
  const about = (tool: string, input: object = {}) =>
    decide(rules, { tool, subjects: subjectsOf({ name: tool, effect: "unknown" }, input, (path) => path) }).decision;
  expect(
    ["mcp__docs__find", "mcp__docs2__find", "mcp__mail__send", "mcp__mail__read"].map((tool) => about(tool)),
  ).toEqual(["deny", "allow", "ask", "allow"]);
  expect(about("mcp__mail__read", { path: ".env" })).toBe("deny");
  expect(about("mcp__mail__read", { path: "a.txt" })).toBe("allow");
  expect(parseRule("mcp__a-b__c.d")).toHaveProperty("problem");
  expect(parseRule("mcp__a-b__c", [])).toMatchObject({ name: "mcp__a-b__c" });
});
