import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { canServe, startGitHost } from "../../harness/double/git-host.ts";
import { nameSubmodule, useFillLab } from "../../harness/fill-lab.ts";
import { ofHost } from "../../harness/open-repositories.ts";
import { readText } from "../../harness/project.ts";

/** Submodules: what is fetched for a Task, from whom and within which bounds. */

describe.runIf(canServe)("submodules", () => {
  const lab = useFillLab();
  /** `app`, or another one, with `lib` as a submodule under this address; `commit`: the one that it names. */
  const make = (url: string, commit = lab.host.git("lib", "rev-parse", "main"), name = "app") => {
    lab.host.make(name, { "a.txt": "one\n" });
    nameSubmodule(lab.host, name, { url, commit });
  };
  beforeEach(
    () =>
      void lab.host.make("lib", {
        "src/lib.txt": "lib\n",
        ".gitattributes": "*.bin filter=lfs\n",
        "l.bin": lab.lfs.put("large").pointer,
      }),
  );
  const on = { submodules: true, lfs: true } as const;

  test.each(["../lib.git", "./../lib", "../app/../lib.git"])("by %s: its files stand in their place", async (url) => {
    make(url);
    const { place, fetched } = await lab.fetch(on);
    expect(readText(place.directory, "lib/src/lib.txt")).toBe("lib\n");
    expect(readText(place.directory, "lib/l.bin")).toBe("large");
    expect(existsSync(join(place.directory, "lib/.git"))).toBe(false);
    expect(fetched.of).toBe(lab.host.git("app", "rev-parse", "main"));
    expect(lab.lfs.batches).toMatchObject([{ repository: "lib" }]);
  });

  test("by a whole address, nested, and moved on", async () => {
    make(lab.host.url("lib"), undefined, "middle");
    lab.host.make("app", { "x.txt": "x\n" });
    const name = (commit: string) => nameSubmodule(lab.host, "app", { url: "../middle", commit, path: "deep/m" });
    name(lab.host.git("middle", "rev-parse", "main"));
    const { repositories, place } = await lab.fetch(on);
    expect(readText(place.directory, "deep/m/lib/src/lib.txt")).toBe("lib\n");
    name(lab.host.commit("middle", "main", { "more.txt": "more\n" }));
    await repositories.fetch(place, lab.signal);
    expect(readText(place.directory, "deep/m/more.txt")).toBe("more\n");
  });

  test("turned off it is refused", async () => {
    make("../lib.git");
    await expect(lab.fetch({ lfs: true })).rejects.toThrow(/repositories\.submodules/);
  });

  test.each<[string, string, RegExp]>([
    ["a file", "file:///etc", /Expected the address of a repository/],
    ["a folder", "/etc", /Expected the address of a repository/],
    ["a command", "ext::sh -c touch% /tmp/x", /Expected the address of a repository/],
    ["what is above all", "../../../../lib", /Expected an address on/],
    ["a password", "http://ada:sesame@127.0.0.1/lib.git", /without credentials/],
    ["an address that is not listed", "https://forge.example/lib.git", /operator allows/],
    ["the cloud's own", "http://169.254.169.254/lib.git", /operator allows/],
  ])("%s as its address is not fetched", async (_, url, words) => {
    make(url);
    const asked = () => lab.host.requests.filter(({ path }) => !path.startsWith("/app.git"));
    const error: unknown = await lab.fetch(on).catch((caught: unknown) => caught);
    expect(String(error)).toMatch(words);
    expect(String(error)).toContain("submodule");
    expect(String(error)).not.toContain("sesame");
    expect(asked()).toEqual([]);
  });

  test.each(["-u./x", "--upload-pack=touch x"])(
    "an option as its address (%s) does not get into the mirror",
    async (url) => {
      make(url);
      await expect(lab.fetch(on)).rejects.toThrow(/considers invalid|address of a repository/);
    },
  );

  test("one on another host, though it is listed, only where the operator opens that", async () => {
    const other = await startGitHost(lab.folder("other"));
    other.make("lib", { "other.txt": "other\n" });
    make(other.url("lib"), other.git("lib", "rev-parse", "main"));
    const both = [ofHost(lab.host), ofHost(other)];
    const settings = {
      ...on,
      allow: both.flatMap(({ allow }) => allow),
      credentials: both.flatMap((each) => each.credentials),
    };
    await expect(lab.fetch({ ...settings, submodules: "same-host" })).rejects.toThrow(/on another host/);
    expect(other.requests).toEqual([]);
    const { place } = await lab.fetch(settings);
    expect(readText(place.directory, "lib/other.txt")).toBe("other\n");
    await other[Symbol.asyncDispose]();
  });

  test("a host that has no credentials of its own is shown nobody else's", async () => {
    const other = await startGitHost(lab.folder("open"), null);
    other.make("lib", { "other.txt": "other\n" });
    make(other.url("lib"), other.git("lib", "rev-parse", "main"));
    const allow = [...ofHost(lab.host).allow, ...ofHost(other).allow];
    await lab.fetch({ ...on, allow });
    expect(other.requests.length).toBeGreaterThan(0);
    expect(other.requests.every(({ authorization }) => authorization === undefined)).toBe(true);
    await other[Symbol.asyncDispose]();
  });

  test("a commit that is on no branch of the submodule's, though the mirror has it, is not taken", async () => {
    lab.host.make("secret", { "secret.txt": "secret\n" });
    lab.host.make("app", { "a.txt": "one\n" });
    make("../lib.git", lab.host.git("app", "rev-parse", "main"), "next");
    await expect(lab.fetch(on, "next")).rejects.toThrow(/on no branch or tag/);
  });

  test("one that names itself, for ever, ends", async () => {
    lab.host.make("app", { "a.txt": "one\n" });
    for (let depth = 0; depth < 8; depth += 1)
      nameSubmodule(lab.host, "app", {
        url: "../app.git",
        commit: lab.host.git("app", "rev-parse", "main"),
        path: "x",
      });
    await expect(lab.fetch(on)).rejects.toThrow(/nested deeper than/);
  });
});
