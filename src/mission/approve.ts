import { createHash } from "node:crypto";
import { planKey } from "../domain/mission/approval.ts";
import { planQuestion } from "../domain/mission/plan-change.ts";
import { endAsks } from "../domain/session/ask.ts";
import { openAsks } from "../domain/state/stream.ts";
import { newID } from "../id.ts";
import type { MissionRun } from "./run.ts";

/** Asks whether the plan may be carried out. One that was asked about before it was changed is void. */
export const askPlan = async (run: MissionRun): Promise<void> => {
  const state = run.state();
  const subject = createHash("sha256").update(planKey(state)).digest("hex");
  const before = openAsks(state).filter(({ kind }) => kind === "approval");
  await run.record(
    [
      ...endAsks(before, "void"),
      {
        type: "ask.opened",
        data: {
          askID: newID("ask"),
          sessionID: run.stream,
          callID: null,
          kind: "approval",
          of: "plan",
          would: { subject, commit: null, tree: null, branch: null },
          prompt: planQuestion(state),
          options: ["allow", "deny"],
          default: null,
          expiresAt: null,
        },
      },
    ],
    { decidedAt: state.version },
  );
};
