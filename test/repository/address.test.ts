import { describe, expect, test } from "vitest";
import { identityOf, parseAddress, parsePattern, parseRef, urlOf } from "../../src/repository/address.ts";
import { pacedMs } from "../harness/pace.ts";

describe("an address of a repository", () => {
  test.each([
    [
      "https://Git.Example.com/acme/app.git",
      "https://git.example.com/acme/app.git",
      "https://git.example.com/acme/app",
    ],
    ["https://git.example.com:443/acme//app/", "https://git.example.com/acme/app", "https://git.example.com/acme/app"],
    ["ssh://git@host:22/acme/app.git", "ssh://git@host/acme/app.git", "ssh://git@host/acme/app"],
    ["git@host:acme/app.git", "ssh://git@host/acme/app.git", "ssh://git@host/acme/app"],
    ["http://127.0.0.1:8080/x.git", "http://127.0.0.1:8080/x.git", "http://127.0.0.1:8080/x"],
    ["https://host/../../etc/x", "https://host/etc/x", "https://host/etc/x"],
  ])("%s", (given, url, identity) => {
    const address = parseAddress(given);
    expect([urlOf(address), identityOf(address)]).toEqual([url, identity]);
  });

  test.each([
    "https://user:secret@host/x",
    "https://token@host/x",
    "ssh://git:secret@host/x",
    "file:///etc/passwd",
    "/etc/passwd",
    "ext::sh -c id",
    "fd::17",
    "https://host",
    "https://host/",
    "https://host/x?y=1",
    "https://host/x#y",
    "https://host/%2e%2e%2fx",
    "https://host/a b",
    "ssh://-oProxyCommand=id/x",
    "ssh://-l@host/x",
    "-x",
    "",
  ])("refused: %s", (given) => {
    expect(() => parseAddress(given)).toThrow(/Expected/);
    try {
      parseAddress(given);
    } catch (error) {
      expect(String(error)).not.toContain("secret");
    }
  });
});

describe("what an operator allows", () => {
  const allows = (pattern: string, url: string): boolean => parsePattern(pattern)?.matches(parseAddress(url)) ?? false;

  test.each([
    ["https://github.com/acme/*", "https://github.com/acme/app.git", true],
    ["https://github.com/acme/*", "https://github.com/acme/group/app", true],
    ["https://github.com/acme/*", "https://github.com/acme", false],
    ["https://github.com/acme/*", "https://github.com/acme-evil/app", false],
    ["https://github.com/acme/*", "https://github.com.evil.example/acme/app", false],
    ["https://github.com/acme/*", "http://github.com/acme/app", false],
    ["https://github.com/acme/*", "https://github.com:8443/acme/app", false],
    ["https://github.com/acme/app", "https://github.com/acme/app.git", true],
    ["https://github.com/acme/app.git", "https://github.com/acme/app", true],
    ["https://github.com/acme/app", "https://github.com/acme/app2", false],
    ["https://github.com/acme/svc-*", "https://github.com/acme/svc-a", true],
    ["https://github.com/*/app", "https://github.com/a/b/app", false],
    ["https://*", "https://anything.example/a/b", true],
    ["https://*.corp.example/*", "https://git.corp.example/a", true],
    ["https://*.corp.example/*", "https://evil.example/.corp.example/a", false],
    ["ssh://git@git.corp.example/*", "git@git.corp.example:a/b.git", true],
    ["ssh://git@git.corp.example/*", "ssh://root@git.corp.example/a/b", false],
    ["ssh://*/*", "ssh://git@host/a", false],
    ["http://127.0.0.1:8080/*", "http://127.0.0.1:8080/a", true],
    ["http://127.0.0.1:8080/*", "http://127.0.0.1:9090/a", false],
  ])("%s: %s is %s", (pattern, url, is) => {
    expect(allows(pattern, url)).toBe(is);
  });

  test.each(["github.com/acme/*", "ftp://x/*", "https://", "", "https://host:*/x"])("no entry: %s", (text) => {
    expect(parsePattern(text)).toBeUndefined();
  });

  test("an entry names its host, or not", () => {
    expect(parsePattern("https://git.corp/*")?.namesHost).toBe(true);
    expect(parsePattern("https://*.corp/*")?.namesHost).toBe(false);
  });

  test("a long name of many stars is judged in time", () => {
    const judge = () =>
      expect(allows(`https://host/${"a*".repeat(200)}b`, `https://host/${"a".repeat(1900)}`)).toBe(false);
    expect(pacedMs(judge, 50)).toBeLessThan(50);
  });
});

test("names of refs", () => {
  expect(["main", "refs/heads/a/b", "refs/tags/v1.0", "0123abc"].map(parseRef)).toEqual([
    "main",
    "a/b",
    "v1.0",
    "0123abc",
  ]);
  for (const text of ["-x", "a..b", "a b", "x.lock", "@{1}", "/a", "a/", "a~1", "a^", "a:b", "a\\b", "@", "a?", "[a"])
    expect(() => parseRef(text), text).toThrow(/Expected/);
});
