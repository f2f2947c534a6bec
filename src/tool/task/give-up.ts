import { z } from "zod";
import { failed, ok } from "../result.ts";
import type { Tool } from "../tool.ts";

const input = z.strictObject({ why: z.string().min(1).max(4000), tried: z.string().min(1).max(4000) });

/**
 * The service gives this tool to the lead agent of a Task. The description is short, because the first request has
 * little room.
 */
export const giveUp: Tool<z.infer<typeof input>> = {
  name: "give_up",
  description: "Ends a Task that cannot be done, as a red run showed",
  input,
  effect: "log",
  run({ why, tried }, context) {
    const { sessionID, callID } = context;
    if (!context.state().seenRed)
      return Promise.resolve(
        failed(
          "Expected a command or check that has failed in this attempt before you give up; none has. Run what shows that it cannot be done. The Task continues.",
        ),
      );
    const facts = [{ type: "task.abandoned" as const, data: { sessionID, callID, why, tried } }];
    return Promise.resolve({ ...ok("The Task ends as failed."), facts });
  },
};
