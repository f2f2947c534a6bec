import { IssueNotes, MergeRequests } from "@gitbeaker/core";
import { createRequesterFn } from "@gitbeaker/requester-utils";
import { z } from "zod";
import { ForgeRefused } from "../repository.ts";
import { type Call, isExisting, isMissing, jsonOf } from "./call.ts";
import { type Forge, type ForgePlace, type Found, webURL } from "./forge.ts";

/** Merge requests of GitLab, by a maintained client of its interface. */

const merge = z.object({
  iid: z.number().int().positive(),
  title: z.string(),
  web_url: webURL,
  state: z.enum(["opened", "closed", "locked", "merged"]),
  sha: z.string().nullable(),
  source_project_id: z.number().nullable(),
  target_project_id: z.number(),
});

const notes = z.array(z.object({ body: z.string(), created_at: z.string() }));
/** Most pages of comments since a Task began. */
const mostPages = 20;

type Merge = z.infer<typeof merge>;

/** `locked`: the merge is under way. */
const states = { opened: "open", locked: "open", closed: "closed", merged: "merged" } as const;

/** A draft is marked by its title. */
const isDraft = (title: string): boolean => /^(draft:|\[draft\]|\(draft\))/i.test(title);
const titled = (title: string, draft: boolean): string => (draft ? `Draft: ${title}` : title);

const foundOf = ({ iid, title, web_url: url, state, sha }: Merge): Found => ({
  draft: isDraft(title),
  number: iid,
  url,
  state: states[state],
  head: sha ?? "",
});

export const createGitLab = ({ api, path, token }: ForgePlace, call: Call): Forge => {
  const { host } = new URL(api);
  const one = (data: unknown): Merge => {
    const parsed = merge.safeParse(data);
    if (!parsed.success) throw new ForgeRefused(200, `${host} sent an answer that is not a merge request`);
    return parsed.data;
  };
  /** `below`: the part of the path that this resource of the client leaves out of its addresses. */
  const by = (signal: AbortSignal, below: "" | "projects/" = "") => ({
    host: new URL(api).origin,
    token,
    requesterFn: createRequesterFn(
      (_service, request) => Promise.resolve(request),
      async (endpoint, options = {}) => {
        const { method, headers, body, searchParams } = options as {
          method: "GET";
          headers: Record<string, string>;
          body?: string;
          searchParams?: string;
        };
        const url = `${api}/${below}${endpoint}${searchParams === undefined ? "" : `?${searchParams}`}`;
        const answer = await call({ method, url, headers, body }, signal);
        return {
          body: jsonOf(answer, host) as Record<string, unknown>,
          headers: answer.headers,
          status: answer.status,
        };
      },
    ),
  });
  const of = (signal: AbortSignal) => new MergeRequests(by(signal));

  return {
    async find(branch, _base, signal) {
      const data: unknown = await of(signal).all({
        projectId: path,
        sourceBranch: branch,
        scope: "all",
        orderBy: "created_at",
        sort: "desc",
        perPage: 30,
        maxPages: 1,
      });
      const own = (Array.isArray(data) ? data.map(one) : []).filter(
        (each) => each.source_project_id === each.target_project_id,
      );
      const found = own.find(({ state }) => states[state] === "open") ?? own[0];
      return found && foundOf(found);
    },
    async open({ title, body, draft, branch, base }, signal) {
      try {
        return foundOf(one(await of(signal).create(path, branch, base, titled(title, draft), { description: body })));
      } catch (error) {
        if (isExisting(error)) return "exists";
        throw error;
      }
    },
    update: async (number, { title, body, draft }, signal) =>
      foundOf(one(await of(signal).edit(path, number, { title: titled(title, draft), description: body }))),
    async label(number, labels, signal) {
      await of(signal).edit(path, number, { addLabels: labels.join(",") });
    },
    async isSaid({ number, mark, since }, signal) {
      for (let page = 1; page <= mostPages; page += 1) {
        const asked = { orderBy: "created_at", sort: "desc", perPage: 100, page, maxPages: 1 } as const;
        const data: unknown = await new IssueNotes(by(signal, "projects/")).all(path, number, asked);
        const some = notes.parse(data);
        if (some.some(({ body }) => body.includes(mark))) return true;
        if (some.length < 100 || some.some(({ created_at: at }) => Date.parse(at) < since.getTime())) return false;
      }
      throw new ForgeRefused(0, "the issue has more comments than are searched");
    },
    async say({ number, text }, signal) {
      await new IssueNotes(by(signal, "projects/")).create(path, number, text);
    },
    async read(number, signal) {
      try {
        return foundOf(one(await of(signal).show(path, number)));
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
  };
};
