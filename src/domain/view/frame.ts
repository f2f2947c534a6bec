import type { Frame } from "../../protocol/event/frame.ts";
import { isMission, type Recorded, sessionOf } from "../event.ts";

/**
 * A recorded event as the event stream sends it. `missionID`: the Mission that it belongs to, or that dispatched the
 * Task.
 */
export const frameOf = (event: Recorded, missionID?: string): Frame => {
  const { position, type, stream, at, data } = event;
  const sessionID = sessionOf(event);
  return {
    id: position,
    type,
    ...(isMission(stream) ? {} : { taskID: stream }),
    ...(missionID === undefined ? {} : { missionID }),
    ...(sessionID === undefined ? {} : { sessionID }),
    at,
    data,
  } as Frame;
};
