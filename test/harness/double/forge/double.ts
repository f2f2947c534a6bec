import type { IncomingMessage, ServerResponse } from "node:http";
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { type GitHost, token } from "../git-host.ts";
import type { AppDouble } from "./app.ts";

/**
 * The interface of a forge on the port of a Git host: it keeps pull requests, takes their commits from the host's
 * branches, and holds every request against the published description of the operations (`github.json` and the like say
 * of which version), where nothing may be sent that is not in it.
 */

export type Kind = "github" | "gitlab" | "gitea";
export type Kept = {
  number: number;
  repo: string;
  branch: string;
  base: string;
  state: "open" | "closed" | "merged";
  title: string;
  body: string;
  draft: boolean;
  labels: string[];
};

/** What a request is answered with instead; `after`: once it has been carried out. undefined: the connection ends. */
export type Trouble = {
  on: string;
  after?: boolean;
  status?: number;
  headers?: Record<string, string>;
  body?: object;
  run?: () => void | Promise<void>;
};

export type ForgeDouble = {
  pulls: Kept[];
  /** Below issues. */
  comments: { repo: string; number: number; body: string; at: string }[];
  /** Operations that were asked for, by name. */
  calls: string[];
  /** What was sent and is not in the description. */
  violations: string[];
  /** Each is used up by one request of its operation. */
  troubles: Trouble[];
  /** Then its tokens alone are taken. */
  app: AppDouble | undefined;
  merge(number: number): void;
};

type Schema = Record<string, unknown>;
type Operation = { operationId: string; query: Record<string, Schema>; body: (Schema & { properties: object }) | null };
type Description = { operations: Record<string, Operation>; example: Record<string, unknown> };

const roots: Record<Kind, string> = { github: "/api/v3", gitlab: "/api/v4", gitea: "/api/v1" };
const operationsOf: Record<
  string,
  "find" | "open" | "update" | "read" | "branch" | "comments" | "say" | "label" | "installation" | "token"
> = {
  "apps/get-repo-installation": "installation",
  "apps/create-installation-access-token": "token",
  "issues/add-labels": "label",
  issueAddLabel: "label",
  "issues/list-comments": "comments",
  "issues/create-comment": "say",
  issueGetComments: "comments",
  issueCreateComment: "say",
  getProjectsIssuesNotes: "comments",
  postProjectsIssuesNotes: "say",
  "pulls/list": "find",
  "pulls/create": "open",
  "pulls/get": "read",
  "pulls/update": "update",
  repoListPullRequests: "find",
  repoCreatePullRequest: "open",
  repoGetPullRequest: "read",
  repoEditPullRequest: "update",
  repoGetPullRequestByBaseHead: "branch",
  getProjectsMergeRequests: "find",
  createMergeRequest: "open",
  getMergeRequest: "read",
  updateMergeRequest: "update",
};

type Answer = { status: number; body: unknown };

const authorized = (kind: Kind, { authorization, "private-token": own }: IncomingMessage["headers"]): boolean =>
  ({ github: authorization === `Bearer ${token}`, gitlab: own === token, gitea: authorization === `token ${token}` })[
    kind
  ];

