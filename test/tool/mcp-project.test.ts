import { expect, test } from "vitest";
import { parseRequestedServers } from "../../src/tool/mcp/project-file.ts";

/** What of a project's `.mcp.json` can be had; what cannot is named, and never passed on as it stands. */

const asked = (mcpServers: object) => parseRequestedServers(JSON.stringify({ mcpServers }));

test("variables stand in headers alone, secrets nowhere, and a form that is not known is refused", () => {
  const { servers, problems } = asked({
    plain: { command: "docs-mcp", args: ["--price", "$5"], env: { MODE: "all" } },
    web: { url: "https://a.example/mcp", headers: { Authorization: "Bearer ${TOKEN}", "x-key": "env:KEY" } },
    program: { command: "${HOME}/bin/docs-mcp" },
    args: { command: "docs-mcp", args: ["--root", "${ROOT:-/srv}"] },
    env: { command: "docs-mcp", env: { ROOT: "${ROOT:-/srv}" } },
    key: { command: "docs-mcp", env: { KEY: "secret:API_KEY" } },
    url: { url: "https://a.example/${TENANT}/mcp" },
    header: { url: "https://a.example/mcp", headers: { Authorization: "Bearer ${TOKEN:-none}" } },
    sent: { url: "https://a.example/mcp", headers: { Authorization: "secret:API_KEY" } },
  });
  expect(Object.keys(servers)).toEqual(["plain", "web"]);
  expect(problems).toEqual({
    program: expect.stringMatching(/^its command has a variable/) as string,
    args: expect.stringMatching(/^its args have a variable/) as string,
    env: expect.stringMatching(/^ROOT names a variable/) as string,
    key: expect.stringMatching(/^KEY names a secret/) as string,
    url: expect.stringMatching(/^its url has a variable/) as string,
    header: expect.stringMatching(/^Authorization has a variable in a form/) as string,
    sent: expect.stringMatching(/^Authorization names a secret/) as string,
  });
});

test("servers beyond the bound are counted", () => {
  const many = (count: number) =>
    asked(Object.fromEntries(Array.from({ length: count }, (_, at) => [`s${at}`, { command: "docs-mcp" }])));
  const [all, more] = [many(20), many(23)];
  expect([Object.keys(all.servers).length, all.problems]).toEqual([20, {}]);
  expect([Object.keys(more.servers).length, more.problems]).toEqual([
    20,
    { "": "it names 23 servers; the first 20 are read" },
  ]);
});

test("what other agents' files say and is not done here is refused by name; what only they read is passed over", () => {
  const program = { command: "docs-mcp" };
  const { servers, problems } = asked({
    plain: { ...program, type: "stdio", timeout: 60, disabled: false },
    web: { url: "https://a.example/mcp", type: "http" },
    off: { ...program, disabled: true },
    old: { url: "https://a.example/sse", type: "sse" },
    elsewhere: { ...program, cwd: "/srv" },
    online: { ...program, network: "all" },
    machine: { url: "https://a.example/mcp", auth: { issuer: "https://a.example" } },
  });
  expect(Object.keys(servers)).toEqual(["plain", "web"]);
  expect(problems).toEqual({
    off: "the file disables it",
    old: expect.stringContaining("sse is not supported") as string,
    elsewhere: expect.stringContaining("cwd is not supported") as string,
    online: expect.stringContaining("a network") as string,
    machine: expect.stringContaining("auth") as string,
  });
});
