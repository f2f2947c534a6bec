import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
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
  port: number;
};

export const token = "host-token-A1b2C3d4E5f6";

const backend = join(execFileSync("git", ["--exec-path"], { encoding: "utf8" }).trim(), "git-http-backend");

export const canServe = existsSync(backend);

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
    port: 0,
  };
  const server = createServer((incoming, outgoing) => void serve(incoming, outgoing));
  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { authorization } = incoming.headers;
    host.requests.push({ path: incoming.url ?? "", authorization });
    if ((await host.before?.(incoming, outgoing)) === true) return;
    const wanted = `Basic ${Buffer.from(`x-access-token:${password}`).toString("base64")}`;
    if (password !== null && authorization !== wanted) {
      outgoing.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
      return;
    }
    const [path = "", query = ""] = (incoming.url ?? "").split("?");
    const child = spawn(backend, [], {
      env: {
        PATH: process.env["PATH"],
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: "1",
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_CONFIG_COUNT: "1",
        GIT_CONFIG_KEY_0: "safe.directory",
        GIT_CONFIG_VALUE_0: "*",
        REMOTE_USER: "x-access-token",
        REQUEST_METHOD: incoming.method ?? "GET",
        PATH_INFO: path,
        QUERY_STRING: query,
        CONTENT_TYPE: incoming.headers["content-type"] ?? "",
        ...(incoming.headers["content-encoding"] === undefined
          ? {}
          : { HTTP_CONTENT_ENCODING: incoming.headers["content-encoding"] }),
        ...(incoming.headers["git-protocol"] === undefined
          ? {}
          : { GIT_PROTOCOL: String(incoming.headers["git-protocol"]) }),
      },
    });
    incoming.pipe(child.stdin);
    child.stdin.on("error", () => undefined);
    let head: Buffer = Buffer.alloc(0);
    let begun = false;
    child.stdout.on("data", (chunk: Buffer) => {
      if (begun) return void outgoing.write(chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      begun = true;
      const lines = head.toString("latin1", 0, end).split("\r\n");
      const headers = Object.fromEntries(
        lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
      );
      const { Status: status = "200", ...rest } = headers;
      outgoing.writeHead(Number.parseInt(status, 10), rest);
      outgoing.write(head.subarray(end + 4));
    });
    child.stdout.once("end", () => outgoing.end());
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