export const addForge = (host: GitHost, kind: Kind): ForgeDouble => {
  const description = JSON.parse(readFileSync(new URL(`./${kind}.json`, import.meta.url), "utf8")) as Description;
  const ajv = new Ajv2020({ strict: false, coerceTypes: false, validateFormats: false });
  const forge: ForgeDouble = {
    pulls: [],
    comments: [],
    calls: [],
    violations: [],
    troubles: [],
    app: undefined,
    merge(number) {
      const pull = forge.pulls.find((each) => each.number === number);
      if (pull === undefined) throw new Error(`Expected pull request ${number}.`);
      host.git(pull.repo, "update-ref", `refs/heads/${pull.base}`, headOf(pull) ?? "");
      pull.state = "merged";
    },
  };
  const refOf = (repo: string, branch: string): string | undefined => {
    const found = host.git(repo, "for-each-ref", "--format=%(objectname)", `refs/heads/${branch}`);
    return found === "" ? undefined : found;
  };
  // Also of what has ended: not every forge keeps the commit that it had then.
  const headOf = ({ repo, branch }: Kept) => refOf(repo, branch);

  const shown = (pull: Kept): Record<string, unknown> => {
    const { number, repo, branch, base, state, title, body } = pull;
    const url = `http://127.0.0.1:${host.port}/${repo}/pulls/${number}`;
    const sha = headOf(pull) ?? "0".repeat(40);
    if (kind === "gitlab")
      return {
        ...description.example,
        iid: number,
        title,
        description: body,
        state: state === "open" ? "opened" : state,
        source_branch: branch,
        target_branch: base,
        sha,
        web_url: url,
      };
    const side = (ref: string, commit: string) => ({ label: ref, ref, sha: commit, repo_id: 3 });
    return {
      ...description.example,
      number,
      title,
      body,
      html_url: url,
      state: state === "open" ? "open" : "closed",
      merged: state === "merged",
      merged_at: state === "merged" ? "2026-01-01T00:00:00Z" : null,
      head: side(branch, sha),
      base: side(base, refOf(repo, base) ?? ""),
    };
  };

  const validate = (operation: Operation, query: URLSearchParams, body: unknown): string[] => {
    const wrong: string[] = [];
    for (const [name, value] of query) {
      const schema = operation.query[name];
      if (schema === undefined) wrong.push(`${operation.operationId}: query ${name}`);
      else {
        const parsed = schema["type"] === "integer" ? Number(value) : value;
        if (!ajv.validate({ ...schema, format: undefined }, parsed))
          wrong.push(`${operation.operationId}: ${name}=${value}`);
      }
    }
    if (operation.body === null) return body === undefined ? wrong : [...wrong, `${operation.operationId}: a body`];
    if (!ajv.validate({ ...operation.body, additionalProperties: false }, body))
      wrong.push(`${operation.operationId}: ${ajv.errorsText()}`);
    return wrong;
  };

  const carryOut = (
    name: string,
    params: Record<string, string>,
    query: URLSearchParams,
    body: Record<string, string>,
  ): Answer => {
    const repo = params["id"] ?? `${params["owner"]}/${params["repo"]}`;
    const own = forge.pulls.filter((pull) => pull.repo === repo).toReversed();
    const number = Number(params["pull_number"] ?? params["index"] ?? params["iid"]);
    const text = (pull: Kept) => {
      pull.title = body["title"] ?? pull.title;
      pull.body = body["body"] ?? body["description"] ?? pull.body;
    };
    const one = own.find((pull) => pull.number === number);
    const missing: Answer = { status: 404, body: { message: "Not Found" } };
    const issue = Number(params["issue_number"] ?? params["index"] ?? params["iid"]);
    const note = ({ body: text, at }: ForgeDouble["comments"][number]) => ({ id: 1, body: text, created_at: at });
    switch (operationsOf[name]) {
      case "installation": {
        const { app } = forge;
        const owner = params["owner"] ?? "";
        if (app === undefined || !app.installed.has(owner)) return missing;
        return { status: 200, body: { id: [...app.installed].indexOf(owner) + 1, app_id: Number(app.id) } };
      }
      case "token": {
        const owner = [...(forge.app?.installed ?? [])][Number(params["installation_id"]) - 1];
        if (forge.app === undefined || owner === undefined) return missing;
        const names = body["repositories"] as unknown as string[] | undefined;
        return { status: 201, body: forge.app.give(owner, names ?? []) };
      }
      case "comments": {
        const own = forge.comments.filter((each) => each.repo === repo && each.number === issue);
        const since = query.get("since") ?? "";
        const some = own.filter(({ at }) => at >= since).map(note);
        return { status: 200, body: query.get("sort") === "desc" ? some.toReversed() : some };
      }
      case "label": {
        const pull = own.find((each) => each.number === issue);
        if (pull === undefined) return missing;
        pull.labels.push(...((body["labels"] ?? []) as unknown as string[]));
        return { status: 200, body: [] };
      }
      case "say": {
        const made = { repo, number: issue, body: body["body"] ?? "", at: new Date().toISOString() };
        forge.comments.push(made);
        return { status: 201, body: note(made) };
      }
      case "find": {
        const branch = query.get("head")?.split(":")[1] ?? query.get("source_branch");
        const page = Number(query.get("page") ?? 1);
        const size = Number(query.get("per_page") ?? query.get("limit") ?? 30);
        const wanted = query.get("state") ?? (kind === "gitlab" ? "all" : "open");
        const some = own.filter(
          (pull) =>
            (branch === null || branch === undefined || pull.branch === branch) &&
            (wanted === "all" || (wanted === "open") === (pull.state === "open")),
        );
        return { status: 200, body: some.slice((page - 1) * size, page * size).map(shown) };
      }
      case "branch": {
        // The oldest: the real one answers in no order.
        const found = own.findLast(({ branch, base }) => branch === params["head"] && base === params["base"]);
        return found === undefined ? missing : { status: 200, body: shown(found) };
      }
      case "open": {
        const branch = body["head"] ?? body["source_branch"] ?? "";
        const base = body["base"] ?? body["target_branch"] ?? "";
        if (own.some((pull) => pull.branch === branch && pull.state === "open"))
          return kind === "github"
            ? {
                status: 422,
                body: {
                  message: "Validation Failed",
                  errors: [
                    {
                      resource: "PullRequest",
                      code: "custom",
                      message: `A pull request already exists for ${branch}.`,
                    },
                  ],
                },
              }
            : {
                status: 409,
                body: {
                  message:
                    kind === "gitlab"
                      ? ["Another open merge request already exists for this source branch: !1"]
                      : "pull request already exists for these targets",
                },
              };
        if (refOf(repo, branch) === undefined || refOf(repo, base) === undefined)
          return {
            status: 422,
            body: {
              message: "Validation Failed",
              errors: [{ resource: "PullRequest", field: "head", code: "invalid" }],
            },
          };
        const pull: Kept = {
          number: forge.pulls.length + 1,
          repo,
          branch,
          base,
          state: "open",
          title: "",
          body: "",
          draft: false,
          labels: [],
        };
        pull.draft = (body["draft"] as unknown) === true;
        text(pull);
        forge.pulls.push(pull);
        return { status: 201, body: shown(pull) };
      }
      case "update":
        if (one === undefined) return missing;
        text(one);
        if (body["add_labels"] !== undefined) one.labels.push(...body["add_labels"].split(","));
        return { status: 200, body: shown(one) };
      case "read":
        return one === undefined ? missing : { status: 200, body: shown(one) };
      default:
        return missing;
    }
  };

  /** The operation of a path, and what stands in it. */
  const find = (method: string, path: string) => {
    for (const [name, operation] of Object.entries(description.operations)) {
      const [verb = "", template = ""] = name.split(" ");
      const keys = [...template.matchAll(/\{(\w+)\}/g)].map(([, key = ""]) => key);
      const match = new RegExp(`^${template.replaceAll(/\{\w+\}/g, "([^/]+)")}$`).exec(path);
      if (verb === method && match !== null)
        return {
          operation,
          params: Object.fromEntries(keys.map((key, at) => [key, decodeURIComponent(match[at + 1] ?? "")])),
        };
    }
    return undefined;
  };

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse, path: string): Promise<void> => {
    const url = new URL(path, "http://forge");
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body: unknown = text === "" ? undefined : JSON.parse(text);
    const found = find(incoming.method ?? "", url.pathname);
    const name = found === undefined ? "" : (operationsOf[found.operation.operationId] ?? "");
    forge.calls.push(name || `${incoming.method} ${url.pathname}`);
    const wrong =
      found === undefined ? [`${incoming.method} ${url.pathname}`] : validate(found.operation, url.searchParams, body);
    forge.violations.push(...wrong);
    const at = forge.troubles.findIndex(({ on }) => on === name);
    const [trouble] = at < 0 ? [] : forge.troubles.splice(at, 1);
    const answer = (): Answer => {
      const { app } = forge;
      const asApp = name === "installation" || name === "token";
      const problem = asApp ? (app?.problemOf(incoming.headers.authorization) ?? undefined) : undefined;
      if (problem !== undefined) return { status: 401, body: { message: problem } };
      const shown = incoming.headers.authorization?.replace(/^Bearer /, "");
      const repository = `${found?.params["owner"]}/${found?.params["repo"]}`;
      if (!asApp && !(app === undefined ? authorized(kind, incoming.headers) : app.admits(shown, repository)))
        return { status: 401, body: { message: "Bad credentials" } };
      if (found === undefined || wrong.length > 0) return { status: 422, body: { message: wrong.join("; ") } };
      return carryOut(
        found.operation.operationId,
        found.params,
        url.searchParams,
        (body ?? {}) as Record<string, string>,
      );
    };
    const done = trouble === undefined || trouble.after === true ? answer() : undefined;
    await trouble?.run?.();
    if (trouble !== undefined && trouble.status === undefined) return void incoming.socket.destroy();
    const { status, body: said } =
      trouble === undefined
        ? (done as Answer)
        : { status: trouble.status ?? 500, body: trouble.body ?? { message: "Trouble" } };
    outgoing
      .writeHead(status, { "content-type": "application/json; charset=utf-8", ...trouble?.headers })
      .end(JSON.stringify(said));
  };

  host.before = async (incoming, outgoing) => {
    const path = incoming.url ?? "";
    if (!path.startsWith(`${roots[kind]}/`)) return false;
    await serve(incoming, outgoing, path.slice(roots[kind].length));
    return true;
  };
  return forge;
};
