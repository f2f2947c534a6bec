import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { checkConfig } from "../../src/service/config-check.ts";
import { temporary } from "../harness/project.ts";

/** What the configuration says of environments and secrets is refused at the start where it could never be had. */

const problemOf = (file: object): string => {
  using folder = temporary();
  const config = join(folder.path, "config.jsonc");
  writeFileSync(config, JSON.stringify(file));
  try {
    checkConfig(loadConfig({ config, dataDir: folder.path }, { HOME: folder.path }));
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
};
const secretStore = { TOKEN: "env:A_TOKEN", KEY: { command: ["pass", "show", "key"] }, DB: "file:/run/db" };
const of = (environment: object) => problemOf({ secretStore, environments: { "/srv/shop": environment } });

test("what is whole is taken", () => {
  expect(
    of({
      setup: "npm ci",
      network: ["registry.npmjs.org", "*.example.org:8443", "10.1.2.3", "[fd00::1]:4873"],
      setupNetwork: "all",
      variables: { NODE_OPTIONS: "--max-old-space-size=4096" },
      secrets: ["TOKEN", "KEY", "DB"],
      shell: ["npm run migrate", "npm run seed *"],
      limits: { setupSeconds: 5 },
      paths: ["/srv/datasets"],
      diagnostics: [
        { run: "npx lint {files}", extensions: ["ts"] },
        { run: "watch", extensions: ["c"], stays: { ends: "done" } },
      ],
    }),
  ).toBe("");
  expect(problemOf({ secretStore, environments: { "https://git.example.org/a/b.git": { secrets: ["TOKEN"] } } })).toBe(
    "",
  );
  expect(problemOf({ secretStore, mcpServers: { a: { command: "a", env: { X: "secret:KEY" } } } })).toBe("");
  const network = ["registry.npmjs.org", "10.1.2.3:8080"];
  expect(problemOf({ diagnostics: false, mcpServers: { a: { command: "a", network } } })).toBe("");
  expect(problemOf({ agents: { a: { command: "a", network } } })).toBe("");
});

test("what is none of a path, a host or a command that looks is refused", () => {
  expect(of({ paths: ["data"] })).toContain("absolute path");
  expect(of({ paths: ["/srv/../etc"] })).toContain("absolute path");
  expect(of({ diagnostics: [{ run: "lint", extensions: [".ts"] }] })).toContain("without its dot");
  expect(of({ diagnostics: [] })).not.toBe("");
  expect(problemOf({ agents: { a: { command: "a", network: [] } } })).not.toBe("");
  expect(problemOf({ mcpServers: { a: { command: "a", network: ["https://a.example"] } } })).not.toBe("");
});

test.each([
  [{ secrets: ["OTHER"] }, "there is no OTHER in secretStore"],
  [{ secrets: ["TOKEN"], variables: { TOKEN: "x" } }, "both a variable and a secret"],
  [{ shell: ["npm test"] }, "expected secrets with it"],
  [{ secrets: ["TOKEN"], shell: ["bash *"] }, 'got "bash *"'],
  [{ secrets: ["TOKEN"], shell: ["npm test; env"] }, "Expected one program with its words"],
  [{ secrets: ["TOKEN"], shell: ["./migrate"] }, "Expected one program with its words"],
  [{ variables: { LD_PRELOAD: "/x" } }, "variables.LD_PRELOAD"],
  [{ variables: { PATH: "/x" } }, "variables.PATH"],
  [{ network: [] }, "network"],
  [{ network: ["https://example.org"] }, "network"],
  [{ network: ["exa mple.org"] }, "network"],
  [{ network: ["*"] }, "network"],
  [{ network: "some" }, "network"],
  [{ limits: { minutes: 5 } }, 'Unknown setting "minutes"'],
])("%j is refused", (environment, words) => {
  expect(of(environment)).toContain(words);
});

test("so is a project that is no path and no address, a source that is none, and a server's unknown secret", () => {
  expect(problemOf({ environments: { shop: {} } })).toContain("environments.shop: expected the absolute path");
  expect(problemOf({ secretStore: { A: "the-value-itself" } })).toContain("secretStore.A");
  expect(problemOf({ mcpServers: { a: { command: "a", env: { X: "secret:KEY" } } } })).toContain(
    "there is no KEY in secretStore",
  );
  expect(problemOf({ mcpServers: { a: { url: "https://a.example", headers: { X: "secret:KEY" } } } })).toContain(
    "there is no KEY in secretStore",
  );
});

test("an image is refused where images are off, and taken where they are on", () => {
  const environments = { "/srv/shop": { image: "docker.io/library/node:24" } };
  expect(problemOf({ environments })).toMatch(/image: expected sandbox\.containers: "experimental" with it/);
  expect(problemOf({ environments, sandbox: { containers: "experimental" } })).toBe("");
  expect(problemOf({ environments: { "/srv/shop": { image: "--privileged" } } })).toContain("the name of an image");
});
