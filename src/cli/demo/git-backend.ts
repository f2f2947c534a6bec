import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";

/** Git's own HTTP server for repositories, run as a CGI program. */

/** The path of git-http-backend; undefined: the installed git lacks it. */
export const findBackend = (): string | undefined => {
  const folder = execFileSync("git", ["--exec-path"], { encoding: "utf8" }).trim();
  const program = join(folder, "git-http-backend");
  return existsSync(program) ? program : undefined;
};

/** Serves the bare repositories in a folder. The caller has authenticated the request. */
export const serveGit = (
  { backend, folder, path: programs }: { backend: string; folder: string; path: string | undefined },
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): void => {
  const [path = "", query = ""] = (incoming.url ?? "").split("?");
  const { "content-type": type = "", "content-encoding": encoding, "git-protocol": protocol } = incoming.headers;
  const child = spawn(backend, [], {
    env: {
      PATH: programs,
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
      CONTENT_TYPE: type,
      ...(encoding === undefined ? {} : { HTTP_CONTENT_ENCODING: encoding }),
      ...(protocol === undefined ? {} : { GIT_PROTOCOL: String(protocol) }),
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.once("error", () => outgoing.destroy());
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
