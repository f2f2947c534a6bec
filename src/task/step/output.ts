import type { DomainEvent } from "../../domain/event.ts";
import { refusalsLeft } from "../../domain/session/output.ts";
import { rootOf } from "../../domain/state/stream.ts";
import type { Run } from "../run.ts";
import { messageFromService } from "./message.ts";

/**
 * Records that the agent ended its turn without the output that the request wants, and asks for it, unless that was the
 * last time.
 */
export const askOutput = async (run: Run): Promise<void> => {
  const state = run.state();
  const given = state.output?.value !== null;
  const reason = given ? "files were changed after it was given" : "the agent ended its turn without one";
  const refused: DomainEvent = { type: "output.refused", data: { sessionID: rootOf(state), callID: null, reason } };
  const text = given
    ? "You changed files after you gave the Task's output. Give it once more, as it is now, with `give_output`."
    : "The Task's output is missing: words are no output. Give it with `give_output`, as the schema in your instructions says.";
  const asked = refusalsLeft(state) > 0 ? [await messageFromService(run, "output", text)] : [];
  await run.record([refused, ...asked], { decidedAt: state.version });
};
