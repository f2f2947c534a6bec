import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { RepositoryPlace } from "../../src/repository/repository.ts";
import type { RepositorySettings } from "../../src/repository/service.ts";
import { canServeDaemon, startGitDaemon } from "../harness/double/git-daemon.ts";
import { canServeSsh, type SshServer, startSshServer } from "../harness/double/ssh-server.ts";
import { openRepositories } from "../harness/open-repositories.ts";
import { makeProject, readText, temporary } from "../harness/project.ts";

/**
 * `git://` and `ssh://`: the address that was judged is the one that is dialled, whatever the name says to git itself.
 */

const root = temporary("sortie-pinned-");
const signal = new AbortController().signal;
const processes = createProcesses({ folder: join(root.path, "processes"), keepEnv: process.env, log: silent });
const bare = join(root.path, "host", "app.git");
let count = 0;

/** A name that only the test resolves: whoever asks the system gets nothing. */
const name = "git.example.test";

const open = (settings: Partial<RepositorySettings>, address: string) => {
  const asked: string[] = [];
  const repositories = openRepositories(join(root.path, `data-${(count += 1)}`), processes, settings, {
    resolve: async (host) => {
      asked.push(host);
      return [address];
    },
  });
  return { repositories, asked };
};

const pushNew = async (at: ReturnType<typeof open>, place: RepositoryPlace, ref: string) => {
  const { commit } = await at.repositories.fetch(place, signal);
  return at.repositories.push(place, { commit, ref, from: null }, signal);
};

const refs = () => execFileSync("git", ["-C", bare, "for-each-ref", "--format=%(refname)"], { encoding: "utf8" });

beforeAll(() => {
  const work = makeProject(join(root.path, "seed"), { "a.txt": "one\n" });
  execFileSync("git", ["clone", "-q", "--bare", work, bare]);
  execFileSync("git", ["-C", bare, "config", "daemon.receivepack", "true"]);
});
afterAll(async () => {
  await processes.stop();
  root[Symbol.dispose]();
});

describe.runIf(canServeDaemon)("git://", () => {
  let daemon: Awaited<ReturnType<typeof startGitDaemon>>;
  beforeAll(async () => {
    daemon = await startGitDaemon(join(root.path, "host"));
  });
  afterAll(() => daemon[Symbol.asyncDispose]());

  test("fetch and push reach the address that was judged, of a name that the system does not know", async () => {
    const at = open({ allow: [`git://${name}:${daemon.port}/*`] }, "127.0.0.1");
    const place = at.repositories.place(`git://${name}:${daemon.port}/app.git`, "main");
    expect(await pushNew(at, place, "refs/heads/by-daemon")).toEqual({ ok: true });
    expect(readText(place.directory, "a.txt")).toBe("one\n");
    expect(refs()).toContain("refs/heads/by-daemon");
    // One look-up for each call of git, none of git's own: a fetch and a push.
    expect(at.asked).toEqual([name, name]);
    // Control: the same name, judged to be where nobody listens, is not found by other means.
    const elsewhere = open({ allow: [`git://${name}:${daemon.port}/*`] }, "127.0.0.2");
    const far = elsewhere.repositories.place(`git://${name}:${daemon.port}/app.git`, "main");
    await expect(elsewhere.repositories.fetch(far, signal)).rejects.toThrow(/127\.0\.0\.2/);
  });

  test("a name that the system resolves to the daemon does not get there, judged to be elsewhere", async () => {
    const said = daemon.said().length;
    const at = open({ allow: [`git://localhost:${daemon.port}/*`] }, "127.0.0.2");
    const place = at.repositories.place(`git://localhost:${daemon.port}/app.git`, "main");
    await expect(at.repositories.fetch(place, signal)).rejects.toMatchObject({ lasting: false });
    expect(daemon.said().slice(said)).not.toContain("Request");
    // Control: judged to be where it is, it does.
    const right = open({ allow: [`git://localhost:${daemon.port}/*`] }, "127.0.0.1");
    await right.repositories.fetch(right.repositories.place(place.url, "main"), signal);
    expect(daemon.said().slice(said)).toContain("Request");
  });

  test("a repository that is not there is said in words, and not waited for", async () => {
    const at = open({ allow: [`git://${name}:${daemon.port}/*`] }, "127.0.0.1");
    const place = at.repositories.place(`git://${name}:${daemon.port}/none.git`, "main");
    await expect(at.repositories.fetch(place, signal)).rejects.toMatchObject({
      message: "there is no such repository, or the credentials do not give access to it",
      lasting: true,
    });
  });
});

describe.runIf(canServeSsh)("ssh://", () => {
  let server: SshServer;
  let known = "";
  beforeAll(async () => {
    server = await startSshServer(join(root.path, "ssh"));
    known = join(root.path, "known_hosts");
    // As ssh-keyscan writes it for a port of its own.
    writeFileSync(known, `[${name}]:${server.port} ${server.hostKey}\n`);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const at = (more: { key?: string; knownHosts?: string; address?: string } = {}) => {
    const match = `ssh://${server.user}@${name}:${server.port}/*`;
    const credential = { match, sshKey: more.key ?? server.key, knownHosts: more.knownHosts ?? known };
    const opened = open({ allow: [match], credentials: [credential] }, more.address ?? "127.0.0.1");
    return {
      ...opened,
      place: opened.repositories.place(`ssh://${server.user}@${name}:${server.port}${bare}`, "main"),
    };
  };

  test("fetch and push with the operator's key, to the address that was judged", async () => {
    const here = at();
    expect(await pushNew(here, here.place, "refs/heads/by-ssh")).toEqual({ ok: true });
    expect(readText(here.place.directory, "a.txt")).toBe("one\n");
    expect(refs()).toContain("refs/heads/by-ssh");
    expect(here.asked).toEqual([name, name]);
  });

  test("a key that the server does not take is said, and not waited for", async () => {
    const other = at({ key: server.otherKey });
    await expect(other.repositories.fetch(other.place, signal)).rejects.toMatchObject({
      message: expect.stringMatching(/Permission denied/),
      lasting: true,
    });
  });

  test("a server whose key is another, or is not known, is refused before anything is asked of it", async () => {
    const [wrong, none] = [join(root.path, "wrong_hosts"), join(root.path, "no_hosts")];
    const [type, base64] = execFileSync("ssh-keygen", ["-y", "-f", server.otherKey], { encoding: "utf8" }).split(" ");
    writeFileSync(wrong, `[${name}]:${server.port} ${type} ${base64}\n`);
    writeFileSync(none, `${name} ${server.hostKey}\n`);
    for (const knownHosts of [wrong, none]) {
      const refused = at({ knownHosts });
      await expect(refused.repositories.fetch(refused.place, signal), knownHosts).rejects.toMatchObject({
        message: expect.stringMatching(/Host key verification failed/),
        lasting: true,
      });
    }
  });
});
