import { z } from "zod";
import { ForgeRefused } from "../repository.ts";
import { type Call, isExisting, isMissing } from "./call.ts";
import { type Forge, type ForgePlace, type Found, webURL } from "./forge.ts";
import { createRequest, unwrapError } from "./octokit.ts";

/** Pull requests of GitHub, by its own client. */

const pull = z.object({
  number: z.number().int().positive(),
  html_url: webURL,
  state: z.enum(["open", "closed"]),
  merged_at: z.string().nullable(),
  head: z.object({ sha: z.string() }),
  draft: z.boolean().optional(),
});

/** Most pages of comments since a Task began. */
const mostPages = 20;

const foundOf = (data: unknown): Found => {
  const parsed = pull.safeParse(data);
  if (!parsed.success) throw new ForgeRefused(200, "GitHub sent an answer that is not a pull request");
  const { number, html_url: url, state, merged_at: merged, head, draft = false } = parsed.data;
  return { number, url, state: merged === null ? state : "merged", head: head.sha, draft };
};

export const createGitHub = ({ api, path, token }: ForgePlace, call: Call): Forge => {
  const [owner = "", repo = ""] = path.split("/");
  const of = createRequest(api, token, call);

  return {
    async find(branch, _base, signal) {
      const { data } = await unwrapError(
        of(signal)("GET /repos/{owner}/{repo}/pulls", {
          owner,
          repo,
          head: `${owner}:${branch}`,
          state: "all",
          sort: "created",
          direction: "desc",
          per_page: 30,
        }),
      );
      const all = Array.isArray(data) ? data.map(foundOf) : [];
      return all.find(({ state }) => state === "open") ?? all[0];
    },
    async open({ title, body, draft, branch, base }, signal) {
      try {
        const wanted = { owner, repo, title, body, head: branch, base, ...(draft ? { draft } : {}) };
        return foundOf((await unwrapError(of(signal)("POST /repos/{owner}/{repo}/pulls", wanted))).data);
      } catch (error) {
        if (isExisting(error)) return "exists";
        throw error;
      }
    },
    async update(number, { title, body }, signal) {
      const wanted = { owner, repo, pull_number: number, title, body };
      return foundOf((await unwrapError(of(signal)("PATCH /repos/{owner}/{repo}/pulls/{pull_number}", wanted))).data);
    },
    async label(issue_number, labels, signal) {
      const wanted = { owner, repo, issue_number, labels: [...labels] };
      await unwrapError(of(signal)("POST /repos/{owner}/{repo}/issues/{issue_number}/labels", wanted));
    },
    async isSaid({ number: issue_number, mark, since }, signal) {
      for (let page = 1; page <= mostPages; page += 1) {
        const asked = { owner, repo, issue_number, since: since.toISOString(), per_page: 100, page };
        const { data } = await unwrapError(
          of(signal)("GET /repos/{owner}/{repo}/issues/{issue_number}/comments", asked),
        );
        const some = Array.isArray(data) ? data : [];
        if (some.some(({ body }) => body?.includes(mark) === true)) return true;
        if (some.length < 100) return false;
      }
      throw new ForgeRefused(0, "the issue has more comments than are searched");
    },
    async say({ number: issue_number, text: body }, signal) {
      const wanted = { owner, repo, issue_number, body };
      await unwrapError(of(signal)("POST /repos/{owner}/{repo}/issues/{issue_number}/comments", wanted));
    },
    async read(number, signal) {
      try {
        const wanted = { owner, repo, pull_number: number };
        return foundOf((await unwrapError(of(signal)("GET /repos/{owner}/{repo}/pulls/{pull_number}", wanted))).data);
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
  };
};
