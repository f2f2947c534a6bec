import type { Log } from "../../log.ts";
import type { Missions } from "../../mission/missions.ts";
import type { MissionStatus } from "../../protocol/mission/status.ts";
import type { Limits } from "../../protocol/limit.ts";
import type { OperationID, Routes } from "../../protocol/route/table.ts";
import { checkAttachments } from "../request/attachment.ts";
import { cursorOf } from "../request/cursor.ts";
import type { Call, Handler } from "../request/call.ts";
import type { RunOnce } from "../request/idempotency.ts";
import { matchesTag, tagged, tagOf, unchanged } from "../response/etag.ts";
import { nextLink } from "../response/link.ts";
import { type HttpAnswer, empty, json, whenGone } from "../response/response.ts";
import type { Streams } from "../stream/event-stream.ts";
import { accepted, sendArchive } from "./answer.ts";

/**
 * The Mission routes: from a parsed call to `Missions` and back. Malformed ids have been refused by request/serve.ts.
 */

type Deps = { missions: Missions; runOnce: RunOnce; streams: Streams; limits: Limits; log: Log };

type MissionRoute = Extract<OperationID, `mission.${string}`>;

const listSize = 50;
const messagesSize = 200;

export const createMissionHandlers = (deps: Deps): { [ID in MissionRoute]: Handler<Routes[ID]> } => {
  const { missions, runOnce, streams, limits, log } = deps;

  const list = async ({
    entry,
    directory,
    query,
    prefixed,
    incoming,
    outgoing,
  }: Call<Routes["mission.list" | "mission.all"]>): Promise<HttpAnswer> => {
    const { limit = listSize, cursorUpdated, cursorSessionID, search, priority, archived } = query;
    const cursor = cursorOf("sessionID", cursorUpdated, cursorSessionID);
    // One more than asked for, to find out whether there is a next page.
    const asked = {
      ...(search === undefined ? {} : { search }),
      ...(priority === undefined ? {} : { priority }),
      ...(Object.keys(prefixed).length === 0 ? {} : { metadata: prefixed }),
      ...(archived === undefined ? {} : { archived }),
      ...(cursor === undefined ? {} : { cursor }),
      limit: limit + 1,
    };
    const found = await missions.list(directory, asked, whenGone(outgoing));
    const page = found.slice(0, limit);
    const last = found.length > limit ? page.at(-1) : undefined;
    const next = last && { cursorUpdated: last.updated, cursorSessionID: last.sessionID };
    return json(entry, 200, page, next && nextLink(incoming.url ?? "", next));
  };

  const status = async ({
    entry,
    params,
    directory,
    query,
    incoming,
    outgoing,
    head,
  }: Call<Routes["mission.status" | "mission.get"]>): Promise<HttpAnswer> => {
    const had = incoming.headers["if-none-match"];
    const now = async () => {
      const status = await missions.status(directory, params.missionID);
      // The ETag leaves out the time at which the status was generated.
      return { status, etag: tagOf(JSON.stringify({ ...status, generatedAt: null })) };
    };
    if (query.wait !== undefined && query.wait > 0 && !head) {
      const sessionID = await missions.find(directory, params.missionID);
      await streams.wait({ entry, outgoing }, query.wait, sessionID, async () => {
        const { status, etag } = await now();
        if (had !== undefined) return !matchesTag(had, etag);
        const still = status.status === "inactive" && status.agentStatus === "inactive";
        // A Mission is also inactive between the end of a Task and its agent's next turn.
        return still && (status.finished !== null || status.error !== undefined || ended.has(status.state));
      });
    }
    const { status, etag } = await now();
    return unchanged(entry, had, etag) ?? json(entry, 200, status, tagged(etag));
  };

  return {
    "mission.wake": async ({ entry, directory, body, once }) => {
      await checkAttachments(body.attachments, limits);
      return accepted(entry, await runOnce(once, () => missions.wake(directory, body, once)));
    },
    "mission.list": list,
    "mission.all": list,
    "mission.status": status,
    "mission.get": status,
    "mission.events": (call) => streams.ofMission(call),
    "mission.messages": async ({ entry, params, directory, query, incoming, outgoing }) => {
      const page = { after: query.after ?? 0, limit: query.limit ?? messagesSize };
      const found = await missions.messages(directory, params.missionID, page, whenGone(outgoing));
      const { nextAfter } = found;
      return json(
        entry,
        200,
        found,
        nextAfter === null ? undefined : nextLink(incoming.url ?? "", { after: nextAfter }),
      );
    },
    "mission.rename": async ({ entry, params, directory, body }) =>
      json(entry, 200, await missions.update(directory, params.missionID, body)),
    "mission.archive": async ({ entry, params, directory, body }) =>
      json(entry, 200, await missions.update(directory, params.missionID, body)),
    "mission.abort": async ({ entry, params, directory, body, once }) =>
      accepted(entry, await runOnce(once, () => missions.abort(directory, params.missionID, body, once))),
    "mission.delete": async ({ entry, params, directory }) => {
      await missions.remove(directory, params.missionID);
      return json(entry, 200, { missionID: params.missionID, deleted: true });
    },
    "mission.answer": async ({ entry, params, directory, body, once, caller }) =>
      accepted(
        entry,
        await runOnce(once, () => missions.answer(directory, params.missionID, params.askID, body, once, caller)),
      ),
    "mission.plan": async ({ entry, params, directory, body, once, caller }) =>
      accepted(entry, await runOnce(once, () => missions.plan(directory, params.missionID, body, once, caller))),
    "mission.merge": async ({ entry, params, directory, once }) =>
      accepted(entry, await runOnce(once, () => missions.merge(directory, params.missionID, once))),
    "mission.projectArchive": async ({ entry, params, directory, head, outgoing }) => {
      if (head) {
        await missions.status(directory, params.missionID);
        return empty(entry, 200, { "content-type": "application/zip" });
      }
      const gone = whenGone(outgoing);
      return sendArchive(entry, outgoing, await missions.archive(directory, params.missionID, gone), log);
    },
  };
};

/** States in which a Mission does not continue by itself. */
const ended: ReadonlySet<string> = new Set<MissionStatus["state"]>(["paused", "stalled", "blocked", "done", "aborted"]);
