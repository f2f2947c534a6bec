import { createHmac, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Exit, exit } from "../terminal/exit.ts";
import { findBackend, serveGit } from "./git-backend.ts";

/**
 * A team's Git host for the demo: git's own server behind Basic authentication, and as much of Gitea's API and events
 * as a Task needs, in memory. All its users are made up.
 */

export type Issue = { number: number; by: string; title: string; text: string };
export type Pull = {
  number: number;
  branch: string;
  base: string;
  title: string;
  body: string;
  state: "open" | "merged";
  updated: string;
};
export type TeamHost = AsyncDisposable & {
  /** The repository's URL. */
  url: string;
  pulls: Pull[];
  comments: { issue: number; text: string }[];
  /** Each sends its event to the service's listener, and resolves to the listener's answer. */
  label(issue: Issue, label: string, by: string): Promise<Heard>;
  review(pull: Pull, text: string, by: string): Promise<Heard>;
  merge(pull: Pull, by: string): Promise<Heard>;
  /** `branches`: the names of the repository's branches. `log`: the commits on `main` since a commit. */
  branches(): string;
  log(since: string): string;
  /** Sends an event that is signed with another secret. */
  forge(issue: Issue): Promise<Heard>;
};
export type Heard = { status: number; body: { taskID?: string; ignored?: string; message?: string } };

type Options = {
  /** The folder of the bare repositories; there is one, `acme/sum.git`. */
  folder: string;
  path: string | undefined;
  token: string;
  secret: string;
  /** The port that receives events, which is known only once the service runs. */
  listener: () => number;
  git: (...args: string[]) => string;
};

const repository = "acme/sum";
const api = `/api/v1/repos/${repository}`;
const now = () => new Date().toISOString();

export const startTeamHost = async ({ folder, path, token, secret, listener, git }: Options): Promise<TeamHost> => {
  const backend = findBackend();
  if (backend === undefined)
    throw new Exit(
      exit.failed,
      "This demo needs git-http-backend, which comes with Git, but is missing from this installation.",
    );
  const pulls: Pull[] = [];
  const comments: TeamHost["comments"] = [];
  const commitOf = (branch: string): string => git("for-each-ref", "--format=%(objectname)", `refs/heads/${branch}`);

  const shown = ({ number, branch, base, title, body, state, updated }: Pull) => {
    const side = (ref: string) => ({ label: ref, ref, sha: commitOf(ref), repo_id: 1, repo: { clone_url: host.url } });
    const html_url = `${host.url.replace(/\.git$/, "")}/pulls/${number}`;
    const is = { state: state === "open" ? "open" : "closed", merged: state === "merged" };
    return { number, title, body, html_url, ...is, head: side(branch), base: side(base), updated_at: updated };
  };

  const answer = (method: string, at: string, sent: Record<string, string>): [number, unknown] => {
    const [, kind = "", name = "", rest = ""] = /^\/(pulls|issues)(?:\/([^/]+))?(?:\/(.+))?$/.exec(at) ?? [];
    const pull = pulls.find(({ number }) => number === Number(name));
    if (kind === "issues" && rest === "comments") {
      const own = comments.filter(({ issue }) => issue === Number(name)).map(({ text: body }) => ({ body }));
      if (method === "POST") comments.push({ issue: Number(name), text: sent["body"] ?? "" });
      return method === "POST" ? [201, { body: sent["body"] }] : [200, own];
    }
    if (kind === "pulls" && method === "POST" && name === "") {
      const { head: branch = "", base = "", title = "", body = "" } = sent;
      const opened: Pull = { number: pulls.length + 2, branch, base, title, body, state: "open", updated: now() };
      pulls.push(opened);
      return [201, shown(opened)];
    }
    if (kind === "pulls" && method === "PATCH" && pull !== undefined)
      return [200, shown(Object.assign(pull, { title: sent["title"], body: sent["body"], updated: now() }))];
    if (kind === "pulls" && method === "GET" && rest !== "") {
      const found = pulls.find(({ branch }) => branch === decodeURIComponent(rest));
      return found === undefined ? [404, { message: "pull request does not exist" }] : [200, shown(found)];
    }
    if (kind === "pulls" && method === "GET" && pull !== undefined) return [200, shown(pull)];
    return [404, { message: "not found" }];
  };

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const url = incoming.url ?? "";
    const { authorization = "" } = incoming.headers;
    if (!url.startsWith(api)) {
      const wanted = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
      if (authorization === wanted) return serveGit({ backend, folder, path }, incoming, outgoing);
      return void outgoing.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
    }
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const sent = (text === "" ? {} : JSON.parse(text)) as Record<string, string>;
    const [at = ""] = url.slice(api.length).split("?");
    const [status, body] =
      authorization === `token ${token}` ? answer(incoming.method ?? "", at, sent) : [401, { message: "no token" }];
    outgoing.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };

  const tell = async (name: string, event: object, key = secret): Promise<Heard> => {
    const body = JSON.stringify({ ...event, repository: { clone_url: host.url } });
    const signature = createHmac("sha256", key).update(body).digest("hex");
    const headers = { "x-gitea-event": name, "x-gitea-delivery": randomUUID(), "x-gitea-signature": signature };
    const answered = await fetch(`http://127.0.0.1:${listener()}/gitea`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    });
    return { status: answered.status, body: (await answered.json()) as Heard["body"] };
  };

  const labelled = ({ number, by, title, text: body }: Issue, label: string, sender: string) => ({
    action: "label_updated",
    issue: { number, title, body, user: { login: by }, html_url: `${host.url}/issues/${number}`, updated_at: now() },
    sender: { login: sender },
    changes: { added_labels: [{ name: label }] },
  });

  const server = createServer((incoming, outgoing) => void serve(incoming, outgoing).catch(() => outgoing.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const host: TeamHost = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/${repository}.git`,
    pulls,
    comments,
    branches: () => git("for-each-ref", "--format=%(refname:short)", "refs/heads"),
    log: (since) => git("log", "--format=%h %s", `${since}..main`),
    label: (issue, label, by) => tell("issues", labelled(issue, label, by)),
    forge: (issue) => tell("issues", labelled(issue, "sortie", "ada"), "another secret"),
    review(pull, content, by) {
      pull.updated = now();
      const review = { type: "pull_request_review_comment", content };
      const event = { action: "reviewed", review, pull_request: shown(pull), sender: { login: by } };
      return tell("pull_request_comment", event);
    },
    merge(pull, by) {
      git("update-ref", `refs/heads/${pull.base}`, commitOf(pull.branch));
      Object.assign(pull, { state: "merged", updated: now() });
      return tell("pull_request", { action: "closed", pull_request: shown(pull), sender: { login: by } });
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return host;
};
