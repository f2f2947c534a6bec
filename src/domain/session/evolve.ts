import type { EventData } from "../../protocol/event/event.ts";
import type { Recorded } from "../event.ts";
import type { OpenCall, StreamState } from "../state/stream.ts";
import { callHash } from "./repetition.ts";
import { withModel, withRepetition, afterReply, addUsage } from "./session.ts";
import { afterPause, pauseClock, resumeClock, timeUntil } from "./work-time.ts";

/** Folds the events that Tasks and Missions share: agents reply, call tools, ask and wait. */

type Talk = Recorded & {
  type:
    | "run.stopped"
    | "run.paused"
    | "run.resumed"
    | "reply.finished"
    | "reply.retried"
    | "task.deferred"
    | "model.switched"
    | "tool.started"
    | "tool.finished"
    | "conversation.compacted"
    | "ask.opened"
    | "ask.answered"
    | "ask.passed"
    | "ask.reminded"
    | "permission.decided";
};

export const evolveSession = <S extends StreamState>(state: S, event: Talk): S => {
  switch (event.type) {
    case "run.stopped":
      return { ...state, stopped: true, time: { ms: timeUntil(state, event.at), since: null } };
    case "run.paused":
      // If the process ends during the pause, the run counts as stopped: no step was under way.
      return {
        ...state,
        pause: { at: event.at, code: event.data.code, reason: event.data.reason },
        stopped: true,
        time: { ms: timeUntil(state, event.at), since: null },
      };
    case "run.resumed":
      return { ...afterPause(state, event.data.since, event.at), stopped: false };
    case "reply.finished":
      return {
        ...state,
        ...afterReply(state, event),
        time: state.time.since === null && state.pause === null ? { ...state.time, since: event.at } : state.time,
        retry: null,
        tried: [],
        quotaSince: null,
        steps: state.steps + 1,
        messages: state.messages + 1,
      };
    case "reply.retried":
      return { ...state, retry: event.data };
    case "task.deferred": {
      const { until, reason } = event.data;
      return {
        ...state,
        deferred: { at: event.at, until, reason },
        time: { ms: timeUntil(state, event.at), since: null },
        quotaSince: state.quotaSince ?? event.at,
        retry: null,
        tried: [],
      };
    }
    case "model.switched":
      return {
        ...state,
        ...withModel(state, event.data.sessionID, event.data.to),
        tried: [...state.tried, event.data.from],
        retry: null,
      };
    case "tool.started": {
      const { callID, sessionID, tool, effect, input } = event.data;
      const hash = callHash(tool, input, callID);
      const call: OpenCall = { callID, sessionID, tool, effect, hash, ...labelOf(tool, input) };
      return resumeClock({ ...state, open: [...state.open, call] }, event.at);
    }
    case "tool.finished": {
      const { callID } = event.data;
      const call = state.open.find((open) => open.callID === callID);
      return pauseClock(
        {
          ...state,
          open: state.open.filter((open) => open.callID !== callID),
          asks: state.asks.filter((ask) => ask.callID !== callID),
          ...(call === undefined ? {} : withRepetition(state, event, call.hash)),
        },
        event.at,
      );
    }
    case "conversation.compacted": {
      const { sessionID, usage, by } = event.data;
      return { ...state, ...addUsage(state, sessionID, usage, { model: by === "service" ? 0 : 1, tool: 0 }) };
    }
    case "ask.opened": {
      const { kind } = event.data;
      const asks = [...state.asks, { ...event.data, answer: null, begun: false, openedAt: event.at, reminded: 0 }];
      const asked = kind === "approval" ? state.asked : { ...state.asked, [kind]: state.asked[kind] + 1 };
      return pauseClock({ ...state, asks, asked }, event.at);
    }
    case "ask.answered": {
      const { askID } = event.data;
      const asks = state.asks.filter((ask) => ask.kind !== "approval" || ask.askID !== askID);
      return { ...state, asks: asks.map((ask) => (ask.askID === askID ? { ...ask, answer: event.data } : ask)) };
    }
    case "ask.passed": {
      const { askID, expiresAt } = event.data;
      const asks = state.asks.map((ask) => {
        if (ask.askID !== askID) return ask;
        const { passesAt: _, ...own } = ask;
        return { ...own, expiresAt, openedAt: event.at };
      });
      return { ...state, asks };
    }
    case "ask.reminded": {
      const { askIDs } = event.data;
      return {
        ...state,
        asks: state.asks.map((ask) => (askIDs.includes(ask.askID) ? { ...ask, reminded: ask.reminded + 1 } : ask)),
      };
    }
    case "permission.decided": {
      const { callID, decision } = event.data;
      const begun = state.asks.map((ask) => (ask.callID === callID ? { ...ask, begun: true } : ask));
      return decision === "allow" ? resumeClock({ ...state, asks: begun }, event.at) : state;
    }
  }
};

/** The first line of a call's command. */
const labelOf = (tool: string, input: EventData["tool.started"]["input"]): { label?: string } => {
  const command = typeof input === "object" && input !== null && "command" in input ? input.command : undefined;
  if (tool !== "shell" || typeof command !== "string") return {};
  const [line = ""] = command.trim().split("\n");
  return { label: line.length > 100 ? `${line.slice(0, 100)}…` : line };
};
