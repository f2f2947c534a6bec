import type { DomainEvent } from "../../domain/event.ts";
import { missionAgent } from "../../domain/mission/evolve.ts";
import { newID } from "../../id.ts";
import { noUsage } from "../../model/model.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { MissionRun } from "../run.ts";

/** Records that the agent cannot continue: it sleeps until a wake lets it try again. */
export const failTurn = async (run: MissionRun, failure: TurnFailure): Promise<void> => {
  const { version, model } = run.state();
  const event: DomainEvent = {
    type: "reply.finished",
    data: {
      messageID: newID("msg"),
      sessionID: run.stream,
      agent: missionAgent,
      model,
      read: version,
      text: "",
      calls: [],
      finish: "failed",
      failure,
      usage: noUsage,
      durationMs: 0,
    },
  };
  await run.record([event], { decidedAt: version });
};
