import { z } from "zod";
import { ForgeRefused } from "../repository.ts";
import { type Call, isExisting, isMissing, jsonOf } from "./call.ts";
import { type Forge, type ForgePlace, type Found, webURL } from "./forge.ts";

/**
 * Pull requests of Gitea and Forgejo. Their clients for Node describe versions that are years old, and this takes only
 * a few calls.
 */

const pull = z.object({
  number: z.number().int().positive(),
  title: z.string(),
  html_url: webURL,
  state: z.enum(["open", "closed"]),
  merged: z.boolean(),
  head: z.object({ ref: z.string(), sha: z.string(), repo_id: z.number() }),
  base: z.object({ repo_id: z.number() }),
});

type Pull = z.infer<typeof pull>;

/** A draft is marked by its title. */
const draftPrefix = "WIP: ";
const isDraft = (title: string): boolean => /^(wip:|\[wip\])/i.test(title);

const foundOf = ({ number, title, html_url: url, state, merged, head }: Pull): Found => ({
  draft: isDraft(title),
  number,
  url,
  state: merged ? "merged" : state,
  head: head.sha,
});

const comments = z.array(z.object({ body: z.string() }));

const titled = (title: string, draft: boolean): string => (draft ? `${draftPrefix}${title}` : title);

/** Most pages of open pull requests that are searched for a branch that has a closed one, too. */
const mostPages = 20;
const perPage = 50;

export const createGitea = ({ api, path, token }: ForgePlace, call: Call): Forge => {
  const own = `${api}/repos/${path.split("/").map(encodeURIComponent).join("/")}`;
  const root = `${own}/pulls`;
  const issues = `${own}/issues`;
  const { host } = new URL(api);
  const ask = async (
    method: "GET" | "POST" | "PATCH",
    url: string,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<unknown> => {
    const headers = { accept: "application/json", authorization: `token ${token}` };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const typed = body === undefined ? headers : { ...headers, "content-type": "application/json" };
    return jsonOf(await call({ method, url, headers: typed, ...sent }, signal), host);
  };
  const one = (data: unknown): Pull => {
    const parsed = pull.safeParse(data);
    if (!parsed.success) throw new ForgeRefused(200, `${host} sent an answer that is not a pull request`);
    return parsed.data;
  };
  const maybe = async (url: string, signal: AbortSignal): Promise<Pull | undefined> => {
    try {
      return one(await ask("GET", url, undefined, signal));
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  };

  return {
    async find(branch, base, signal) {
      const any = await maybe(`${root}/${encodeURIComponent(base)}/${encodeURIComponent(branch)}`, signal);
      if (any === undefined || any.state === "open") return any && foundOf(any);
      // The answer is any pull request of the branch, in no order, so an open one is looked for among the open ones.
      for (let page = 1; page <= mostPages; page += 1) {
        const url = `${root}?state=open&sort=recentupdate&limit=${perPage}&page=${page}`;
        const data = await ask("GET", url, undefined, signal);
        const some = Array.isArray(data) ? data.map(one) : [];
        const open = some.find(({ head, base: { repo_id: own } }) => head.ref === branch && head.repo_id === own);
        if (open !== undefined) return foundOf(open);
        if (some.length === 0) break;
      }
      return foundOf(any);
    },
    async open({ title, body, draft, branch, base }, signal) {
      try {
        return foundOf(one(await ask("POST", root, { title: titled(title, draft), body, head: branch, base }, signal)));
      } catch (error) {
        if (isExisting(error)) return "exists";
        throw error;
      }
    },
    update: async (number, { title, body, draft }, signal) =>
      foundOf(one(await ask("PATCH", `${root}/${number}`, { title: titled(title, draft), body }, signal))),
    async label(number, labels, signal) {
      await ask("POST", `${issues}/${number}/labels`, { labels }, signal);
    },
    async isSaid({ number, mark, since }, signal) {
      const url = `${issues}/${number}/comments?${new URLSearchParams({ since: since.toISOString() }).toString()}`;
      const data = await ask("GET", url, undefined, signal);
      return comments.parse(data).some(({ body }) => body.includes(mark));
    },
    async say({ number, text: body }, signal) {
      await ask("POST", `${issues}/${number}/comments`, { body }, signal);
    },
    async read(number, signal) {
      const found = await maybe(`${root}/${number}`, signal);
      return found && foundOf(found);
    },
  };
};
