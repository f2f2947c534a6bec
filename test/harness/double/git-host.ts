import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { findBackend, serveGit } from "../../../src/cli/demo/git-backend.ts";
import { makeProject } from "../project.ts";

/** A host of Git repositories on a real port: git's own http-backend behind Basic authentication. */

export type GitHost = AsyncDisposable & {
  /** Address of a repository. */
  url(name: string): string;
  /** Makes a bare repository with these files on `main`; resolves to its folder on this machine. */
  make(name: string, files: Record<string, string>): string;
  /** A commit of somebody else's on a branch. */
  commit(name: string, branch: string, files: Record<string, string>): string;
  git(name: string, ...args: string[]): string;
  requests: { path: string; authorization: string | undefined }[];
  /** Answers a request itself where it returns true. */
  before: ((incoming: IncomingMessage, outgoing: ServerResponse) => boolean | Promise<boolean>) | undefined;
  /** Whose password may fetch from a repository and push to it; by default it is the host's. */
  admits: (password: string, repository: string) => boolean;
  port: number;
};

export const token = "host-token-A1b2C3d4E5f6";

const backend = findBackend();

export const canServe = backend !== undefined;

export const startGitHost = async (root: string, password: string | null = token): Promise<GitHost> => {
  const folder = join(root, "host");
  mkdirSync(folder, { recursive: true });
  const host: Omit<GitHost, typeof Symbol.asyncDispose> = {
    url: (name) => `http://127.0.0.1:${host.port}/${name}.git`,
    make(name, files) {
      const bare = join(folder, `${name}.git`);
      const work = makeProject(join(root, "seed", name), files);
      execFileSync("git", ["clone", "-q", "--bare", work, bare]);
      execFileSync("git", ["-C", bare, "config", "http.receivepack", "true"]);
      return bare;
    },
    commit(name, branch, files) {
      const work = join(root, "other", `${name}-${Date.now()}-${Math.random()}`);
      execFileSync("git", ["clone", "-q", "-b", branch, join(folder, `${name}.git`), work]);
      for (const [path, text] of Object.entries(files)) writeFileSync(join(work, path), text);
      const person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
      execFileSync("git", [...person, "-C", work, "add", "-A"]);
      execFileSync("git", [...person, "-C", work, "commit", "-q", "-m", "Somebody else's"]);
      execFileSync("git", ["-C", work, "push", "-q", "origin", branch]);
      return execFileSync("git", ["-C", work, "rev-parse", "HEAD"], { encoding: "utf8" }).trim();
    },
    git: (name, ...args) =>
      execFileSync("git", ["-C", join(folder, `${name}.git`), ...args], { encoding: "utf8" }).trim(),
    requests: [],
    before: undefined,
    admits: (given) => password === null || given === password,
    port: 0,
  };
  const server = createServer((incoming, outgoing) => void serve(incoming, outgoing));
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { authorization } = incoming.headers;
    host.requests.push({ path: incoming.url ?? "", authorization });
    if ((await host.before?.(incoming, outgoing)) === true) return;
    const basic = Buffer.from(/^Basic (.+)$/.exec(authorization ?? "")?.[1] ?? "", "base64").toString();
    const given = basic.startsWith("x-access-token:") ? basic.slice("x-access-token:".length) : "";
    const repository = /^\/(.+)\.git\//.exec(incoming.url ?? "")?.[1] ?? "";
    if (!host.admits(given, repository)) {
      outgoing.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
      return;
    }
    serveGit({ backend: backend ?? "", folder, path: process.env["PATH"] }, incoming, outgoing);
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  host.port = (server.address() as AddressInfo).port;
  return Object.assign(host, {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
};
