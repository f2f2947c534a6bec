import type { ServiceSource } from "../../protocol/event/source.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { rootOf } from "../../domain/state/stream.ts";
import { newID } from "../../id.ts";
import { keepText } from "../../store/blob/text.ts";
import type { Run } from "../run.ts";

/**
 * A message from the service to the Orchestrator about checks, a review, a permission rule or a landing; it is read
 * before the next step.
 */
export const messageFromService = async (run: Run, source: ServiceSource, text: string): Promise<DomainEvent> => ({
  type: "message.received",
  data: {
    messageID: newID("msg"),
    sessionID: rootOf(run.state()),
    source,
    text: await keepText(run.store.blobs, text),
    attachments: [],
    disposition: "steered",
  },
});

/** A message from the service to the agent of a delegated session, which reads it before its next reply. */
export const passedByService = async (
  run: Pick<Run, "store">,
  sessionID: string,
  source: ServiceSource,
  text: string,
): Promise<DomainEvent> => ({
  type: "message.passed",
  data: {
    messageID: newID("msg"),
    sessionID,
    source,
    text: await keepText(run.store.blobs, text),
    attachments: [],
  },
});
